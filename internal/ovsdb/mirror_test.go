// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"fmt"
	"math/rand/v2"
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
	m.mirror.Apply(table, id, op, row)
	m.mu.Unlock()
	return m.replica.Row(table, id, op, row)
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
