// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// BenchmarkRebuild rebuilds a network of 1,000 ports, as each change of one of its ports does.
func BenchmarkRebuild(b *testing.B) {
	const count = 1000
	for _, northbound := range []bool{false, true} {
		b.Run(fmt.Sprintf("northbound %v", northbound), func(b *testing.B) {
			c := Config{Southbound: []string{"unix:/none"}, Monitor: All}
			endpoints := mustEndpoints(b, c.Southbound)
			nb := endpoints[:0]
			if northbound {
				nb = endpoints
			}
			s := newSource(c, endpoints, nb, nil)
			defer s.Request(Requests{DNSServers: northbound})()
			s.nameChassis("hv1")
			network, dp, dhcp := ovsdb.UUID{3}, ovsdb.UUID{2}, ovsdb.UUID{5}
			s.sb.Datapaths.Put(dp, &topology.Datapath{Key: 7, Name: "red", Legacy: network.String(), Network: origin.Network(network)})
			sw := &topology.LogicalSwitch{Name: "red"}
			for i := range count {
				id := ovsdb.UUID{4, byte(i >> 8), byte(i)}
				of := ovn.LogicalPort{
					Name: fmt.Sprint("port", i), Hostname: fmt.Sprintf("vm%d.", i),
					Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}, MACs: []origin.MAC{{2, 0, 0, 0, byte(i >> 8), byte(i)}},
				}
				bound := of
				bound.Key = uint32(i + 1)
				s.sb.Ports.Put(id, &topology.PortBinding{PortRow: topology.PortRow{LogicalPort: bound}, Datapath: dp})
				if northbound {
					of.Hostname = ""
					s.nb.Ports.Put(id, &topology.SwitchPort{PortRow: topology.PortRow{LogicalPort: of}, DHCP: topology.DHCPRows{V4: dhcp}})
					sw.Ports = append(sw.Ports, id)
				}
			}
			if northbound {
				s.nb.DHCP.Put(dhcp, &topology.DHCPOptions{Domain: "example.org.", RawServers: "{9.9.9.9, 8.8.8.8}"})
				s.nb.Switches.Put(network, sw)
			}
			s.takeChanges()
			snapshot := new(ovn.Snapshot)
			b.ReportAllocs()
			for b.Loop() {
				s.markDirty(origin.Network(network), true)
				next := s.build(snapshot)
				s.built(next)
				snapshot = next
			}
			b.StopTimer()
			if snapshot.Stats.Ports != count || northbound && len(snapshot.PortByName("port7").DNSServers) != 2 {
				b.Fatalf("%+v", snapshot.Stats)
			}
			b.ReportMetric(float64(count), "ports")
		})
	}
}

// BenchmarkRebuildRows rebuilds a network with many DNS rows, as each change of one of its rows does.
func BenchmarkRebuildRows(b *testing.B) {
	for _, count := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d rows", count), func(b *testing.B) {
			c := Config{Northbound: []string{"unix:/none"}, Monitor: All}
			s := newSource(c, nil, mustEndpoints(b, c.Northbound), nil)
			network, sw := ovsdb.UUID{3}, &topology.LogicalSwitch{Name: "red"}
			row := func(i, version int) (ovsdb.UUID, *topology.NorthboundDNS) {
				id := ovsdb.UUID{byte(i >> 8), byte(i), 4}
				records := names.Records{Count: 1, Pairs: func(yield func(k, v []byte) bool) {
					yield(fmt.Appendf(nil, "vm%d.example.org", i), fmt.Appendf(nil, "10.%d.%d.%d", version&255, i>>8, i&255))
				}}
				ignore := names.Reports{Begin: func(string) {}, Bad: func(string, string, error) {}}
				return id, &topology.NorthboundDNS{DNSRow: topology.DNSRow{ID: id, Table: names.NewTable(id).Update(records, ignore)}}
			}
			for i := range count {
				id, r := row(i, 0)
				s.nb.DNS.Put(id, r)
				sw.DNSRows = append(sw.DNSRows, id)
			}
			s.nb.Switches.Put(network, sw)
			s.takeChanges()
			snapshot := s.build(new(ovn.Snapshot))
			s.built(snapshot)
			b.ReportAllocs()
			for version := 1; b.Loop(); version++ {
				s.nb.DNS.Put(row(count/2, version))
				s.takeChanges()
				next := s.build(snapshot)
				s.built(next)
				snapshot = next
			}
			b.StopTimer()
			if n := snapshot.Network(origin.Network(network)); n == nil || len(n.Names("")) != count {
				b.Fatal("the names are missing")
			}
		})
	}
}
