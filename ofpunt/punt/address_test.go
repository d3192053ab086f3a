// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// A packet is taken if it is for a resolver address of all guests or of its sender; a flow of
// before may have brought another, which goes on if it can. The packets of the tests are for
// 169.254.169.254 and from in_port 5.
func TestAddressOfSender(t *testing.T) {
	of := func(uuid string) func(*openflow.PacketIn, *vswitch.Interface, netip.AddrPort) bool {
		return func(in *openflow.PacketIn, owner *vswitch.Interface, a netip.AddrPort) bool {
			return in.InPort == 5 && owner != nil && owner.UUID == uuid && a == netip.MustParseAddrPort("169.254.169.254:53")
		}
	}
	none := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:53")}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		taken  bool
	}{
		{"of all guests", nil, true},
		{"of the sender", func(c *Config) { c.Addresses, c.HasAddress = none, of("1") }, true},
		{"of another guest", func(c *Config) { c.Addresses, c.HasAddress = none, of("2") }, false},
		{"of a port of its network", func(c *Config) {
			c.Owns = func(in *openflow.PacketIn, _ *vswitch.Interface, a netip.Addr) bool {
				return in.InPort == 5 && a == netip.MustParseAddr("169.254.169.254")
			}
		}, true},
		{"of a workload of its network", func(c *Config) {
			c.HasWorkload = func(in *openflow.PacketIn, _ *vswitch.Interface, a netip.Addr) bool {
				return in.InPort == 5 && a == netip.MustParseAddr("169.254.169.254")
			}
			c.Owns = c.HasWorkload // each workload is a port
		}, false},
		{"of nobody", func(c *Config) { c.Addresses = none }, false},
		{"another port", func(c *Config) { c.Addresses = []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:5353")} }, false},
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
