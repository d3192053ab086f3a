// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// linear returns the directory without an index: it queries all rows in turn.
func linear(d *Directory) *Directory {
	return &Directory{tables: rows[*Table]{all: d.tables.all}, hosts: d.hosts, rrs: rows[*RRTable]{all: d.rrs.all}, wild: d.wild}
}

// indexLines returns the contents of an index, with the IDs of members in place of their numbers.
func indexLines[M member[M]](t testing.TB, x *index[M]) (lines []string) {
	t.Helper()
	if x == nil {
		return nil
	}
	for i, set := range []postings{x.terms, x.wild, x.subnets4, x.subnets6, x.hosts6} {
		for _, p := range set.all(t, x.order) {
			lines = append(lines, fmt.Sprintf("%d %016x %x", i, p.term, x.at(p.member).id))
		}
	}
	count := 0
	for id, m := range x.all() {
		lines = append(lines, fmt.Sprintf("%x %p", id, any(m)))
		count++
	}
	if count != x.count || count+len(x.free) != len(x.chunks)*chunkSize {
		t.Fatalf("%d members, %d of them counted, %d free numbers", count, x.count, len(x.free))
	}
	slices.Sort(lines)
	return lines
}

// checkDirectory compares a directory with one that has no index, and its indexes with new ones.
func checkDirectory(t testing.TB, d *Directory, names []string) {
	t.Helper()
	want := linear(d)
	for _, domain := range []string{"", "d.", "corp.d."} {
		for _, name := range names {
			a, ok := d.Lookup(name, domain)
			b, wantOK := want.Lookup(name, domain)
			if ok != wantOK || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s, domain %q: %+v %v, want %+v %v", name, domain, a, ok, b, wantOK)
			}
			if got, want := d.Empty(name, domain), want.Empty(name, domain); got != want {
				t.Fatalf("%s, domain %q: empty %v, want %v", name, domain, got, want)
			}
		}
	}
	for _, name := range names {
		m, ok := d.Exact(name)
		if n, wantOK := want.Exact(name); ok != wantOK || m != n {
			t.Fatalf("%s: exact %+v %v, want %+v %v", name, m, ok, n, wantOK)
		}
		if got, want := d.Sources(name, "d."), want.Sources(name, "d."); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: sources %+v, want %+v", name, got, want)
		}
	}
	fresh := new(Directory).With(d.tables.all, d.rrs.all, d.hosts)
	if got, want := indexLines(t, d.tables.index), indexLines(t, fresh.tables.index); !slices.Equal(got, want) {
		t.Fatalf("edited index of addresses:\n%s\nnew:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := indexLines(t, d.rrs.index), indexLines(t, fresh.rrs.index); !slices.Equal(got, want) {
		t.Fatalf("edited index of other records:\n%s\nnew:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// rowsModel is one network whose rows change.
type rowsModel struct {
	c      *choices
	tables map[[16]byte]*Table
	rrs    map[[16]byte]*RRTable
}

func (m *rowsModel) step(ids int) {
	c := m.c
	id := [16]byte{0: byte(c.below(ids) * 37), 9: 1}
	table := m.tables[id]
	switch c.below(8) {
	case 0, 1, 2:
		if table == nil {
			table = NewTable(id)
		}
		m.tables[id] = table.Update(records(true, c.record()), ignore)
	case 3:
		whole := map[string]string{}
		for range 1 + c.below(4) {
			k, v, _ := strings.Cut(c.record(), " ")
			whole[k] = v
		}
		var lines []string
		for k, v := range whole {
			lines = append(lines, k+" "+v)
		}
		m.tables[id] = NewTable(id).Update(records(false, lines...), ignore)
	case 4:
		if table != nil {
			m.tables[id] = table.WithOwned(!table.owned)
		}
		if rrs := m.rrs[id]; rrs != nil && c.below(2) == 0 {
			m.rrs[id] = rrs.WithOwned(!rrs.owned)
		}
	case 5:
		delete(m.tables, id)
	case 6, 7:
		next := m.rrs[id].Update(pairs(c.below(4) > 0, c.rrKey(), c.rrValue()), ignore).WithRow(id)
		if m.rrs[id] = next; next == nil {
			delete(m.rrs, id)
		}
	}
}

func sortedRows[R dnsRow[R]](all map[[16]byte]R) []R {
	return slices.SortedFunc(maps.Values(all), func(a, b R) int {
		x, y := a.id(), b.id()
		return strings.Compare(string(x[:]), string(y[:]))
	})
}

// A directory of many rows answers like one that queries its rows in turn, after any changes of them.
func TestRows(t *testing.T) {
	for _, ids := range []int{6, 150} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%d rows, seed %d", ids, seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			program := make([]byte, 3000)
			for i := range program {
				program[i] = byte(r.Uint32())
			}
			m := &rowsModel{&choices{program}, map[[16]byte]*Table{}, map[[16]byte]*RRTable{}}
			d := new(Directory).With(nil, nil, hosts(port{"a.", "", "10.0.0.1"}, port{"w.b.", "d.", "fd00::1"}))
			for builds := 0; len(m.c.left) > 0; builds++ {
				for range 1 + m.c.below(ids) {
					m.step(ids)
				}
				before, lines := d, indexLines(t, d.tables.index)
				d = d.With(sortedRows(m.tables), sortedRows(m.rrs), d.hosts)
				if got := indexLines(t, before.tables.index); !slices.Equal(got, lines) {
					t.Fatal("the previous version has changed")
				}
				checkDirectory(t, &d, joinedNames)
			}
		})
	}
}

// Two rows may have one UUID for a moment: ovn-northd replaces a Southbound row, and both name the same
// Northbound row.
func TestRowsWithEqualIDs(t *testing.T) {
	tables := func(values string) (all []*Table) {
		for i, v := range strings.Fields(values) {
			all = append(all, NewTable([16]byte{v[0]}).Update(records(false, fmt.Sprintf("%s 10.0.0.%d", v, i)), ignore))
		}
		return all
	}
	first, second := tables("a1 b1 b2 b3 c1 c2"), tables("b4 b5 c3 d1 d2")
	d := NewDirectory(first, hosts())
	for _, all := range [][]*Table{
		slices.Concat(first[:2], first[3:]), // without b2
		slices.Concat(first[1:2], second[:1], first[3:]),
		second,
		slices.Concat(first[:3], second[2:]),
		first,
	} {
		d = d.With(all, nil, hosts())
		checkDirectory(t, &d, []string{"a1.", "b1.", "b2.", "b3.", "b4.", "b5.", "c1.", "c2.", "c3.", "d1.", "d2.", "e."})
	}
}

// An update copies the part of the index that has the changed row.
func TestRowsShareIndex(t *testing.T) {
	tables := nicRows(5 * chunkSize)
	before := NewDirectory(tables, hosts())
	next := slices.Clone(tables)
	next[7] = next[7].Update(records(true, "new.example.org 10.255.0.1"), ignore)
	d := before.With(next, nil, hosts())
	shared := 0
	for i, c := range d.tables.index.chunks {
		if c == before.tables.index.chunks[i] {
			shared++
		}
	}
	if shared != 4 {
		t.Errorf("%d of 5 chunks are shared", shared)
	}
	if same := d.With(slices.Clone(next), nil, hosts()); same.tables.index != d.tables.index {
		t.Error("the index of the same rows is a new one")
	}
}

// Interface identifiers within a prefix have terms within the range of the prefix.
func TestHostTerms(t *testing.T) {
	for _, tt := range []struct {
		prefix, address string
		within          bool
	}{
		{"fd00::/68", "fd00::1", true},
		{"fd00::/68", "fd00::1000:0:0:1", false},
		{"fd00::f00/120", "fd00::fff", true},
		{"fd00::f00/120", "fd00::1000", false},
		{"fd00::f0/124", "fd00::ff", true},
		{"fd00::f0/124", "fd00:0:0:1::ff", false},
		{"fd00::ff/128", "fd00::ff", true},
		{"fd00::ff/128", "fd00::fe", false},
	} {
		first, last := hostTerms(netip.MustParsePrefix(tt.prefix))
		term, same := hostTerms(netip.PrefixFrom(netip.MustParseAddr(tt.address), 128))
		if within := first <= term && term <= last; within != tt.within || term != same {
			t.Errorf("%s in %s: %v", tt.address, tt.prefix, within)
		}
	}
}

// Lookups in many rows allocate nothing.
func TestRowsAllocations(t *testing.T) {
	rows := append(benchRows(50, 2, "vm%d-%d.example.org"), row("*.apps.example.org 10.9.9.9", "deep.void.example.org x"))
	for i, t := range rows {
		rows[i] = t.WithRow([16]byte{byte(i)})
	}
	d := NewDirectory(rows, hosts())
	reverse := strings.Repeat("0.", 20) + "d.f.ip6.arpa."
	for _, name := range []string{"vm7-1.example.org.", "no.example.org.", "example.org.", "x.apps.example.org.", "1.0.0.10.in-addr.arpa.", "9.0.0.10.in-addr.arpa.", "0.10.in-addr.arpa.", reverse} {
		if got := testing.AllocsPerRun(100, func() {
			d.Lookup(name, "corp.test.")
			d.Empty(name, "corp.test.")
		}); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
