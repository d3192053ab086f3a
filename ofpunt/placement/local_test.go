// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/placement"
)

func TestPlanLocal(t *testing.T) {
	s := placement.Service{
		Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53")},
		Neighbors: true, ControllerID: 77, UserData: []byte{1}, Lease: 15, Cookie: 0x70646e,
	}
	const guard = "actions=set_field:0x80000000/0x80000000->reg15,resubmit(,200)"
	tests := []struct {
		name  string
		guest placement.LocalGuest
		entry []string
	}{
		{"any MAC", placement.LocalGuest{InPort: 7}, []string{
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x806,arp_op=1,arp_tpa=169.254.169.254,reg15=0x0/0x80000000," + guard,
		}},
		{"a limit", placement.LocalGuest{InPort: 7, Meter: 9, Owned: func(netip.Addr) bool { return true }}, []string{
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg15=0x0/0x80000000,actions=meter:9,set_field:0x80000000/0x80000000->reg15,resubmit(,200)",
			"add table=60,priority=102,cookie=0x70646e,in_port=7,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg15=0x0/0x80000000,actions=meter:9,set_field:0x80000000/0x80000000->reg15,resubmit(,200)",
		}},
		{"one MAC, and the address is a port's", placement.LocalGuest{
			InPort: 7, MAC: [6]byte{2, 0, 0, 0, 0, 1}, Owned: func(netip.Addr) bool { return true },
		}, []string{
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=17,nw_dst=169.254.169.254,udp_dst=53,reg15=0x0/0x80000000," + guard,
			"add table=60,priority=102,cookie=0x70646e,in_port=7,dl_src=02:00:00:00:00:01,eth_type=0x800,ip_proto=6,nw_dst=169.254.169.254,tcp_dst=53,reg15=0x0/0x80000000," + guard,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := placement.PlanLocal(&s, 60, 102, slices.Values([]placement.LocalGuest{tt.guest}))
			if d := cmp.Diff(tt.entry, texts(p.Entry...)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff("add table=200,priority=0,cookie=0x70646e,actions=resubmit(,60)", p.Private[0].String()); d != "" {
				t.Error(d)
			}
		})
	}
}
