// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
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
			s.SetChassis("hv1")
			network, dp, dhcp := ovsdb.UUID{3}, ovsdb.UUID{2}, ovsdb.UUID{5}
			s.sb.datapaths.Put(dp, &datapath{key: 7, name: "red", legacy: network.String(), network: origin.Network(network)})
			sw := &logicalSwitch{name: "red"}
			for i := range count {
				id, name := ovsdb.UUID{4, byte(i >> 8), byte(i)}, fmt.Sprint("port", i)
				at := addresses{static: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}, macs: []origin.MAC{{2, 0, 0, 0, byte(i >> 8), byte(i)}}}
				s.sb.ports.Put(id, &binding{name: name, datapath: dp, key: uint32(i + 1), canonical: fmt.Sprintf("vm%d.", i), addresses: at})
				if northbound {
					s.nb.ports.Put(id, &switchPort{name: name, configured: at, dhcp: dhcpRows{v4: dhcp}})
					sw.ports = append(sw.ports, id)
				}
			}
			if northbound {
				s.nb.dhcp.Put(dhcp, &dhcpOptions{domain: "example.org.", rawServers: "{9.9.9.9, 8.8.8.8}"})
				s.nb.switches.Put(network, sw)
			}
			s.takeChanges()
			snapshot := new(Snapshot)
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
