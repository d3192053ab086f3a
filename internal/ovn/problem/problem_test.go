// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"fmt"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// A version of a row keeps its problems when the next version is edited.
func TestProblemsAreCopied(t *testing.T) {
	var first Set
	e := first.Replace("records")
	e.Begin("a")
	e.Add("a is bad")
	e.Begin("b")
	e.Add("b is bad")
	next := first
	e = next.Replace("other")
	e.Add("other is bad")
	reports := next.Reports("OVN_Southbound", "DNS", ovsdb.UUID{}, "records", true)
	reports.Begin("a")
	if got, want := fmt.Sprint(first.set.texts(), next.set.texts()), "[a is bad b is bad] [other is bad b is bad]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A value that is bad still when its place is read again is counted once, whether or not its text
// is logged or stored.
func TestBadValuesCountOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		logged int // texts that are logged already
	}{{"first", 0}, {"no more is logged", MaxReports}, {"one more is logged", MaxReports - 1}} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewRegistry()
			for i := range tt.logged {
				b.add(fmt.Sprint("other ", i))
			}
			var network, row Set
			readNetwork := func(texts ...string) {
				e := network.Replace("ports")
				for _, text := range texts {
					e.Add(text)
				}
				b.Set(OfNetwork(origin.Network{1}), &network)
			}
			of := Row{"OVN_Southbound", "DNS", ovsdb.UUID{}}
			readKeys := func(diff bool, values ...string) {
				reports := row.Reports(of.Database, of.Table, of.ID, "records", diff)
				for _, key := range []string{"a", "b"} {
					reports.Begin(key)
					for _, value := range values {
						reports.Bad(key, value, errors.New("wrong"))
					}
				}
				b.Set(of, &row)
			}
			for _, step := range []struct {
				name          string
				read          func()
				want, present int // values counted since the start, and those of the present
			}{
				{"a network", func() { readNetwork("x", "x", "y") }, 2, 2},
				{"built again", func() { readNetwork("x", "y") }, 2, 2},
				{"one is mended", func() { readNetwork("y") }, 2, 1},
				{"another is bad", func() { readNetwork("y", "z") }, 3, 2},
				{"a row", func() { readKeys(false, "1") }, 5, 4},
				{"sent again", func() { readKeys(false, "1") }, 5, 4},
				{"keys are sent again", func() { readKeys(true, "1") }, 5, 4},
				{"the keys have other values", func() { readKeys(true, "2") }, 7, 4},
				{"the whole row again", func() { readKeys(false, "2") }, 7, 4},
				{"more than texts are stored", func() { readKeys(true, "2", "3", "4", "5", "6") }, 15, 12},
				{"the same", func() { readKeys(true, "6", "5", "4", "3", "2") }, 15, 12},
				{"one key is left", func() { row.Reports(of.Database, of.Table, of.ID, "records", true).Begin("a"); b.Set(of, &row) }, 15, 7},
				{"the row has none", func() { readKeys(false); b.Set(of, &row) }, 15, 2},
			} {
				step.read()
				if got := int(b.Count) - tt.logged; got != step.want || b.Sum().Count != step.present {
					t.Errorf("%s: %d values are counted, want %d; present: %d, want %d", step.name, got, step.want, b.Sum().Count, step.present)
				}
			}
			b.Set(OfNetwork(origin.Network{1}), nil)
			if got := b.Sum(); got.Count != 0 || len(b.present) > 0 {
				t.Errorf("left: %d values", got.Count)
			}
		})
	}
}

// TestTextsAreBounded: a tenant may write any number of bad values. All count, and few texts are stored.
func TestTextsAreBounded(t *testing.T) {
	b, row, of := NewRegistry(), Set{}, Row{"OVN_Southbound", "DNS", ovsdb.UUID{1}}
	const keys, values = 600, 5
	reports := row.Reports(of.Database, of.Table, of.ID, "records", false)
	for key := range keys {
		reports.Begin(fmt.Sprint(key))
		for value := range values {
			reports.Bad(fmt.Sprint(key), fmt.Sprint(key, value), errors.New("wrong"))
		}
	}
	if lines := b.Set(of, &row); len(lines) != MaxReports+1 {
		t.Errorf("%d lines are logged", len(lines))
	}
	if got := b.Sum(); got.Count != keys*values || len(got.First) != MaxFirst || b.Count != keys*values {
		t.Errorf("%+v, %d since the start", got, b.Count)
	}
	stored := 0
	for at, r := range row.set.of {
		if stored += len(r.texts); len(r.texts) > maxTexts {
			t.Errorf("%v has %d texts", at, len(r.texts))
		}
	}
	if stored != row.set.stored || stored > MaxReports || len(row.set.fresh)+row.set.more > 0 {
		t.Errorf("%d texts are stored, counted as %d; %d are fresh", stored, row.set.stored, len(row.set.fresh)+row.set.more)
	}
}
