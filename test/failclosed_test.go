// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// closedDrops returns the flows that drop the packets of closed guests.
func (n *routed) closedDrops() []string {
	n.t.Helper()
	return slices.DeleteFunc(n.dumpOurs("table=200"), func(f string) bool { return !strings.Contains(f, "priority=5,") })
}

// unleased waits until the switch has no leased flow.
func (n *routed) unleased() {
	n.t.Helper()
	n.Eventually("the lease is over", func() error {
		flows := n.dumpOurs("table=200")
		return errorUnless(!slices.ContainsFunc(flows, func(f string) bool { return strings.Contains(f, "priority=10") }), "%q", flows)
	})
	n.Node.Revalidate()
}

// A guest that fails closed gets no answer of another server behind a resolver address while puntdns is dead, or is
// stopped. Another guest gets the answer. The drop goes with the guest, and with the property.
func TestFailClosed(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	const server, elsewhere = "10.0.0.12", "10.0.1.30"
	n.peer.ServeDNS(server+":53", serverRecords...)
	n.guest("green-server", 30).ServeDNS(elsewhere+":53", serverRecords...)
	const other = "br-other"
	n.Node.VSCTL("add-br", other, "--", "set", "Bridge", other, "datapath_type="+n.Datapath)
	n.Sync()
	for _, mode := range []struct{ name, address, fall, behind, alive string }{
		{"service", server, "", "", "NXDOMAIN"},
		{"hijack", "any", "fallthrough", "passthrough", fromServer},
	} {
		t.Run(mode.name, func(t *testing.T) {
			closed := pipelineCorefile("lease $LEASE\ncontrol $CONTROL\naddress "+mode.address+`
        limit ofpunt/port red-vm {
            fail closed
        }`, mode.fall, mode.behind)
			served := func() {
				t.Helper()
				expectSoon(t, n.Lab, n.vm, fromPuntdns, "@"+server, "db.internal")
				expect(t, n.vm, mode.alive, "@"+server, "www.example.org")
				expect(t, n.far, mode.alive, "@"+server, "www.example.org")
			}
			dropped := func() {
				t.Helper()
				n.unleased()
				expectSoon(t, n.Lab, n.far, fromServer, "@"+server, "www.example.org")
				expect(t, n.vm, "no reply", "+tries=1", "+time=1", "@"+server, "www.example.org")
				expect(t, n.vm, "no reply", "+tries=1", "+time=1", "@"+server, "db.internal")
				if mode.address == "any" {
					expect(t, n.vm, fromServer, "+tcp", "@"+server, "www.example.org") // TCP is not punted
					expect(t, n.vm, "no reply", "+tries=1", "+time=1", "@"+elsewhere, "www.example.org")
				} else {
					expect(t, n.vm, "no reply", "+tcp", "+tries=1", "+time=1", "@"+server, "www.example.org")
					expect(t, n.vm, fromServer, "@"+elsewhere, "www.example.org")
				}
			}

			s := serve(t, n.Lab, closed)
			served()
			var e api.Explanation
			if s.operator().ask(&e, "explain", n.vm.Port, "db.internal", "--server", server); !strings.Contains(e.Without, "fail closed") || !e.Well {
				t.Errorf("without puntdns: %q, findings %+v", e.Without, e.Findings)
			}
			if err := s.Kill(); err == nil {
				t.Error("it ended in order")
			}
			dropped()

			s = serve(t, n.Lab, closed)
			served()
			s.endWell()
			dropped()
			if left := n.dumpOurs(); slices.ContainsFunc(left, func(f string) bool { return !strings.Contains(f, "reg14=") }) || len(left) == 0 {
				t.Errorf("left of a process that has ended: %q, want flows of one guest", left)
			}

			s = serve(t, n.Lab, closed)
			served()
			if drops := n.closedDrops(); len(drops) != 1 {
				t.Errorf("drops: %q, want one", drops)
			}
			n.Node.VSCTL("del-port", lab.Bridge, n.vm.NodePort)
			n.comes(t, "the drop goes with the guest", func() bool { return len(n.closedDrops()) == 0 })
			n.plug(n.vm)
			n.Node.VSCTL("wait-until", "Interface", n.vm.NodePort, "external_ids:ovn-installed=true")
			n.comes(t, "the drop comes with the guest", func() bool { return len(n.closedDrops()) == 1 })
			served()

			moved := replaced(t, closed, "ofpunt "+lab.Bridge, "ofpunt "+other)
			s.reload(corefile(n.Lab, replaced(t, moved, "$MGMT", strings.Replace(n.Node.OpenFlow, lab.Bridge, other, 1))))
			n.comes(t, "no flow is left of a bridge that is given up", func() bool { return len(n.dumpOurs()) == 0 })
			s.reload(corefile(n.Lab, closed))
			s.ready(200)
			served()

			s.reload(corefile(n.Lab, replaced(t, closed, "fail closed", "fail open")))
			n.comes(t, "the drop goes with the property", func() bool { return len(n.closedDrops()) == 0 })
			if err := s.Kill(); err == nil {
				t.Error("it ended in order")
			}
			n.unleased()
			expectSoon(t, n.Lab, n.vm, fromServer, "@"+server, "www.example.org")
		})
	}
}
