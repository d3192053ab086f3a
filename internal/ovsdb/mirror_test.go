// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

// mirrored is a replica with a Mirror beside it.
type mirrored struct {
	*replica
	mirror *ovsdb.Mirror
}

func (m mirrored) Reset() {
	m.replica.Reset()
	m.mirror.Reset()
}

func (m mirrored) Row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	m.mu.Lock()
	m.mirror.Stage(table, id, op, row)
	m.mu.Unlock()
	return m.replica.Row(table, id, op, row)
}

func (m mirrored) Commit() {
	m.mu.Lock()
	m.mirror.Apply()
	m.mu.Unlock()
	m.replica.Commit()
}

func (m mirrored) Ended() {
	m.mu.Lock()
	m.mirror.Discard()
	m.mu.Unlock()
	m.replica.Ended()
}

// read decodes the rows of Thing.
func (m mirrored) read(t *testing.T) map[ovsdb.UUID]thing {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	rows, ok := m.mirror.Rows()
	if !ok {
		t.Fatal("the mirror has no rows")
	}
	all := map[ovsdb.UUID]thing{}
	var row ovsdb.Row
	for id, b := range rows["Thing"] {
		if err := ovsdb.DecodeRow(b, &row, cAbsent+1); err != nil {
			t.Fatal(err)
		}
		all[id] = thing{}.patch(&row)
	}
	return all
}

// A mirror that followed random changes has the same rows, of columns of all shapes.
func TestMirror(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	m := mirrored{newReplica(), ovsdb.NewMirror(1 << 20)}
	c := start(t, m.replica, func(cfg *ovsdb.Config) { cfg.Receiver = m }, s.Endpoint)
	m.waitSynced(t)
	rng := rand.New(rand.NewPCG(5, 6))
	some := func() (all []any) {
		for _, l := range "abcdef" {
			if rng.IntN(2) == 0 {
				all = append(all, string(l))
			}
		}
		return all
	}
	pairs := func(most int) (all [][2]string) {
		for _, k := range some() {
			if len(all) < most {
				all = append(all, [2]string{k.(string), fmt.Sprint(rng.IntN(3))})
			}
		}
		return all
	}
	row := func() object {
		two := some()
		return object{
			"num": rng.IntN(3), "flag": rng.IntN(2) == 0, "names": set(some()...), "two": set(two[:min(2, len(two))]...),
			"map": dict(pairs(9)...), "onemap": dict(pairs(1)...), "optint": set(),
		}
	}
	for range 300 {
		switch name := fmt.Sprint(rng.IntN(8)); rng.IntN(6) {
		case 0:
			s.Transact(t, "Things", remove(name))
		case 1:
			s.Transact(t, "Things", insert(name, row()))
		case 2:
			c.Resync()
			fallthrough
		default:
			s.Transact(t, "Things", update(name, row()))
		}
	}
	m.waitGen(t, c.SetConditions(nil))
	m.wait(t, "the last change", func() bool { return len(m.things) > 0 })
	m.mu.Lock()
	want := m.things
	m.mu.Unlock()
	if diff := cmp.Diff(want, m.read(t), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// A mirror keeps no more than it may, and begins anew with the next Reset.
func TestMirrorIsBounded(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	m := mirrored{newReplica(), ovsdb.NewMirror(2000)}
	c := start(t, m.replica, func(cfg *ovsdb.Config) { cfg.Receiver = m }, s.Endpoint)
	for i := range 20 {
		s.Transact(t, "Things", insert(fmt.Sprint(i), nil))
	}
	m.wait(t, "all rows", func() bool { return len(m.things) == 20 })
	m.mu.Lock()
	_, ok := m.mirror.Rows()
	m.mu.Unlock()
	if ok {
		t.Error("it has 20 rows of more than 100 bytes each")
	}
	s.Transact(t, "Things", object{"op": "delete", "table": "Thing", "where": []any{[]any{"name", "!=", "7"}}})
	m.wait(t, "one row", func() bool { return len(m.things) == 1 })
	m.takeEvents()
	c.Resync()
	m.wait(t, "the row again", func() bool { return m.hasEvent("commit") && m.hasEvent("reset") })
	if got := m.read(t); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// Staged rows are not among the rows before Apply, and the end of a connection drops them.
func TestMirrorStages(t *testing.T) {
	var hv1, hv2 ovsdb.Row
	for text, row := range map[string]*ovsdb.Row{"hv1": &hv1, "hv2": &hv2} {
		if err := ovsdb.DecodeRow([]byte("\x01\x01\x01\x03"+text+"\x00\x00"), row, 1); err != nil {
			t.Fatal(err)
		}
	}
	m := ovsdb.NewMirror(1 << 10)
	one, two := ovsdb.UUID{1}, ovsdb.UUID{2}
	for _, tt := range []struct {
		name  string
		stage func()
		end   func()
		want  string
	}{
		{"rows, and the end of the connection", func() { m.Stage("T", one, ovsdb.Insert, &hv1) }, m.Discard, ""},
		{"rows", func() { m.Stage("T", one, ovsdb.Insert, &hv1) }, m.Apply, "1 hv1"},
		{"half of an update", func() { m.Stage("T", one, ovsdb.Delete, nil); m.Stage("T", two, ovsdb.Insert, &hv2) }, m.Discard, "1 hv1"},
		{"half of all rows", func() { m.Reset(); m.Stage("T", two, ovsdb.Insert, &hv2) }, m.Discard, "1 hv1"},
		{"a row twice", func() { m.Stage("T", two, ovsdb.Insert, &hv1); m.Stage("T", two, ovsdb.Modify, &hv2) }, m.Apply, "1 hv1, 2 hv2"},
		{"a row that is deleted", func() { m.Stage("T", two, ovsdb.Delete, nil) }, m.Apply, "1 hv1"},
		{"all rows", func() { m.Reset(); m.Stage("T", two, ovsdb.Insert, &hv2) }, m.Apply, "2 hv2"},
		{"no row at all", m.Reset, m.Apply, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := show(t, m)
			tt.stage()
			if got := show(t, m); got != before {
				t.Errorf("staged rows are there: %s", got)
			}
			tt.end()
			if got := show(t, m); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func show(t *testing.T, m *ovsdb.Mirror) string {
	t.Helper()
	tables, ok := m.Rows()
	if !ok {
		t.Error("there are no rows")
	}
	var all []string
	for id, b := range tables["T"] {
		var row ovsdb.Row
		if err := ovsdb.DecodeRow(b, &row, 1); err != nil {
			t.Error(err)
		}
		all = append(all, fmt.Sprintf("%d %s", id[0], row.String(0)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func FuzzDecodeRow(f *testing.F) {
	f.Add([]byte("\x01\x01\x01\x03hv1\x00\x00"))
	f.Add([]byte("\x02\x02\x01\x01a\x00\x01b\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var row ovsdb.Row
		if ovsdb.DecodeRow(b, &row, 3) != nil {
			return
		}
		for col := range 3 {
			for i := range row.Len(col) {
				row.PairAt(col, i)
			}
			row.Strings(col)
			row.UUIDs(col)
			rowMap(&row, col)
		}
	})
}
