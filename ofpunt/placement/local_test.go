// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

func TestFlowsInFrontOfPipeline(t *testing.T) {
	s := placement.Service{
		Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53")},
		Neighbors: true, ControllerID: 77, Lease: 15, Cookie: 0x70646e,
	}
	const (
		setGuard = "set_field:0x80000000/0x80000000->reg15"
		guard    = "actions=" + setGuard + ",resubmit(,200)"
	)
	any, one := placement.Guest{Key: placement.Key{Port: 7}}, placement.Key{Port: 7, MAC: [6]byte{2, 0, 0, 0, 0, 1}}
	service := []netip.Addr{s.Addresses[0].Addr()}
	tests := []struct {
		name   string
		change func(*placement.Service)
		guest  placement.Guest
		meter  uint32
		flows  []string
	}{
		{"any MAC", nil, any, 0, []string{
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x806,arp_op=1,arp_tpa=169.254.169.254,reg15=0x0/0x80000000," + guard,
		}},
		{"an address that a workload has", nil, placement.Guest{Key: any.Key, Left: service}, 0, nil},
		{"a limit", nil, placement.Guest{Key: any.Key, Owned: service}, 9, []string{
			"add table=202,priority=10,cookie=0x70646e,in_port=7,actions=controller(id=77,userdata=70.75.6e.74.64.6e.73.01,meter_id=9)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg15=0x0/0x80000000," + guard,
		}},
		{"one MAC, and the address is a port's", nil, placement.Guest{Key: one, Owned: service}, 0, []string{
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg15=0x0/0x80000000," + guard,
		}},
		{"IPv6 addresses, two at a port", func(s *placement.Service) {
			s.Addresses = []netip.AddrPort{netip.MustParseAddrPort("[fd00::254]:53"), netip.MustParseAddrPort("[fd00::254]:5353")}
		}, placement.Guest{
			Key: one, Addresses: []netip.AddrPort{netip.MustParseAddrPort("[fd00::1]:53")}, Owned: []netip.Addr{netip.MustParseAddr("fd00::1")},
		}, 9, []string{
			"add table=202,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,actions=controller(id=77,userdata=70.75.6e.74.64.6e.73.01,meter_id=9)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=17,udp_dst=53,ipv6_dst=fd00::254,actions=resubmit(,200)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=6,tcp_dst=53,ipv6_dst=fd00::254,actions=resubmit(,200)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=17,udp_dst=5353,ipv6_dst=fd00::254,actions=resubmit(,200)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=6,tcp_dst=5353,ipv6_dst=fd00::254,actions=resubmit(,200)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=17,udp_dst=53,ipv6_dst=fd00::1,actions=resubmit(,200)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=6,tcp_dst=53,ipv6_dst=fd00::1,actions=resubmit(,200)",
			"add table=201,priority=10,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=58,icmpv6_type=135,nd_target=fd00::254,actions=resubmit(,200)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=17,udp_dst=53,reg15=0x0/0x80000000,actions=" + setGuard + ",resubmit(,201)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=6,tcp_dst=53,reg15=0x0/0x80000000,actions=" + setGuard + ",resubmit(,201)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=17,udp_dst=5353,reg15=0x0/0x80000000,actions=" + setGuard + ",resubmit(,201)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=6,tcp_dst=5353,reg15=0x0/0x80000000,actions=" + setGuard + ",resubmit(,201)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x86dd,ip_proto=58,icmpv6_type=135,reg15=0x0/0x80000000,actions=" + setGuard + ",resubmit(,201)",
		}},
		{"hijacked", func(s *placement.Service) { s.Addresses, s.Hijack = nil, true }, any, 0, []string{
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=17,udp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x86dd,ip_proto=17,udp_dst=53,reg15=0x0/0x80000000," + guard,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s
			if tt.change != nil {
				tt.change(&s)
			}
			at := placement.Pipeline{Kind: placement.Table, Table: 60, Priority: 102}
			if d := cmp.Diff(tt.flows, texts(s.OfGuest(at, &tt.guest, tt.meter)...)); d != "" {
				t.Error(d)
			}
			private, _ := s.Private(at)
			if d := cmp.Diff([]string{
				"add table=202,priority=0,cookie=0x70646e,actions=controller(id=77,userdata=70.75.6e.74.64.6e.73.01)",
				"add table=200,priority=0,cookie=0x70646e,actions=resubmit(,60)",
				"add table=200,priority=20,cookie=0x70646e,in_port=CONTROLLER,eth_type=0x88b5,actions=controller(id=77,userdata=70.75.6e.74.64.6e.73.01)",
				"add table=201,priority=0,cookie=0x70646e,actions=resubmit(,60)",
			}, texts(private...)); d != "" {
				t.Error(d)
			}
		})
	}
}
