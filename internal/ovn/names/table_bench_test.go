// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"runtime"
	"testing"
)

// tableLines are the records of a row.
func tableLines(row, count int, format string) []string {
	lines := make([]string, count)
	for i := range lines {
		lines[i] = fmt.Sprintf(format+" 10.%d.%d.%d", row, i, i>>16, i>>8&255, i&255)
	}
	return lines
}

// benchRows are tables of DNS rows, each with as many names.
func benchRows(rows, names int, format string) (all []*Table) {
	for i := range rows {
		all = append(all, row(tableLines(i, names, format)...))
	}
	return all
}

// tableShapes are those that a million names come in.
var tableShapes = []struct{ rows, names int }{{1000, 1000}, {1, 1_000_000}}

// BenchmarkTable asks for names of all rows in turn, and changes a row.
func BenchmarkTable(b *testing.B) {
	const format = "vm%d-%d.example.org"
	for _, shape := range tableShapes {
		name := fmt.Sprintf("%d rows of %d names/", shape.rows, shape.names)
		all := benchRows(shape.rows, shape.names, format)
		directories := make([]Directory, len(all))
		for i, t := range all {
			directories[i] = NewDirectory([]*Table{t}, hosts())
		}
		ask := func(what string, found bool, question func(row, i int) string) {
			questions := make([]string, 1<<12)
			row := func(i int) int { return i * 7919 % shape.rows }
			for i := range questions {
				questions[i] = question(row(i), i*7907%shape.names)
			}
			b.Run(name+what, func(b *testing.B) {
				b.ReportAllocs()
				defer reportProcessor(b)()
				for n := 0; b.Loop(); n++ {
					i := n % len(questions)
					d := &directories[row(i)]
					_, ok := d.Lookup(questions[i], "corp.test.")
					if !ok && d.Empty(questions[i], "corp.test.") || ok != found {
						b.Fatalf("%s: %v", questions[i], ok)
					}
				}
			})
		}
		ask("hit", true, func(row, i int) string { return fmt.Sprintf(format+".", row, i) })
		ask("miss", false, func(row, i int) string { return fmt.Sprintf("no"+format+".", row, i) })
		ask("miss elsewhere", false, func(row, i int) string { return fmt.Sprintf("www.vm%d-%d.test.", row, i) })
		ask("reverse hit", true, func(_, i int) string {
			return fmt.Sprintf("%d.%d.%d.10.in-addr.arpa.", i&255, i>>8&255, i>>16)
		})
		change := func(what string, line func(n int) string) {
			b.Run(name+what, func(b *testing.B) {
				b.ReportAllocs()
				defer reportProcessor(b)()
				t := all[0]
				for n := 0; b.Loop(); n++ {
					t = t.Update(records(true, line(n)), ignore)
				}
			})
		}
		change("change a value", func(n int) string {
			return fmt.Sprintf(format+" 192.0.%d.%d", 0, n%shape.names, n>>8&255, n&255)
		})
		change("add and remove", func(n int) string {
			return fmt.Sprintf("new"+format+" 192.0.2.1", 0, n/2)
		})
		lines := tableLines(0, shape.names, format)
		b.Run(name+"load", func(b *testing.B) {
			b.ReportAllocs()
			defer reportProcessor(b)()
			for b.Loop() {
				row(lines...)
			}
		})
	}
}

// BenchmarkTableMemory says what a name takes, in one domain, with an empty non-terminal above
// each, and as the hostname of a port.
func BenchmarkTableMemory(b *testing.B) {
	measure := func(name string, count int, build func() any) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				all := build()
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(all)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(count), "B/name")
			}
		})
	}
	for _, shape := range tableShapes {
		name := fmt.Sprintf("%d rows of %d names/", shape.rows, shape.names)
		measure(name+"one domain", shape.rows*shape.names, func() any { return benchRows(shape.rows, shape.names, "vm%d-%d.example.org") })
		measure(name+"own domains", shape.rows*shape.names, func() any { return benchRows(shape.rows, shape.names, "db.vm%d-%d.example.org") })
	}
	for _, domain := range []string{"", "example.org."} {
		measure(fmt.Sprintf("1000 networks of 100 ports/domain %q", domain), 100_000, func() any {
			var all []*Hostnames
			for i := range 1000 {
				all = append(all, hosts(benchPorts(i, 100, domain)...))
			}
			return all
		})
	}
}

// benchPorts are ports of a network.
func benchPorts(network, count int, domain string) (all []port) {
	for i := range count {
		// In no order, as they come from a database.
		n := i * 7919 % count
		all = append(all, port{fmt.Sprintf("host%d.", n), domain, fmt.Sprintf("10.%d.%d.%d", network>>8, network&255+n>>8, n&255)})
	}
	return all
}

// BenchmarkHosts compiles the ports of a network.
func BenchmarkHosts(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		for _, domain := range []string{"", "example.org."} {
			all := benchPorts(0, count, domain)
			b.Run(fmt.Sprintf("%d ports, domain %q", count, domain), func(b *testing.B) {
				b.ReportAllocs()
				defer reportProcessor(b)()
				for b.Loop() {
					hosts(all...)
				}
			})
		}
	}
}
