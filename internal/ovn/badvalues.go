// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

const (
	// maxReports bounds how many texts about bad values are logged since the start, and how many are
	// kept of those that are bad at present. Tenants can write any number of them.
	maxReports = 1000
	// firstBad is how many texts Source.BadValues returns.
	firstBad = 3
)

// BadValues are the values of the databases that can't be used at present, and are skipped.
type BadValues struct {
	// Count is how many there are.
	Count int
	// First are texts about a few of them, in the order in which they were read. They say which rows
	// have them.
	First []string
}

// BadValues returns the values that can't be used now. In an outage they are those of its beginning.
func (s *Source) BadValues() BadValues {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.bad.sum()
}

// badValues are the values that can't be used at present, by where they stand. What is read there
// anew takes their place. Only maxReports texts are stored. Of the other texts a place stores hashes, which
// are smaller than the values in the rows.
type badValues struct {
	rows  map[badRow]map[badPlace]*badOfPlace
	texts map[string]*badText
	// more counts the hashes of all places.
	more int
	// added counts the texts that were ever kept.
	added uint64
}

// badRow is a row, or else what is derived of several for one purpose.
type badRow struct {
	database, table string
	id              ovsdb.UUID
}

// badPlace is a column of a row, or a key of it.
type badPlace struct{ column, key string }

// badOfPlace are the bad values of a place.
type badOfPlace struct {
	texts map[string]struct{}
	// hashes are of the texts that are not stored. The map is nil until there is one.
	hashes map[uint64]struct{}
}

// has reports whether a text is about one of the values. A nil badOfPlace has none.
func (p *badOfPlace) has(text string) bool {
	if p == nil {
		return false
	}
	_, here := p.texts[text]
	if !here && len(p.hashes) > 0 {
		_, here = p.hashes[hashOf(text)]
	}
	return here
}

func (p *badOfPlace) addHash(text string) {
	if p.hashes == nil {
		p.hashes = make(map[uint64]struct{})
	}
	p.hashes[hashOf(text)] = struct{}{}
}

var badSeed = maphash.MakeSeed()

func hashOf(text string) uint64 { return maphash.String(badSeed, text) }

// badText is a text about a bad value. Several places may have it: networks that share a row.
type badText struct {
	places int
	// number is smaller than those of the texts that were added later.
	number uint64
}

func newBadValues() badValues {
	return badValues{rows: make(map[badRow]map[badPlace]*badOfPlace), texts: make(map[string]*badText)}
}

// badOfNetwork is the badRow for what is derived for a network.
func badOfNetwork(id origin.Network) badRow { return badRow{table: "network", id: ovsdb.UUID(id)} }

// add adds a value to a place. It reports whether the value is new, as far as texts and the hashes of this
// place tell.
func (b *badValues) add(row badRow, place badPlace, text string) bool {
	places := b.rows[row]
	if places == nil {
		places = make(map[badPlace]*badOfPlace)
		b.rows[row] = places
	}
	of := places[place]
	if of == nil {
		of = &badOfPlace{texts: make(map[string]struct{})}
		places[place] = of
	}
	if of.has(text) {
		return false
	}
	if known := b.texts[text]; known != nil {
		known.places++
		of.texts[text] = struct{}{}
		return false
	}
	if len(b.texts) < maxReports {
		b.added++
		b.texts[text] = &badText{1, b.added}
		of.texts[text] = struct{}{}
	} else {
		b.more++
		of.addHash(text)
	}
	return true
}

// drop forgets the values of a place, and returns them, nil for none.
func (b *badValues) drop(row badRow, place badPlace) *badOfPlace {
	places := b.rows[row]
	of := places[place]
	if of == nil {
		return nil
	}
	b.more -= len(of.hashes)
	for text := range of.texts {
		if known := b.texts[text]; known.places > 1 {
			known.places--
		} else {
			delete(b.texts, text)
		}
	}
	if delete(places, place); len(places) == 0 {
		delete(b.rows, row)
	}
	return of
}

// dropColumn forgets the values of all keys of a column, and returns them, nil for none.
func (b *badValues) dropColumn(row badRow, column string) (dropped map[badPlace]*badOfPlace) {
	for place := range b.rows[row] {
		if place.column != column {
			continue
		}
		if dropped == nil {
			dropped = make(map[badPlace]*badOfPlace)
		}
		dropped[place] = b.drop(row, place)
	}
	return dropped
}

// dropRow forgets the values of a row.
func (b *badValues) dropRow(row badRow) {
	for place := range b.rows[row] {
		b.drop(row, place)
	}
}

// sum sums them up. Where too few texts are kept it names places.
func (b *badValues) sum() BadValues {
	first := slices.SortedFunc(maps.Keys(b.texts), func(x, y string) int { return cmp.Compare(b.texts[x].number, b.texts[y].number) })
	first = first[:min(len(first), firstBad)]
	if len(first) < firstBad && b.more > 0 {
		first = b.addPlaces(first)
	}
	return BadValues{Count: len(b.texts) + b.more, First: first}
}

// addPlaces adds places whose values have no text, up to firstBad.
func (b *badValues) addPlaces(first []string) []string {
	for row, places := range b.rows {
		for place, of := range places {
			if len(first) == firstBad {
				return first
			}
			if len(of.hashes) > 0 {
				first = append(first, fmt.Sprintf("%s: %d skipped", nameOfBad(row, place), len(of.hashes)))
			}
		}
	}
	return first
}

// nameOfBad names a place.
func nameOfBad(row badRow, place badPlace) string {
	name := fmt.Sprintf("%s %s: %s", row.table, row.id, place.column)
	if row.database != "" {
		name = row.database + ": " + name
	}
	if place.key != "" {
		name += fmt.Sprintf(" %.80q", place.key)
	}
	return name
}

// dropsBad returns changed, of the table of that name, as one by which the bad values of a row go
// with it.
func dropsBad[R any](w *world, database, table string, changed func(id ovsdb.UUID, old, next *R)) func(id ovsdb.UUID, old, next *R) {
	return func(id ovsdb.UUID, old, next *R) {
		if next == nil {
			w.bad.dropRow(badRow{database, table, id})
		}
		changed(id, old, next)
	}
}

// beginBad is called before a place is read. It forgets what was bad there, and returns the
// function that adds what is.
func (w *world) beginBad(row badRow, place badPlace) func(text string) {
	before := w.bad.drop(row, place)
	return func(text string) { w.addBad(row, place, before, text) }
}

// addBad adds a value that can't be used. It counts and logs a value that is bad for the first time, so
// a value that was bad at the last reading of the place, before, is neither counted nor logged.
func (w *world) addBad(row badRow, place badPlace, before *badOfPlace, text string) {
	if isNew := w.bad.add(row, place, text); !isNew || before.has(text) {
		return
	}
	if _, seen := w.badReported[text]; seen {
		return
	}
	w.badCount++
	w.lastBad = text
	if len(w.badReported) >= maxReports {
		return
	}
	w.badReported[text] = struct{}{}
	w.log.Warningf("%s", text)
	if len(w.badReported) == maxReports {
		w.log.Warningf("that makes %d values that cannot be read; more are counted but not logged", maxReports)
	}
}

// reporter is called before a column of a row is read. It returns the function that reports the bad
// values of it.
func (w *world) reporter(database, table string, id ovsdb.UUID, column string) names.Report {
	return reportOf(database, table, id, w.beginBad(badRow{database, table, id}, badPlace{column: column}))
}

// reportsOfKeys is reporter for a column whose keys are read one by one: all of them, or those of a
// difference.
func (w *world) reportsOfKeys(database, table string, id ovsdb.UUID, column string, diff bool) names.Reports {
	row, place := badRow{database, table, id}, badPlace{column: column}
	var ofColumn map[badPlace]*badOfPlace
	if !diff {
		ofColumn = w.bad.dropColumn(row, column)
	}
	var before *badOfPlace // of the key
	return names.Reports{
		Begin: func(key string) {
			place.key = key
			before = cmp.Or(w.bad.drop(row, place), ofColumn[place])
		},
		Bad: reportOf(database, table, id, func(text string) { w.addBad(row, place, before, text) }),
	}
}

// reportOf returns the function that gives bad the text about a value of a row.
func reportOf(database, table string, id ovsdb.UUID, bad func(text string)) names.Report {
	return func(where, value string, err error) {
		of := ""
		if value != "" { // else it is the name that is wrong, or there is none
			of = fmt.Sprintf(": value %.80q", value)
		}
		bad(fmt.Sprintf("%s: %s %s: %.80q%s skipped: %v", database, table, id, where, of, err))
	}
}
