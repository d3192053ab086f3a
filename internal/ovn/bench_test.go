// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// benchSnapshot is a network of 100 ports and a DNS row of 1,000 names and a wildcard, with a router scope.
func benchSnapshot(t testing.TB) (*Snapshot, *Network) {
	rows := []string{"*.wild.test", "10.2.0.1"}
	for i := range 1000 {
		rows = append(rows, fmt.Sprintf("vm%d.example.org", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	d := PortsData{Keys: []uint32{1}}
	for i := range 100 {
		d.Ports = append(d.Ports, PortData{
			Name: fmt.Sprint("p", i), DatapathKey: 1, Key: uint32(i + 1), Hostname: fmt.Sprintf("host%d.", i),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})},
		})
	}
	ports, _ := NewPorts(d)
	table := names.NewTable([16]byte{1}).Update(records(rows...), failing(t))
	n := NewNetwork(NetworkData{ID: origin.Network{1}, Ports: ports, Tables: []*names.Table{table}})
	return joinedOf(n), n
}

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
		snapshot := eventually(b, s, func(s *Snapshot) string {
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
		s := eventually(b, source, func(s *Snapshot) string {
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

// BenchmarkHasMachine asks whether the DNS server of a guest's DHCP is a machine of the tenant,
// as each query to such an address does, in a network alone and in one of many that are joined.
func BenchmarkHasMachine(b *testing.B) {
	for _, count := range []int{1, 1000} {
		b.Run(fmt.Sprintf("%d joined networks", count), func(b *testing.B) {
			s, all := joinedSnapshot(count)
			n, server := all[0], netip.MustParseAddr("9.9.9.9")
			b.ReportAllocs()
			for b.Loop() {
				if s.HasMachine(n, server) {
					b.Fatal("a machine has the address")
				}
			}
		})
	}
}

// joinedSnapshot returns a snapshot of networks that are joined, each with 100 machines.
func joinedSnapshot(count int) (*Snapshot, []*Network) {
	var all []*Network
	for i := range count {
		d := PortsData{Machines: true}
		for j := range 100 {
			d.Ports = append(d.Ports, PortData{Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j)})}})
		}
		ports, _ := NewPorts(d)
		all = append(all, NewNetwork(NetworkData{ID: origin.Network{byte(i >> 8), byte(i), 1}, Ports: ports}))
	}
	return joinedOf(all...), all
}

// joinedOf returns a snapshot of networks that routers join.
func joinedOf(all ...*Network) *Snapshot {
	edit, g := new(Snapshot).Edit(), &component{closed: true}
	for _, n := range all {
		edit.Put(n)
		g.networks = append(g.networks, n.ID)
	}
	b := scopeBuilder{edit, edit.editScopes()}
	b.setAll(g, nil)
	edit.setScopes(b.scopes)
	return edit.Done()
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
				s.sb.portChanged(id, nil, &binding{name: fmt.Sprintf("p%d", i), key: uint32(i)})
			}
			s.sbConn.status.Synced = true
			s.SetPorts(b, []string{"p7"}, 0)
			s.clock = func() time.Time { return time.Now().Add(time.Hour) }
			b.ReportAllocs()
			for b.Loop() {
				if s.Unserved(b, []string{"p7"})["p7"] != "it is bound to no chassis" {
					b.Fatal("another reason")
				}
			}
		})
	}
}
