// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
)

// portsPicture is what PortsVersion is the version of.
func portsPicture(s *ovn.Snapshot) string {
	var lines []string
	for p := range s.Guests() {
		n := s.Network(p.Network)
		var owners []string
		for host := range 256 {
			if a := netip.AddrFrom4([4]byte{10, 0, 0, byte(host)}); n.Owns(a) {
				owners = append(owners, fmt.Sprint(a, n.HasWorkload(a)))
			}
		}
		var foreign []netip.Addr // the DNS servers that are none of the tenant's
		for _, a := range p.DNSServers {
			if !s.HasMachine(n, a) {
				foreign = append(foreign, a)
			}
		}
		lines = append(lines, fmt.Sprint(p.DatapathKey, p.Key, p.Name, p.Addresses, n.DNSMeter, n.Owns(netip.MustParseAddr("169.254.169.254")), owners, foreign, n.Gateways()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A record that changes leaves PortsVersion as it is; whatever changes guests, what their
// networks own or their meters does not.
func TestPortsVersion(t *testing.T) {
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	dns := r.sbctl("create DNS datapaths=" + dp + ` records={vm1="10.0.0.1"}`)
	r.sbctl("chassis-add hv1 geneve 192.0.2.1")
	r.sbctl("create Port_Binding logical_port=p1 tunnel_key=1 datapath=" + dp + " mac=\"02:00:00:00:00:01~10.0.0.1\" options:hostname=vm")
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	s.nameChassis("hv1")
	s.as("br").setPorts([]string{"p1"}, 0)
	before := eventually(t, s, lookups("a vm1. = 10.0.0.1"))
	for _, step := range []struct {
		name, command, want string
		same                bool
	}{
		{"another value", "set DNS " + dns + " records:vm1=10.0.0.2", "a vm1. = 10.0.0.2", true},
		{"another record", "set DNS " + dns + " records:vm2=10.0.0.3", "a vm2. = 10.0.0.3", true},
		{"bound here", "lsp-bind p1 hv1", "", false},
		{"another record with a guest", "set DNS " + dns + " records:vm3=10.0.0.3", "a vm3. = 10.0.0.3", true},
		{"another port of the network", "create Port_Binding logical_port=p2 tunnel_key=2 datapath=" + dp + " mac=\"02:00:00:00:00:02~169.254.169.254\" options:hostname=vmx", "a vmx. = 169.254.169.254", false},
		{"no longer bound", "lsp-unbind p1", "", false},
	} {
		t.Run(step.name, func(t *testing.T) {
			r.sbctl(step.command)
			after := eventually(t, s, func(now *ovn.Snapshot) string {
				if step.want != "" {
					return lookups(step.want)(now)
				}
				if portsPicture(now) == portsPicture(before) {
					return "nothing has changed"
				}
				return ""
			})
			if same := after.PortsVersion == before.PortsVersion; same != step.same {
				t.Errorf("the same version: %v", same)
			}
			before = after
		})
	}
}
