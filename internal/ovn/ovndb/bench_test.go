// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// BenchmarkMemory loads 1,000 DNS rows of 1,000 names and says what they cost: in
// one domain, and with an empty non-terminal above each.
func BenchmarkMemory(b *testing.B) {
	for name, format := range map[string]string{"one domain": "vm%d-%d.example.org", "own domains": "db.vm%d-%d.example.org"} {
		b.Run(name, func(b *testing.B) { benchMemory(b, format) })
	}
}

func benchMemory(b *testing.B, format string) {
	r := newRig(b)
	const rows, names = 1000, 1000
	fill(b, r, rows, names, format)
	c := r.config(true, false)
	c.Monitor = All
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Acquire(c)
		if err != nil {
			b.Fatal(err)
		}
		snapshot := eventually(b, s, func(s *ovn.Snapshot) string {
			if s.Stats.Names < rows*names {
				return "not all there"
			}
			return ""
		})
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(rows*names), "B/name")
		b.ReportMetric(float64(after.Sys)/1e6, "MB-sys")
		b.ReportMetric(float64(snapshot.Stats.Rebuild.Microseconds()), "µs-rebuild")
		s.Release()
	}
}

// BenchmarkLookupAtSize looks up names of one network, as few of them and any of
// all, with few and with many names beside them.
func BenchmarkLookupAtSize(b *testing.B) {
	for _, rows := range []int{1, 1000} {
		r := newRig(b)
		fill(b, r, rows, 1000, "vm%d-%d.example.org")
		c := r.config(true, false)
		c.Monitor = All
		source, err := Acquire(c)
		if err != nil {
			b.Fatal(err)
		}
		s := eventually(b, source, func(s *ovn.Snapshot) string {
			if s.Stats.Names < rows*1000 {
				return "not all there"
			}
			return ""
		})
		var names [1000]string
		n := s.NetworkByName("s0")
		for i := range names {
			names[i] = fmt.Sprintf("vm0-%d.example.org.", i)
		}
		for name, working := range map[string]int{"100 of its names": 100, "all of its names": len(names)} {
			b.Run(fmt.Sprintf("%d names, %s", rows*1000, name), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if _, ok := n.Lookup(names[i], ""); !ok {
						b.Fatal("not found")
					}
					if i++; i == working {
						i = 0
					}
				}
			})
		}
		source.Release()
	}
}

// fill makes rows networks, each with a DNS row of names names.
func fill(b testing.TB, r *rig, rows, names int, format string) {
	for row := range rows {
		var records []string
		for i := range names {
			records = append(records, fmt.Sprintf(`[%q,"10.%d.%d.%d"]`, fmt.Sprintf(format, row, i), row/250, row%250, i%250))
		}
		r.server.Transact(b, "OVN_Southbound",
			rawJSON(fmt.Sprintf(`{"op":"insert","table":"Datapath_Binding","uuid-name":"dp","row":{"tunnel_key":%d,"external_ids":["map",[["name","s%d"],["logical-switch","11111111-1111-4111-8111-%012d"]]]}}`, row+1, row, row)),
			rawJSON(`{"op":"insert","table":"DNS","row":{"datapaths":["named-uuid","dp"],"records":["map",[`+strings.Join(records, ",")+`]]}}`))
	}
}

// BenchmarkUnserved asks why one port is no guest here, as each bridge does every two seconds, with few
// and with many ports.
func BenchmarkUnserved(b *testing.B) {
	for _, count := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("%d ports", count), func(b *testing.B) {
			c := Config{Southbound: []string{"unix:/none"}, Monitor: All}
			s := newSource(c, mustEndpoints(b, c.Southbound), nil, nil)
			for i := range count {
				id := ovsdb.UUID{1, byte(i >> 16), byte(i >> 8), byte(i)}
				s.sb.Ports.Put(id, &topology.PortBinding{PortRow: topology.PortRow{LogicalPort: ovn.LogicalPort{Name: fmt.Sprintf("p%d", i), Key: uint32(i)}}})
			}
			s.sbConn.status.Synced = true
			s.as("br").setPorts([]string{"p7"}, 0)
			s.clock = func() time.Time { return time.Now().Add(time.Hour) }
			b.ReportAllocs()
			for b.Loop() {
				if s.as("br").NotHere([]string{"p7"})["p7"] != "it is bound to no chassis" {
					b.Fatal("another reason")
				}
			}
		})
	}
}
