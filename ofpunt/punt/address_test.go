// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// A packet is taken if it is for a resolver address of all guests or of its sender; a flow of
// before may have brought another, which goes on if it can. The packets of the tests are for
// 169.254.169.254 and from in_port 5.
func TestAddressOfSender(t *testing.T) {
	resolver := netip.MustParseAddr("169.254.169.254")
	none := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:53")}
	// by has the databases know the guest and another port of its network.
	by := func(given bool, resolvers []netip.AddrPort, change func(guest, other *ovn.PortData)) func(*Config) {
		guest, other := ovntest.Port("port-1", 1, "02:00:00:00:00:01 10.0.0.11"), ovntest.Port("port-2", 2, "02:00:00:00:00:02 10.0.0.12")
		change(&guest, &other)
		snapshot := ovntest.Snapshot(ovn.PortsData{Network: origin.Network{1}, Switch: "red", Ports: []ovn.PortData{guest, other}})
		return func(c *Config) {
			c.Snapshot = func() *ovn.Snapshot { return snapshot }
			c.Guests = guests.NewRules(guests.Config{Placement: placement.Table, Resolvers: resolvers, ResolversGiven: given, DHCP: len(resolvers) > 0 && given})
		}
	}
	rules := func(resolvers []netip.AddrPort) func(*Config) {
		return func(c *Config) {
			c.Guests = guests.NewRules(guests.Config{Placement: placement.Table, Resolvers: resolvers, ResolversGiven: true})
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		taken  bool
	}{
		{"of all guests", nil, true},
		{"of the sender", by(true, none, func(guest, _ *ovn.PortData) { guest.DNSServers = []netip.Addr{resolver} }), true},
		{"of another guest", by(true, none, func(_, other *ovn.PortData) { other.DNSServers = []netip.Addr{resolver} }), false},
		{"of a port of its network", by(false, guestConfig().Resolvers, func(_, other *ovn.PortData) {
			other.Type, other.Addresses = "localport", []netip.Addr{resolver}
		}), true},
		{"of a workload of its network", by(false, guestConfig().Resolvers, func(_, other *ovn.PortData) { other.Addresses = []netip.Addr{resolver} }), false},
		{"of nobody", rules(none), false},
		{"another port", rules([]netip.AddrPort{netip.AddrPortFrom(resolver, 5353)}), false},
	} {
		for _, packet := range []struct {
			name           string
			frame          []byte
			resumable      bool
			result, reason string // of one that is taken
			lost           string // what becomes of another
		}{
			{"UDP", punttest.QueryFrame(), false, metric.Answered, metric.ReasonChain, metric.Dropped},
			{"UDP, resumable", punttest.QueryFrame(), true, metric.Answered, metric.ReasonChain, metric.Resumed},
			{"TCP", punttest.Segment(t, 7, 0, punttest.SYN, nil), false, metric.Taken, metric.ReasonSegment, metric.Dropped},
			{"TCP, resumable", punttest.Segment(t, 7, 0, punttest.SYN, nil), true, metric.Taken, metric.ReasonSegment, metric.Dropped},
			{"ARP", arpFrame(), false, metric.Answered, metric.ReasonNeighbor, metric.Dropped},
		} {
			if packet.name == "ARP" && tt.name == "another port" {
				continue // it has none
			}
			t.Run(tt.name+"/"+packet.name, func(t *testing.T) {
				c, peer := tcpChannel(t)
				serve(c.intake, reply, tt.change)
				result, reason := packet.result, packet.reason
				if !tt.taken || packet.name == "ARP" && tt.name == "of a port of its network" {
					result, reason = packet.lost, metric.ReasonAddress
				}
				before := packetIns(t, result, reason)
				punted := punttest.Punt(packet.frame)
				if packet.resumable {
					punted = punttest.ResumablePunt(packet.frame)
				}
				send(t, peer, punted)
				testkit.Eventually(t, result+" for "+reason, func() bool { return packetIns(t, result, reason) == before+1 })
			})
		}
	}
}
