// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func texts(mods ...openflow.FlowMod) []string {
	var all []string
	for _, f := range mods {
		all = append(all, f.String())
	}
	return all
}

func TestFlowsInOVN(t *testing.T) {
	resolvers := []netip.AddrPort{
		netip.MustParseAddrPort("169.254.169.254:53"),
		netip.MustParseAddrPort("[fd00::254]:5353"),
	}
	service := placement.Service{
		Addresses: resolvers, ControllerID: 77, Lease: 15, Cookie: 0x70646e,
	}
	guest := placement.Guest{Key: placement.Key{Datapath: 5, Port: 3}}
	ipv4, ipv6 := []netip.Addr{resolvers[0].Addr()}, []netip.Addr{resolvers[1].Addr(), netip.MustParseAddr("fd00::1")}

	tests := []struct {
		name   string
		change func(*placement.Service)
		guests []placement.Guest
		meter  uint32
		punt   string // the action of the punt of all guests
		flows  []string
	}{
		{
			name:   "service mode",
			guests: []placement.Guest{guest},
			flows: []string{
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=17,udp_dst=5353,ipv6_dst=fd00::254,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=6,tcp_dst=5353,ipv6_dst=fd00::254,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,reg2=0x14e9/0xffff,reg4=0xfd000000,reg5=0x0,reg6=0x0,reg7=0x254,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name:   "hijack mode, where a query goes on in the DNS stage",
			punt:   "controller(id=77,userdata=70.75.6e.74.64.6e.73.01.1e)",
			change: func(s *placement.Service) { s.Addresses, s.Hijack, s.Resumable, s.Neighbors = nil, true, true, true },
			guests: []placement.Guest{guest},
			flows: []string{
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=17,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=17,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name:   "addresses of a guest",
			change: func(s *placement.Service) { s.Addresses, s.Neighbors = resolvers[:1], true },
			guests: []placement.Guest{
				{Key: guest.Key, Addresses: []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:53"), netip.MustParseAddrPort("[fd00::1]:53")}, Owned: ipv6},
				{Key: placement.Key{Datapath: 6, Port: 4}},
			},
			flows: []string{
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=8.8.8.8,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=6,nw_dst=8.8.8.8,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=17,udp_dst=53,ipv6_dst=fd00::1,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=6,tcp_dst=53,ipv6_dst=fd00::1,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg1=0x8080808,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg2=0x35/0xffff,reg4=0x8080808,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,reg2=0x35/0xffff,reg4=0xfd000000,reg5=0x0,reg6=0x0,reg7=0x1,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x806,arp_op=1,arp_tpa=169.254.169.254,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x806,arp_op=1,arp_tpa=8.8.8.8,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x6,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x4,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x6,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x4,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x6,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x4,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x6,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x4,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x6,eth_type=0x806,arp_op=1,arp_tpa=169.254.169.254,reg14=0x4,actions=resubmit(,200)",
			},
		},
		{
			name:   "neighbours, but not of an address that a port owns",
			change: func(s *placement.Service) { s.Neighbors = true },
			guests: []placement.Guest{
				{Key: guest.Key, Owned: ipv4},
			},
			flows: []string{
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=17,udp_dst=5353,ipv6_dst=fd00::254,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=6,tcp_dst=5353,ipv6_dst=fd00::254,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,reg2=0x14e9/0xffff,reg4=0xfd000000,reg5=0x0,reg6=0x0,reg7=0x254,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x86dd,ip_proto=58,icmpv6_type=135,nd_target=fd00::254,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name:   "a limit",
			change: func(s *placement.Service) { s.Addresses = s.Addresses[:1] },
			guests: []placement.Guest{guest},
			meter:  9,
			flows: []string{
				"add table=202,priority=10,cookie=0x70646e,metadata=0x5,reg14=0x3,actions=controller(id=77,userdata=70.75.6e.74.64.6e.73.01,meter_id=9)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name:   "a guest that fails closed",
			change: func(s *placement.Service) { s.Addresses = s.Addresses[:1] },
			guests: []placement.Guest{{Key: placement.Key{Datapath: 5, Port: 3, MAC: [6]byte{2, 0, 0, 0, 0, 1}}, Closed: true}},
			flows: []string{
				"add table=200,priority=5,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,reg14=0x3,actions=drop",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name:   "one source address",
			change: func(s *placement.Service) { s.Addresses, s.Neighbors = s.Addresses[:1], true },
			guests: []placement.Guest{{Key: placement.Key{Datapath: 5, Port: 3, MAC: [6]byte{2, 0, 0, 0, 0, 1}}}},
			flows: []string{
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,dl_src=02:00:00:00:00:01,eth_type=0x806,arp_op=1,arp_tpa=169.254.169.254,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name:   "an address that a workload has",
			change: func(s *placement.Service) { s.Neighbors = true },
			guests: []placement.Guest{{Key: guest.Key, Left: []netip.Addr{netip.MustParseAddr("fd00::254")}}},
			flows: []string{
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg1=0xa9fea9fe,reg2=0x35/0xffff,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x800,reg2=0x35/0xffff,reg4=0xa9fea9fe,reg14=0x3,actions=resubmit(,200)",
				"add table=29,priority=200,cookie=0x70646e,metadata=0x5,eth_type=0x806,arp_op=1,arp_tpa=169.254.169.254,reg14=0x3,actions=resubmit(,200)",
			},
		},
		{
			name: "no guest",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := service
			if tt.change != nil {
				tt.change(&s)
			}
			at := placement.Pipeline{Kind: placement.OVN, Table: 30}
			private, lease := s.Private(at)
			var flows []string
			for i := range tt.guests {
				flows = append(flows, texts(s.OfGuest(at, &tt.guests[i], tt.meter)...)...)
			}
			punt := cmp.Or(tt.punt, "controller(id=77,userdata=70.75.6e.74.64.6e.73.01)")
			for _, d := range []string{
				gocmp.Diff([]string{
					"add table=202,priority=0,cookie=0x70646e,actions=" + punt,
					"add table=200,priority=0,cookie=0x70646e,actions=resubmit(,30)",
					"add table=200,priority=20,cookie=0x70646e,in_port=CONTROLLER,eth_type=0x88b5,actions=controller(id=77,userdata=70.75.6e.74.64.6e.73.01)",
				}, texts(private...)),
				gocmp.Diff([]string{"add table=200,priority=10,cookie=0x70646e,hard_timeout=15,actions=resubmit(,202)"}, texts(lease)),
				gocmp.Diff(tt.flows, flows),
			} {
				if d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// A resubmit to the same table would loop.
func TestNoResubmitToOwnTable(t *testing.T) {
	s := placement.Service{Resumable: true, Neighbors: true, Addresses: []netip.AddrPort{
		netip.MustParseAddrPort("169.254.169.254:53"), netip.MustParseAddrPort("[fd00::254]:53"),
	}}
	for _, at := range []placement.Pipeline{{Kind: placement.OVN, Table: 30}, {Kind: placement.Neutron, Priority: 210}} {
		private, lease := s.Private(at)
		for _, f := range slices.Concat(private, []openflow.FlowMod{lease}, s.OfGuest(at, &placement.Guest{Key: placement.Key{Port: 1}}, 9)) {
			for _, a := range f.Actions {
				if r, ok := a.(openflow.Resubmit); ok && r.Table == f.Table {
					t.Errorf("%s resubmits to its own table", f.String())
				}
			}
		}
	}
}
