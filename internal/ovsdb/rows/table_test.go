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

// stage stages a row.
func (l *ledger) stage(n byte, op ovsdb.Op, value string) {
	l.value = value
	l.table.Stage(id(n), op, &ovsdb.Row{})
}

// A transaction is rows in a script: "N=VALUE" is a row that comes, "N~VALUE" a change of one
// that has no columns, "N-" one that is deleted; "reset" and "discard" are those of a Table.
func (l *ledger) run(script string) {
	for _, transaction := range strings.Split(script, ";") {
		for _, word := range strings.Fields(transaction) {
			switch n := word[0] - '0'; {
			case word == "reset":
				l.table.Reset()
			case word == "discard":
				l.table.Discard()
			case word[1] == '=':
				l.stage(n, ovsdb.Insert, word[2:])
			case word[1] == '~':
				l.stage(n, ovsdb.Modify, word[2:])
			default:
				l.table.Stage(id(n), ovsdb.Delete, nil)
			}
		}
		before := len(l.told)
		l.table.Apply()
		slices.Sort(l.told[before:]) // a transaction has no order
	}
}

func TestTable(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"a new row", "1=a", "+1 A"},
		{"the same row", "1=a; 1=a", "+1 A"},
		{"another value", "1=a; 1=b", "+1 A|~1 A B"},
		{"a new row at its defaults", "1=", "+1 "},
		{"deleted", "1=a; 1-; 1-", "+1 A|-1 A"},
		{"a change of a row that is not known", "1~a", "+1 A"},
		{"a change without columns", "1=a; 1~b", "+1 A"},
		{"twice in a transaction", "1=a 1=b; 1=c 1=d", "+1 B|~1 B D"},
		{"new and deleted in a transaction", "1=a 1-", ""},
		{"deleted and new in a transaction", "1=a; 1- 1=b", "+1 A|~1 A B"},
		{"not sent again", "1=a 2=b 3=c; reset 1=a 3=d", "+1 A|+2 B|+3 C|-2 B|~3 C D"},
		{"nothing sent again", "1=a; reset", "+1 A|-1 A"},
		{"deleted while all is sent", "1=a; reset 1-", "+1 A|-1 A"},
		{"sent again, then deleted", "1=a; reset 1=a 1-", "+1 A|-1 A"},
		{"a half, then all", "1=a; reset 2=b reset 1=a", "+1 A"},
		{"a half, then the end of the connection", "1=a; reset 2=b discard", "+1 A"},
		{"a half of an update, then the end of the connection", "1=a 2=b; 1=c 2- discard; 3=d", "+1 A|+2 B|+3 D"},
		{"an update behind all", "1=a; reset 1=a; 2=b", "+1 A|+2 B"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.run(tt.script)
			if got := strings.Join(l.told, "|"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// What is staged is not in the table before Apply.
func TestStaged(t *testing.T) {
	l := newLedger()
	l.run("1=a")
	before, version := l.table.Get(id(1)), l.table.Version()
	l.table.Reset()
	l.stage(1, ovsdb.Insert, "b")
	l.stage(2, ovsdb.Insert, "c")
	if l.table.Get(id(1)) != before || before.value != "a" || l.table.Len() != 1 || l.table.Version() != version {
		t.Errorf("got %d rows, %q, version %d", l.table.Len(), l.table.Get(id(1)).value, l.table.Version())
	}
	l.table.Apply()
	// Who has a record has it as it was.
	if now := l.table.Get(id(1)); before.value != "a" || now.value != "b" || l.table.Len() != 2 || l.table.Version() == version {
		t.Errorf("got %q and %q, %d rows", before.value, now.value, l.table.Len())
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

// whole is a record that has other records in parts.
type whole struct {
	within record
	shared *record
	short  string // of a text, without a dot at its end
	dotted bool
}

// TestParts: columns of a part of a record, and of a value in another form, change a new version of the record only.
func TestParts(t *testing.T) {
	var next string
	value := func() rows.Column[record] {
		return rows.Custom("value", func(_ ovsdb.UUID, r *record, _ *ovsdb.Row, _ int) bool {
			was := r.value
			r.value = next
			return r.value != was
		})
	}
	text := rows.Custom("value", func(_ ovsdb.UUID, text *string, _ *ovsdb.Row, _ int) bool {
		was := *text
		*text = next
		return next != was
	})
	table := rows.NewTable("T", nil, func(ovsdb.UUID, *whole, *whole) {},
		rows.Within(value().Then(func(_ ovsdb.UUID, r *record) { r.parsed = strings.ToUpper(r.value) }), func(w *whole) *record { return &w.within }),
		rows.Shared(value(), func(w *whole) **record { return &w.shared }),
		rows.Shared(rows.String("defaulted", func(r *record) *string { return &r.defaulted }), func(w *whole) **record { return &w.shared }),
		rows.Stored(text, func(w *whole) string {
			if w.dotted {
				return w.short + "."
			}
			return w.short
		}, func(_ ovsdb.UUID, w *whole, text string) bool {
			w.short, w.dotted = strings.CutSuffix(text, ".")
			return true
		}))
	stage := func(n byte, value string) *whole {
		next = value
		table.Stage(id(n), ovsdb.Insert, &ovsdb.Row{})
		table.Apply()
		return table.Get(id(n))
	}
	empty, first := stage(1, ""), stage(2, "a.")
	if empty.shared != nil {
		t.Errorf("a part without a value: %+v", empty.shared)
	}
	if first.within != (record{"a.", "A.", ""}) || *first.shared != (record{value: "a."}) || first.short != "a" || !first.dotted {
		t.Errorf("got %+v, %+v", first, first.shared)
	}
	if again := stage(2, "a."); again != first {
		t.Error("the same row is another record")
	}
	second, other := stage(2, "b"), stage(3, "c")
	if second.shared == first.shared || first.shared.value != "a." || second.shared.value != "b" || other.shared.value != "c" || second.short != "b" || second.dotted {
		t.Errorf("got %+v, then %+v, beside %+v", first.shared, second.shared, other.shared)
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
