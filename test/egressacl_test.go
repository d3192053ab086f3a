// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// egressGuest is a guest with a to-lport ACL that drops packets from UDP ports 53 and 54, and another guest of its switch.
type egressGuest struct {
	name       string
	asks, peer *lab.Guest
	address    string // of db.internal on the switch
}

// TestEgressACL sends packets to a guest whose to-lport ACL drops packets from UDP port 53. The answers of puntdns pass,
// as the answers of OVN's own DNS do: ovn-northd has a flow for them above all ACLs. Before the fix of CVE-2025-0650 the
// flow matches each packet from this port, so other guests pass too.
func TestEgressACL(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	n.NBCTL("acl-del", "green")
	guests := []egressGuest{
		{"stateful switch", n.vm, n.peer, "10.0.0.9"},
		{"stateless switch", n.far, n.guest("green-peer", 22), "10.0.1.9"},
	}
	for _, g := range guests {
		n.NBCTL("acl-add", g.asks.Switch, "to-lport", "2000", fmt.Sprintf("outport == %q && udp.src == {53, 54}", g.asks.Port), "drop")
	}
	n.Sync()
	bypass := strings.TrimSpace(n.SBCTL("--bare", "--columns=_uuid", "find", "Logical_Flow", "pipeline=egress", `match="udp.src == 53"`)) != ""
	t.Logf("OVN lets each packet from port 53 pass: %v", bypass)

	for _, mode := range []struct {
		name, properties, fall, behind string
	}{{name: "OVN"}, modes[0], modes[1]} {
		t.Run(mode.name, func(t *testing.T) {
			if mode.name != "OVN" {
				s := serve(t, n.Lab, pipelineCorefile(mode.properties, mode.fall, mode.behind))
				defer s.endWell()
				n.Node.Revalidate()
			}
			for _, g := range guests {
				t.Run(g.name, func(t *testing.T) {
					server, want := "@"+g.peer.Addrs[0].Addr().String(), "NOERROR 3600 "+g.address // OVN answers
					if mode.name == "hijack" {
						want = "NOERROR 30 " + g.address
					}
					expect(t, g.asks, want, "+noedns", server, "db.internal")
					if mode.name == "service" {
						expect(t, g.asks, "NOERROR 30 "+g.address, "@"+resolver4, "db.internal")
						expect(t, g.asks, "NOERROR 30 "+g.address, "@"+resolver6, "db.internal")
					}
					g.sends(t, bypass)
				})
			}
		})
	}
}

// sends sends datagrams from ports 53, 54 and 55 of the other guest to the guest, which has not asked it. The ACL drops
// the one from port 54, and the one from port 53 unless OVN lets it pass (bypass).
func (g egressGuest) sends(t *testing.T, bypass bool) {
	t.Helper()
	const port = 9001
	to := netip.AddrPortFrom(g.asks.Addrs[0].Addr(), port).String()
	in := datagrams(t, g.asks, to)
	defer in.Close()
	want := []int{55}
	if bypass {
		want = []int{53, 55}
	}
	for _, from := range []int{53, 54, 55} {
		out := datagrams(t, g.peer, netip.AddrPortFrom(g.peer.Addrs[0].Addr(), uint16(from)).String())
		out.send(t, "unasked", to)
		out.Close()
	}
	if err := in.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	var got []int
	for len(got) < len(want) {
		_, from, err := in.ReadFrom(make([]byte, 100))
		if err != nil {
			t.Fatalf("from ports %v: %v, want %v", got, err, want)
		}
		got = append(got, from.(*net.UDPAddr).Port)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("from ports %v, want %v", got, want)
	}
}
