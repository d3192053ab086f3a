// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// problems are the values of a row, or of a network, that can't be used. They are part of the row,
// so they change with its columns and go with it. The zero problems are empty.
type problems struct{ set *problemSet }

// problemSet is immutable once its row is applied, except for fresh and more.
type problemSet struct {
	of    map[place]reading
	count int // of values, in all readings
	// stored counts the texts of all readings, at most maxReports.
	stored int
	// fresh are texts about values that were usable, or missing, at the last reading of their
	// place: until takeFresh. more counts further values without a text.
	fresh []string
	more  int
}

// place is a column, or a key of it.
type place struct{ column, key string }

// reading is the bad values of a place: hashes of all texts about them, and the first texts.
type reading struct {
	texts  []string
	hashes map[uint64]struct{}
}

const (
	// maxTexts bounds the texts of a reading: tenants can write any number of bad values.
	maxTexts = 3
	// maxReports bounds the texts that are logged since the start, and the fresh and stored texts of a row.
	maxReports = 1000
)

var textSeed = maphash.MakeSeed()

// found returns p, for rows that embed problems.
func (p *problems) found() *problems { return p }

// isEmpty reports whether all values can be used.
func (p *problems) isEmpty() bool { return p.set == nil || p.set.count == 0 }

// takeFresh returns fresh and more, and clears them.
func (p *problems) takeFresh() (texts []string, more int) {
	if p.set == nil || len(p.set.fresh) == 0 {
		return nil, 0
	}
	texts, more = p.set.fresh, p.set.more
	p.set.fresh, p.set.more = nil, 0
	return texts, more
}

// edit returns the editor of the problems of a column.
func (p *problems) edit(column string) *problemEditor {
	e := &problemEditor{problems: p, at: place{column: column}}
	if p.set != nil {
		e.before = p.set.of
	}
	return e
}

// replace returns the editor of a column, without its present problems.
func (p *problems) replace(column string) *problemEditor {
	e := p.edit(column)
	for at := range e.before {
		if at.column == column {
			e.drop(at)
		}
	}
	return e
}

// report returns the function that replaces the problems of a column of a row.
func (p *problems) report(database, table string, id ovsdb.UUID, column string) names.Report {
	return p.replace(column).report(database, table, id)
}

// reports is report for a column whose keys are read one by one: all of them, or those of a
// difference.
func (p *problems) reports(database, table string, id ovsdb.UUID, column string, diff bool) names.Reports {
	edit := p.replace
	if diff {
		edit = p.edit
	}
	e := edit(column)
	return names.Reports{Begin: e.begin, Bad: e.report(database, table, id)}
}

// problemEditor edits the problems of one column. The first change copies the problemSet, which the
// previous version of the row has too.
type problemEditor struct {
	*problems
	before map[place]reading // of the previous version
	copied bool
	at     place
}

func (e *problemEditor) copy() *problemSet {
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

func (e *problemEditor) drop(at place) {
	s := e.copy()
	s.count -= len(s.of[at].hashes)
	s.stored -= len(s.of[at].texts)
	delete(s.of, at)
}

// begin replaces the problems of a key.
func (e *problemEditor) begin(key string) {
	e.at.key = key
	if e.set == nil {
		return
	}
	if _, ok := e.set.of[e.at]; ok {
		e.drop(e.at)
	}
}

// add adds a problem.
func (e *problemEditor) add(text string) {
	s, hash := e.copy(), maphash.String(textSeed, text)
	r := s.of[e.at]
	if _, ok := r.hashes[hash]; ok {
		return
	}
	if r.hashes == nil {
		r.hashes = make(map[uint64]struct{})
	}
	r.hashes[hash] = struct{}{}
	if len(r.texts) < maxTexts && s.stored < maxReports {
		r.texts = append(r.texts, text)
		s.stored++
	}
	s.of[e.at] = r
	s.count++
	if _, was := e.before[e.at].hashes[hash]; was {
		return
	}
	if len(s.fresh) < maxReports {
		s.fresh = append(s.fresh, text)
		return
	}
	s.more++
}

// report returns the function that adds a problem of a row.
func (e *problemEditor) report(database, table string, id ovsdb.UUID) names.Report {
	return reportOf(database, table, id, e.add)
}

// reportOf returns the function that gives add the text about a value of a row.
func reportOf(database, table string, id ovsdb.UUID, add func(text string)) names.Report {
	return func(where, value string, err error) {
		of := ""
		if value != "" { // else the name is wrong, or there is no value
			of = fmt.Sprintf(": value %.80q", value)
		}
		add(fmt.Sprintf("%s: %s %s: %.80q%s skipped: %v", database, table, id, where, of, err))
	}
}
