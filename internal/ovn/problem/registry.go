// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

const MaxFirst = 3

type Summary struct {
	Count int
	// First are the texts of the rows that were read first.
	First []string
}

func OfNetwork(id origin.Network) Row { return Row{Table: "network", ID: ovsdb.UUID(id)} }

// Registry has the problems of all present rows and networks. Source.mu guards it.
type Registry struct {
	present map[Row]badOfRow
	added   uint64
	// logged, Count and Last are since the start.
	logged map[string]struct{}
	Count  uint64
	Last   string
}

type badOfRow struct {
	*problemSet
	number uint64
}

func NewRegistry() Registry {
	return Registry{present: make(map[Row]badOfRow), logged: make(map[string]struct{})}
}

func (b *Registry) OfNetwork(id origin.Network) Set {
	return Set{b.present[OfNetwork(id)].problemSet}
}

// Set sets the problems of a row, nil for a deleted row. lines are about fresh problems.
func (b *Registry) Set(row Row, p *Set) (lines []string) {
	if p == nil || p.IsEmpty() {
		delete(b.present, row)
		return nil
	}
	of, had := b.present[row]
	if !had {
		b.added++
		of.number = b.added
	}
	of.problemSet = p.set
	b.present[row] = of
	texts, more := p.takeFresh()
	b.Count += uint64(more)
	for _, text := range texts {
		lines = append(lines, b.add(text)...)
	}
	return lines
}

func (b *Registry) add(text string) []string {
	if _, seen := b.logged[text]; seen {
		return nil
	}
	b.Count++
	b.Last = text
	if len(b.logged) >= MaxReports {
		return nil
	}
	b.logged[text] = struct{}{}
	lines := []string{text}
	if len(b.logged) == MaxReports {
		lines = append(lines, fmt.Sprintf("that makes %d values that cannot be read; more are counted but not logged", MaxReports))
	}
	return lines
}

// Sum counts equal texts once: networks may share a row, and both databases have the values of a port.
func (b *Registry) Sum() (sum Summary) {
	hashes := make(map[uint64]struct{})
	for _, of := range b.present {
		for _, r := range of.of {
			maps.Copy(hashes, r.hashes)
		}
	}
	sum.Count = len(hashes)
	all := slices.SortedFunc(maps.Values(b.present), func(x, y badOfRow) int { return cmp.Compare(x.number, y.number) })
	for _, of := range all {
		for _, text := range of.texts() {
			if len(sum.First) < MaxFirst && !slices.Contains(sum.First, text) {
				sum.First = append(sum.First, text)
			}
		}
		if len(sum.First) == MaxFirst {
			break
		}
	}
	return sum
}

func (b *Registry) Texts() []string {
	all := make(map[string]struct{})
	for _, of := range b.present {
		for _, text := range of.texts() {
			all[text] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (s *problemSet) texts() (all []string) {
	places := slices.SortedFunc(maps.Keys(s.of), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(a.key, b.key))
	})
	for _, at := range places {
		all = append(all, s.of[at].texts...)
	}
	return all
}

// Row is a row, or a network with problems from several rows.
type Row struct {
	Database, Table string
	ID              ovsdb.UUID
}
