// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
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
			LogicalPort: &LogicalPort{
				Name: fmt.Sprint("p", i), Key: uint32(i + 1), Hostname: fmt.Sprintf("host%d.", i),
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})},
			},
			DatapathKey: 1,
		})
	}
	ports, _ := NewPorts(d)
	table := names.NewTable([16]byte{1}).Update(records(rows...), failing(t))
	n := NewNetwork(NetworkData{ID: origin.Network{1}, Ports: ports, Tables: []*names.Table{table}})
	return joinedOf(n), n
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
			d.Ports = append(d.Ports, PortData{LogicalPort: &LogicalPort{Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j)})}}})
		}
		ports, _ := NewPorts(d)
		all = append(all, NewNetwork(NetworkData{ID: origin.Network{byte(i >> 8), byte(i), 1}, Ports: ports}))
	}
	return joinedOf(all...), all
}

// joinedOf returns a snapshot of networks that routers join.
func joinedOf(all ...*Network) *Snapshot {
	edit := new(Snapshot).Edit()
	scopes, index := edit.EditScopes(), (*names.Union)(nil).Edit()
	for _, n := range all {
		edit.Put(n)
		scopes.Set(n.ID, all[0].ID)
		index.Set(n.ID, &n.Directory)
	}
	scopes.SetIndex(all[0].ID, index.Done())
	edit.SetScopes(scopes)
	return edit.Done()
}

// TestLookupAllocates checks what the way of a query must not do.
func TestLookupAllocates(t *testing.T) {
	s, n := benchSnapshot(t)
	for _, name := range []string{"vm7.example.org.", "host7.", "host7.x.", "7.0.0.10.in-addr.arpa.", "none.", "9.9.9.9.in-addr.arpa.", "q.wild.test.", "a.b.q.wild.test.", "example.org.", "0.10.in-addr.arpa."} {
		if got := testing.AllocsPerRun(100, func() {
			s.Guest(1, 7)
			s.Network(n.ID)
			n.Lookup(name, "x.")
			scope := s.RouterScope(n.ID)
			scope.Lookup(name, "x.")
			scope.Empty(name, "x.")
			scope.Empty(name, "a.domain.of.more.than.32.bytes.example.")
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	_, n := benchSnapshot(b)
	for _, name := range []string{"vm7.example.org.", "host7.", "host7.x.", "7.0.0.10.in-addr.arpa.", "none.", "q.wild.test."} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n.Lookup(name, "x.")
			}
		})
	}
}
