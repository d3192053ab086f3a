// SPDX-License-Identifier: Apache-2.0

package rows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// record has a column of the test's, and one that is always at its default: an empty
// ovsdb.Row has no columns.
type record struct {
	value, parsed string
	defaulted     string
}

// ledger is a table that writes down what it tells.
type ledger struct {
	table *rows.Table[record]
	value string // what the column has in the next row
	told  []string
}

func newLedger() *ledger {
	l := &ledger{}
	l.table = rows.NewTable("T", nil, func(id ovsdb.UUID, old, next *record) {
		switch {
		case old == nil:
			l.told = append(l.told, fmt.Sprintf("+%d %s", id[0], next.parsed))
		case next == nil:
			l.told = append(l.told, fmt.Sprintf("-%d %s", id[0], old.parsed))
		default:
			l.told = append(l.told, fmt.Sprintf("~%d %s %s", id[0], old.parsed, next.parsed))
		}
		if l.table.Get(id) != next {
			l.told = append(l.told, "the table has another row")
		}
	},
		rows.Custom("value", func(_ ovsdb.UUID, r *record, _ *ovsdb.Row, _ int) bool {
			was := r.value
			r.value = l.value
			return r.value != was
		}).Then(func(_ ovsdb.UUID, r *record) { r.parsed = strings.ToUpper(r.value) }),
		rows.String("defaulted", func(r *record) *string { return &r.defaulted }))
	return l
}

func id(n byte) ovsdb.UUID { return ovsdb.UUID{n} }

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(l *ledger, put func(n byte, value string))
		want string
	}{
		{"a new row", func(l *ledger, put func(byte, string)) { put(1, "a") }, "+1 A"},
		{"the same row", func(l *ledger, put func(byte, string)) { put(1, "a"); put(1, "a") }, "+1 A"},
		{"another value", func(l *ledger, put func(byte, string)) { put(1, "a"); put(1, "b") }, "+1 A|~1 A B"},
		{"a new row at its defaults", func(l *ledger, put func(byte, string)) { put(1, "") }, "+1 "},
		{"deleted", func(l *ledger, put func(byte, string)) {
			put(1, "a")
			l.table.Apply(id(1), ovsdb.Delete, nil)
			l.table.Apply(id(1), ovsdb.Delete, nil)
		}, "+1 A|-1 A"},
		{"a change of a row that is not known", func(l *ledger, put func(byte, string)) {
			l.value = "a"
			l.table.Apply(id(1), ovsdb.Modify, &ovsdb.Row{})
		}, "+1 A"},
		{"a change without columns", func(l *ledger, put func(byte, string)) {
			put(1, "a")
			l.value = "b"
			l.table.Apply(id(1), ovsdb.Modify, &ovsdb.Row{})
		}, "+1 A"},
		{"not told again", func(l *ledger, put func(byte, string)) {
			put(1, "a")
			put(2, "b")
			put(3, "c")
			l.table.Begin()
			put(1, "a")
			put(3, "d")
			l.table.Sweep()
		}, "+1 A|+2 B|+3 C|~3 C D|-2 B"},
		{"deleted while the rest is told", func(l *ledger, put func(byte, string)) {
			put(1, "a")
			l.table.Begin()
			l.table.Apply(id(1), ovsdb.Delete, nil)
			l.table.Sweep()
		}, "+1 A|-1 A"},
		{"told by half, then all", func(l *ledger, put func(byte, string)) {
			put(1, "a")
			l.table.Begin()
			put(2, "b")
			l.table.Begin()
			put(1, "a")
			l.table.Sweep()
		}, "+1 A|+2 B|-2 B"},
		{"nothing to sweep without a beginning", func(l *ledger, put func(byte, string)) {
			put(1, "a")
			l.table.Sweep()
		}, "+1 A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			tt.run(l, func(n byte, value string) {
				l.value = value
				l.table.Apply(id(n), ovsdb.Insert, &ovsdb.Row{})
			})
			if got := strings.Join(l.told, "|"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPut(t *testing.T) {
	l := newLedger()
	a, b := &record{parsed: "A"}, &record{parsed: "B"}
	var versions []uint64
	for _, r := range []*record{a, a, b, nil, nil} {
		l.table.Put(id(1), r)
		versions = append(versions, l.table.Version())
		if l.table.Get(id(1)) != r {
			t.Errorf("got %v, want %v", l.table.Get(id(1)), r)
		}
	}
	if got, want := strings.Join(l.told, "|"), "+1 A|~1 A B|-1 B"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := []uint64{1, 1, 2, 3, 3}; !slices.Equal(versions, want) {
		t.Errorf("versions %v, want %v", versions, want)
	}
}

// Rows that were known before are not altered: whoever has one has it as it was.
func TestRecordsAreNotAltered(t *testing.T) {
	l := newLedger()
	l.value = "a"
	l.table.Apply(id(1), ovsdb.Insert, &ovsdb.Row{})
	before := l.table.Get(id(1))
	l.value = "b"
	l.table.Apply(id(1), ovsdb.Insert, &ovsdb.Row{})
	if now := l.table.Get(id(1)); before.value != "a" || now.value != "b" {
		t.Errorf("got %q and %q", before.value, now.value)
	}
}

func TestRequest(t *testing.T) {
	field := func(r *record) *string { return &r.value }
	table := rows.NewTable("T", []ovsdb.Condition{}, nil,
		rows.String("o1", field).Optional(), rows.Key("map", "a", field), rows.String("c1", field),
		rows.Key("map", "b", field), rows.Key("o2", "a", field).Optional())
	r := rows.Tables{table}.Requests()[0]
	if r.Table != "T" || r.Where == nil || !slices.Equal(r.Columns, []string{"map", "c1"}) || !slices.Equal(r.Optional, []string{"o1", "o2"}) {
		t.Errorf("got %+v", r)
	}
}

func TestIndexes(t *testing.T) {
	x := rows.Index[string, record]{}
	a, b := &record{value: "a"}, &record{value: "b"}
	x.Add("k", id(1), a)
	x.Add("k", id(2), b)
	x.Remove("k", id(1))
	x.Remove("none", id(1))
	if len(x["k"]) != 1 || x["k"][id(2)] != b {
		t.Errorf("got %v", x)
	}
	if x.Remove("k", id(2)); len(x) != 0 {
		t.Errorf("an empty set is left: %v", x)
	}
	names := rows.Names[record]{"n": a}
	names["n"] = b // the new row comes before the old one goes
	if names.Remove("n", a); names["n"] != b {
		t.Error("the new row has gone with the old one")
	}
	if names.Remove("n", b); len(names) != 0 {
		t.Errorf("got %v", names)
	}
	owners := rows.Owners{}
	owners.Replace(id(1), nil, []ovsdb.UUID{id(7), id(8)})
	owners.Replace(id(2), nil, []ovsdb.UUID{id(7)}) // it moves, and the old owner is told later
	owners.Replace(id(1), []ovsdb.UUID{id(7), id(8)}, nil)
	if len(owners) != 1 || owners[id(7)] != id(2) {
		t.Errorf("got %v", owners)
	}
}
