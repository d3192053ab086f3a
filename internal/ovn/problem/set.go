// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Set is the unusable values of a row or network. It is part of the row. The zero Set is empty.
type Set struct{ set *problemSet }

// problemSet is immutable once its row is applied, except fresh and more.
type problemSet struct {
	of    map[place]reading
	count int
	// stored counts the texts, at most MaxReports.
	stored int
	// fresh are texts that the previous reading of their place did not report. more counts further values
	// without a text.
	fresh []string
	more  int
}

type place struct{ column, key string }

type reading struct {
	texts  []string
	hashes map[uint64]struct{}
}

const (
	// Tenants can write any number of bad values.
	maxTexts = 3
	// MaxReports bounds the logged texts since the start, and the fresh and stored texts of a row.
	MaxReports = 1000
)

var textSeed = maphash.MakeSeed()

func (p *Set) Problems() *Set { return p }

func (p *Set) IsEmpty() bool { return p.set == nil || p.set.count == 0 }

func (p *Set) takeFresh() (texts []string, more int) {
	if p.set == nil || len(p.set.fresh) == 0 {
		return nil, 0
	}
	texts, more = p.set.fresh, p.set.more
	p.set.fresh, p.set.more = nil, 0
	return texts, more
}

func (p *Set) edit(column string) *Editor {
	e := &Editor{Set: p, at: place{column: column}}
	if p.set != nil {
		e.before = p.set.of
	}
	return e
}

func (p *Set) Replace(column string) *Editor {
	e := p.edit(column)
	for at := range e.before {
		if at.column == column {
			e.drop(at)
		}
	}
	return e
}

// Report returns a function that replaces the problems of a column. row is how an operator finds the row.
func (p *Set) Report(database, table string, row fmt.Stringer, column string) names.Report {
	return p.Replace(column).report(database, table, row)
}

// Reports is Report for a column whose keys are read one by one: all keys, or those of a difference.
func (p *Set) Reports(database, table string, row fmt.Stringer, column string, diff bool) names.Reports {
	edit := p.Replace
	if diff {
		edit = p.edit
	}
	e := edit(column)
	return names.Reports{Begin: e.Begin, Bad: e.report(database, table, row)}
}

// Texts returns the texts about a key of a column. There may be more problems than texts.
func (p *Set) Texts(column, key string) []string {
	if p.set == nil {
		return nil
	}
	return p.set.of[place{column, key}].texts
}

// Editor edits the problems of one column. Its first change copies the shared problemSet.
type Editor struct {
	*Set
	before map[place]reading
	copied bool
	at     place
}

func (e *Editor) copy() *problemSet {
	if !e.copied {
		next := &problemSet{of: make(map[place]reading)}
		if was := e.set; was != nil {
			next.count, next.stored, next.fresh, next.more = was.count, was.stored, slices.Clone(was.fresh), was.more
			maps.Copy(next.of, was.of)
		}
		e.set, e.copied = next, true
	}
	return e.set
}

func (e *Editor) drop(at place) {
	s := e.copy()
	s.count -= len(s.of[at].hashes)
	s.stored -= len(s.of[at].texts)
	delete(s.of, at)
}

func (e *Editor) Begin(key string) {
	e.at.key = key
	if e.set == nil {
		return
	}
	if _, ok := e.set.of[e.at]; ok {
		e.drop(e.at)
	}
}

func (e *Editor) Add(text string) {
	s, hash := e.copy(), maphash.String(textSeed, text)
	r := s.of[e.at]
	if _, ok := r.hashes[hash]; ok {
		return
	}
	if r.hashes == nil {
		r.hashes = make(map[uint64]struct{})
	}
	r.hashes[hash] = struct{}{}
	if len(r.texts) < maxTexts && s.stored < MaxReports {
		r.texts = append(r.texts, text)
		s.stored++
	}
	s.of[e.at] = r
	s.count++
	if _, was := e.before[e.at].hashes[hash]; was {
		return
	}
	if len(s.fresh) < MaxReports {
		s.fresh = append(s.fresh, text)
		return
	}
	s.more++
}

func (e *Editor) report(database, table string, row fmt.Stringer) names.Report {
	return ReportOf(database, table, row, e.Add)
}

func ReportOf(database, table string, row fmt.Stringer, add func(text string)) names.Report {
	return func(where, value string, err error) {
		of := ""
		if value != "" { // otherwise the name is wrong, or the value missing
			of = fmt.Sprintf(": value %.80q", value)
		}
		add(fmt.Sprintf("%s: %s %s: %.80q%s skipped: %v", database, table, row, where, of, err))
	}
}
