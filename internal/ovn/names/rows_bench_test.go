// SPDX-License-Identifier: Apache-2.0

package names

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// nicRow is a row of one NIC, as Incus writes one for each.
func nicRow(n int) *Table {
	addresses := fmt.Sprintf("10.%d.%d.%d,fd00::%x", n>>16, n>>8&255, n&255, n)
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(n+1)*0x9e3779b97f4a7c15)
	return NewTable(id).Update(records(false, fmt.Sprintf("vm%d.example.org %s", n, addresses), fmt.Sprintf("db.vm%d.example.org %s", n, addresses)), ignore)
}

func nicRows(count int) []*Table {
	all := make(map[[16]byte]*Table, count)
	for i := range count {
		t := nicRow(i)
		all[t.row] = t
	}
	return sortedRows(all)
}

func reverseOf(b *testing.B, address string) string {
	name, err := dns.ReverseAddr(address)
	if err != nil {
		b.Fatal(err)
	}
	return name
}

// BenchmarkRows queries a network with many DNS rows, and changes one of them.
func BenchmarkRows(b *testing.B) {
	for _, count := range []int{1, 3, 4, 10, 100, 1000, 10_000} {
		name := fmt.Sprintf("%d rows/", count)
		tables := nicRows(count)
		d := NewDirectory(tables, hosts())
		wild := NewDirectory(append(tables[:count-1:count-1], tables[count-1].Update(records(true, "*.apps.example.org 10.255.0.1"), ignore)), hosts())
		rr := new(Directory).With(tables, sortedRRs(count), hosts())
		for _, bench := range []struct {
			name     string
			d        *Directory
			question func(n int) string
			want     string // "data", "empty" or "none"
		}{
			{"known", &d, func(n int) string { return fmt.Sprintf("vm%d.example.org.", n) }, "data"},
			{"unknown", &d, func(n int) string { return fmt.Sprintf("no%d.example.org.", n) }, "none"},
			{"reverse", &d, func(n int) string { return reverseOf(b, fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)) }, "data"},
			{"reverse6", &d, func(n int) string { return reverseOf(b, fmt.Sprintf("fd00::%x", n)) }, "data"},
			{"reverse unknown", &d, func(n int) string { return reverseOf(b, fmt.Sprintf("11.%d.%d.%d", n>>16, n>>8&255, n&255)) }, "none"},
			{"NODATA", &d, func(int) string { return "example.org." }, "empty"},
			{"NODATA in ip6.arpa", &d, func(n int) string { return strings.TrimLeft(reverseOf(b, fmt.Sprintf("fd00::%x", n))[2:], ".") }, "empty"},
			{"NXDOMAIN in ip6.arpa", &d, func(n int) string { return reverseOf(b, fmt.Sprintf("fd00::1:%x:0", n))[2:] }, "none"},
			{"wildcard", &wild, func(n int) string { return fmt.Sprintf("x%d.apps.example.org.", n) }, "data"},
			{"unknown with wildcards", &wild, func(n int) string { return fmt.Sprintf("no%d.example.org.", n) }, "none"},
			{"known with other records", &rr, func(n int) string { return fmt.Sprintf("vm%d.example.org.", n) }, "data"},
			{"unknown with other records", &rr, func(n int) string { return fmt.Sprintf("no%d.example.org.", n) }, "none"},
		} {
			questions := make([]string, 1<<12)
			for i := range questions {
				questions[i] = bench.question(i * 7919 % count)
			}
			b.Run(name+bench.name, func(b *testing.B) {
				b.ReportAllocs()
				defer reportProcessor(b)()
				for i := 0; b.Loop(); i++ {
					q := questions[i%len(questions)]
					got := "data"
					if _, ok := bench.d.Lookup(q, "corp.test."); !ok {
						got = "none"
						if bench.d.Empty(q, "corp.test.") {
							got = "empty"
						}
					}
					if got != bench.want {
						b.Fatalf("%s: %s", q, got)
					}
				}
			})
		}
		b.Run(name+"change a row", func(b *testing.B) {
			b.ReportAllocs()
			defer reportProcessor(b)()
			d, at := d, count/2
			for i := 0; b.Loop(); i++ {
				next := append(make([]*Table, 0, count), d.tables.all...)
				next[at] = next[at].Update(records(true, fmt.Sprintf("new%d.example.org 10.255.0.1", i/2)), ignore)
				d = d.With(next, nil, d.hosts)
			}
		})
		b.Run(name+"add and remove a row", func(b *testing.B) {
			b.ReportAllocs()
			defer reportProcessor(b)()
			d, more := d, NewTable(tables[count/2].row).Update(records(false, "more.example.org 10.255.0.1"), ignore)
			more.row[15] = 1 // behind the row in the middle
			for b.Loop() {
				d = d.With(slices.Insert(slices.Clone(tables), count/2+1, more), nil, d.hosts)
				d = d.With(slices.Clone(tables), nil, d.hosts)
			}
		})
		b.Run(name+"load", func(b *testing.B) {
			b.ReportAllocs()
			defer reportProcessor(b)()
			for b.Loop() {
				NewDirectory(tables, hosts())
			}
		})
	}
}

func sortedRRs(count int) []*RRTable {
	all := make(map[[16]byte]*RRTable, count)
	for _, t := range nicRows(count) {
		all[t.row] = (*RRTable)(nil).Update(pairs(true, "dns-txt/text"+fmt.Sprint(t.row[0])+".example.org", "x"), ignore).WithRow(t.row)
	}
	return sortedRows(all)
}

// BenchmarkRowsMemory says what a row takes without and with its part of the index.
func BenchmarkRowsMemory(b *testing.B) {
	for _, count := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d rows", count), func(b *testing.B) {
			used := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			for b.Loop() {
				start := used()
				tables := nicRows(count)
				rows := used()
				d := NewDirectory(tables, hosts())
				end := used()
				runtime.KeepAlive(tables)
				runtime.KeepAlive(d)
				b.ReportMetric(float64(rows-start)/float64(count), "B/row")
				b.ReportMetric(float64(end-rows)/float64(count), "B/row-index")
			}
		})
	}
}
