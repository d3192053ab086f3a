// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"hash/maphash"

	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// problems are the values of a row, or of what is derived of rows, that can't be used. The row has
// them, so they change and go with it. The zero problems are none.
type problems struct{ set *problemSet }

// problemSet is immutable once its row is applied, except for what takeFresh takes.
type problemSet struct {
	of    map[place]reading
	count int // of all readings
	// fresh are texts about values that were not bad at the last reading of their place. more
	// counts further values.
	fresh []string
	more  int
}

// place is a column, or a key of it.
type place struct{ column, key string }

// reading is the bad values of a place.
type reading struct {
	texts  []string // of the first
	hashes map[uint64]struct{}
}

const (
	// maxTexts bounds the texts of a reading. Of its other values only hashes are stored, which are
	// smaller than the values in the database.
	maxTexts = 3
	// maxReports bounds how many texts are logged since the start, and the fresh texts of a row.
	// Tenants can write any number of bad values.
	maxReports = 1000
)

var textSeed = maphash.MakeSeed()

// found returns p, for rows that embed problems.
func (p *problems) found() *problems { return p }

// isEmpty reports whether there are none.
func (p *problems) isEmpty() bool { return p.set == nil || p.set.count == 0 }

// takeFresh returns the fresh texts, and how many values are fresh beside them: each once.
func (p *problems) takeFresh() (texts []string, more int) {
	if p.set == nil || len(p.set.fresh) == 0 {
		return nil, 0
	}
	texts, more = p.set.fresh, p.set.more
	p.set.fresh, p.set.more = nil, 0
	return texts, more
}

// replace returns the editor that replaces the problems of a column.
func (p *problems) replace(column string) *problemEditor {
	e := &problemEditor{problems: p, at: place{column: column}}
	if p.set == nil {
		return e
	}
	e.before = p.set.of
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
	var e *problemEditor
	if !diff {
		e = p.replace(column)
	} else if e = (&problemEditor{problems: p, at: place{column: column}}); p.set != nil {
		e.before = p.set.of
	}
	return names.Reports{Begin: e.begin, Bad: e.report(database, table, id)}
}

// problemEditor edits the problems of one column. It copies those that others have too.
type problemEditor struct {
	*problems
	before map[place]reading
	copied bool
	at     place
}

func (e *problemEditor) copy() *problemSet {
	if !e.copied {
		next := &problemSet{of: make(map[place]reading)}
		if was := e.set; was != nil {
			next.count, next.fresh, next.more = was.count, was.fresh[:len(was.fresh):len(was.fresh)], was.more
			for at, r := range was.of {
				next.of[at] = r
			}
		}
		e.set, e.copied = next, true
	}
	return e.set
}

func (e *problemEditor) drop(at place) {
	s := e.copy()
	s.count -= len(s.of[at].hashes)
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
	if len(r.texts) < maxTexts {
		r.texts = append(r.texts, text)
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
