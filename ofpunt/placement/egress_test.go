// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/openflow"
)

type noNetworks struct{}

func (noNetworks) Allows(string, opening.Destination) bool { return false }
func (noNetworks) Networks() []opening.Network             { return nil }
func (noNetworks) Sum() uint64                             { return 0 }

// Marks that the guest has set are cleared, and fragments to other destinations dropped.
func TestMarks(t *testing.T) {
	s := Service{EgressBit: 31}
	var got []string
	for _, f := range s.egressFlows(Pipeline{Kind: OVN, Table: 30, EgressTable: 14}, &Guest{Key: Key{Datapath: 5, Port: 1}, Egress: noNetworks{}}) {
		got = append(got, f.String())
	}
	if len(got) != 5 {
		t.Fatal(strings.Join(got, "\n"))
	}
	for i, want := range [][]string{
		{"table=13", "pkt_mark=0x40000000/0x40000000", "0x0/0xc0000000", "13"},
		{"table=14", "eth_type=0x800", "pkt_mark=0x0/0x40000000", "0x40000000/0xc0000000"},
		{"table=14", "eth_type=0x800", "ip_frag=0x1/0x1,pkt_mark=0x40000000/0xc0000000", "actions=drop"},
		{"table=14", "eth_type=0x86dd", "pkt_mark=0x0/0x40000000", "0x40000000/0xc0000000"},
		{"table=14", "eth_type=0x86dd", "ip_frag=0x1/0x1,pkt_mark=0x40000000/0xc0000000", "actions=drop"},
	} {
		for _, part := range want {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s: no %q", got[i], part)
			}
		}
	}
}

func TestReadOpening(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	s := Service{EgressBit: 31}
	for _, guest := range []Key{{Datapath: 5, Port: 1}, {Datapath: 5, Port: 1, MAC: [6]byte{2, 0, 0, 0, 0, 1}}} {
		for _, to := range []opening.Destination{
			{Address: v4}, {Address: v6}, {Address: v4, Protocol: ProtoTCP, Port: 443}, {Address: v6, Protocol: ProtoUDP, Port: 53},
			{Address: v6, Protocol: ProtoSCTP, Port: 1}, {Address: v4, Protocol: ProtoTCP},
		} {
			for _, names := range [][]string{{"pypi.org."}, {`a\ b.pypi.org.`, `\010.pypi.org.`, "x."}, nil} {
				o := Opening{guest, to}
				f := s.Flow(&o, names, 60)
				if got, ok := ReadOpening(f.Table, f.Priority, f.Match); !ok || got != o {
					t.Errorf("%v is read as %v, %v", o, got, ok)
				}
				actions := openflow.AppendActions(nil, openflow.V15, f.Actions...)
				apply := append([]byte{0, 4, 0, byte(8 + len(actions)), 0, 0, 0, 0}, actions...)
				if got := NamesOf(apply); !slices.Equal(got, names) {
					t.Errorf("%q is read as %q", names, got)
				}
			}
		}
	}
}
