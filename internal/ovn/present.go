// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// firstBad is how many texts Source.BadValues returns.
const firstBad = 3

// BadValues are the values of the databases that puntdns can't use, and skips.
type BadValues struct {
	// Count is how many there are.
	Count int
	// First are up to three texts, of the rows that were read first. Each names its row.
	First []string
}

// badOfNetwork returns the badRow of a network.
func badOfNetwork(id origin.Network) badRow { return badRow{table: "network", id: ovsdb.UUID(id)} }

// badValues are the problems of all present rows and networks. Source.mu guards it.
type badValues struct {
	// present has the rows and networks with problems.
	present map[badRow]badOfRow
	// added counts the rows that were ever added.
	added uint64
	// logged has the texts that were logged since the start, and count all bad values since
	// the start. last is the text about the last one.
	logged map[string]struct{}
	count  uint64
	last   string
}

// badOfRow is the problems of a row.
type badOfRow struct {
	*problemSet
	number uint64 // in the order in which rows were added
}

func newBadValues() badValues {
	return badValues{present: make(map[badRow]badOfRow), logged: make(map[string]struct{})}
}

// ofNetwork returns the present problems of a network.
func (b *badValues) ofNetwork(id origin.Network) problems {
	return problems{b.present[badOfNetwork(id)].problemSet}
}

// set sets the problems of a row, nil for a deleted row. It returns log lines about fresh problems.
func (b *badValues) set(row badRow, p *problems) (lines []string) {
	if p == nil || p.isEmpty() {
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
	b.count += uint64(more)
	for _, text := range texts {
		lines = append(lines, b.add(text)...)
	}
	return lines
}

// add counts a fresh problem, and returns log lines about it.
func (b *badValues) add(text string) []string {
	if _, seen := b.logged[text]; seen {
		return nil
	}
	b.count++
	b.last = text
	if len(b.logged) >= maxReports {
		return nil
	}
	b.logged[text] = struct{}{}
	lines := []string{text}
	if len(b.logged) == maxReports {
		lines = append(lines, fmt.Sprintf("that makes %d values that cannot be read; more are counted but not logged", maxReports))
	}
	return lines
}

// sum sums up the present problems. Equal problems of networks, which may share a row, count once.
func (b *badValues) sum() (sum BadValues) {
	shared := make(map[uint64]struct{})
	for row, of := range b.present {
		if row.database != "" {
			sum.Count += of.count
			continue
		}
		for _, r := range of.of {
			maps.Copy(shared, r.hashes)
		}
	}
	sum.Count += len(shared)
	all := slices.SortedFunc(maps.Values(b.present), func(x, y badOfRow) int { return cmp.Compare(x.number, y.number) })
	for _, of := range all {
		for _, text := range of.texts() {
			if len(sum.First) < firstBad && !slices.Contains(sum.First, text) {
				sum.First = append(sum.First, text)
			}
		}
		if len(sum.First) == firstBad {
			break
		}
	}
	return sum
}

// texts returns all texts, sorted, each once.
func (b *badValues) texts() []string {
	all := make(map[string]struct{})
	for _, of := range b.present {
		for _, text := range of.texts() {
			all[text] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// texts returns the texts, in the order of their places.
func (s *problemSet) texts() (all []string) {
	places := slices.SortedFunc(maps.Keys(s.of), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(a.key, b.key))
	})
	for _, at := range places {
		all = append(all, s.of[at].texts...)
	}
	return all
}

// badRow is a row, or a network with what is derived of several rows.
type badRow struct {
	database, table string
	id              ovsdb.UUID
}
