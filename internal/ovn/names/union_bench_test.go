// SPDX-License-Identifier: Apache-2.0

package names

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const benchNames = 20 // of each network

// benchTable is a row of names of one network.
func benchTable(network int) *Table {
	var lines []string
	for i := range benchNames {
		lines = append(lines, fmt.Sprintf("vm%d-%d.example.org 10.%d.%d.%d", network, i, network>>8, network&255, i))
	}
	return row(lines...)
}

// benchID is that of a network: as random as UUIDs are.
func benchID(network int) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(network+1)*0x9e3779b97f4a7c15)
	return id
}

// benchDirectories are networks with a row of their own, and a few ports.
func benchDirectories(count int) (all []*Directory) {
	for i := range count {
		d := NewDirectory([]*Table{benchTable(i)}, hosts(port{fmt.Sprintf("host%d.", i), "", fmt.Sprintf("10.%d.%d.254", i>>8, i&255)}))
		all = append(all, &d)
	}
	return all
}

// reportProcessor reports the processor time of an operation: a shared machine has others run
// meanwhile. It is called as the benchmark begins, and what it returns at the end.
func reportProcessor(b *testing.B) (done func()) {
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(1, &r); err != nil { // RUSAGE_THREAD, getrusage(2)
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	runtime.LockOSThread()
	start := used()
	return func() {
		b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op")
		runtime.UnlockOSThread()
	}
}

func joinAll(all []*Directory) *Union {
	e := new(Union).Edit()
	for i, d := range all {
		e.Set(benchID(i), d)
	}
	return e.Done()
}

// withWildcards joins a network with a wildcard in a zone of its own.
func withWildcards(j *Union) *Union {
	d := NewDirectory([]*Table{row("*.apps.example.net 10.0.0.1")}, hosts())
	e := j.Edit()
	e.Set([16]byte{9}, &d)
	return e.Done()
}

// BenchmarkJoined looks names up in networks that are joined, those of all networks in turn, and
// changes one name of one network.
func BenchmarkJoined(b *testing.B) {
	for _, count := range []int{1, 10, 1000, 10_000} {
		all := benchDirectories(count)
		j := joinAll(all)
		s := NewScope(all[0], j)
		wild := NewScope(all[0], withWildcards(j))
		questions := func(format string) (names []string) {
			for i := range 1 << 12 {
				names = append(names, fmt.Sprintf(format, i*7919%count, i%benchNames))
			}
			return names
		}
		reverse := func(format string) (names []string) {
			for i := range 1 << 12 {
				network := i * 7919 % count
				name, err := dns.ReverseAddr(fmt.Sprintf(format, network>>8, network&255, i%benchNames))
				if err != nil {
					b.Fatal(err)
				}
				names = append(names, name)
			}
			return names
		}
		for _, bench := range []struct {
			name  string
			scope Scope
			names []string
			found bool
		}{
			{"hit", s, questions("vm%d-%d.example.org."), true},
			{"miss", s, questions("no%d-%d.example.org."), false},
			{"miss elsewhere", s, questions("www%d.a%d.test."), false},
			{"miss with wildcards", wild, questions("no%d-%d.example.org."), false},
			{"reverse hit", s, reverse("10.%d.%d.%d"), true},
			{"reverse miss", s, reverse("11.%d.%d.%d"), false},
		} {
			b.Run(fmt.Sprintf("%d networks/%s", count, bench.name), func(b *testing.B) {
				b.ReportAllocs()
				defer reportProcessor(b)()
				for i := 0; b.Loop(); i++ {
					name := bench.names[i%len(bench.names)]
					_, ok := bench.scope.Lookup(name, "corp.test.")
					if !ok {
						// As for an NXDOMAIN.
						ok = bench.scope.Empty(name, "corp.test.")
					}
					if ok != bench.found {
						b.Fatalf("%s: %v", name, ok)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("%d networks/change", count), func(b *testing.B) {
			b.ReportAllocs()
			table := benchTable(count / 2)
			defer reportProcessor(b)()
			for i := 0; b.Loop(); i++ {
				table = table.Update(records(true, fmt.Sprintf("new%d.example.org 10.255.0.1", i/2)), ignore)
				d := NewDirectory([]*Table{table}, all[count/2].hosts)
				e := j.Edit()
				e.Set(benchID(count/2), &d)
				j = e.Done()
			}
		})
		b.Run(fmt.Sprintf("%d networks/join one more", count), func(b *testing.B) {
			defer reportProcessor(b)()
			for b.Loop() {
				e := j.Edit()
				e.Set(benchID(count+1), all[0])
				e.Done()
			}
		})
	}
}

// BenchmarkJoinedMemory says what the index takes beside the names.
func BenchmarkJoinedMemory(b *testing.B) {
	for _, count := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d networks", count), func(b *testing.B) {
			used := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			for b.Loop() {
				start := used()
				all := benchDirectories(count)
				names := used()
				joined := joinAll(all)
				end := used()
				runtime.KeepAlive(joined)
				runtime.KeepAlive(all)
				total := float64(count * (benchNames + 1))
				b.ReportMetric(float64(names-start)/total, "B/name")
				b.ReportMetric(float64(end-names)/total, "B/name-index")
				b.ReportMetric(float64(end-start)/float64(names-start), "ratio")
			}
		})
	}
}

// A lookup allocates nothing where the network that answers allocates nothing.
func TestJoinedAllocations(t *testing.T) {
	all := benchDirectories(50)
	wild := NewDirectory([]*Table{row("*.apps.example.org 10.0.0.1", "b.c.apps.example.org 10.0.0.1", "x.*.other.example.org 10.0.0.1")}, hosts())
	e := joinAll(all).Edit()
	e.Set([16]byte{9}, &wild)
	s := NewScope(all[0], e.Done())
	server := netip.MustParseAddr("192.0.2.1")
	for _, name := range []string{
		"vm7-7.example.org.", "no.example.org.", "host7.corp.test.", "host7.", "7.7.0.10.in-addr.arpa.", "9.9.9.9.in-addr.arpa.", "9.9.in-addr.arpa.", "0.10.in-addr.arpa.",
		"a.b.apps.example.org.", "a.c.apps.example.org.", "c.apps.example.org.", "y.other.example.org.", "8.b.d.0.1.0.0.2.ip6.arpa.", "a.b.c.d.e.f.",
	} {
		if got := testing.AllocsPerRun(100, func() {
			s.Lookup(name, "corp.test.")
			s.Empty(name, "corp.test.")
			s.HasMachine(server)
		}); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
