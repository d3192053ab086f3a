// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/test/lab"
)

// inNamespace calls f on a thread in a network namespace of its own, with addresses and default
// routes of both families. ip configures the namespace.
func inNamespace(t *testing.T, f func(ip func(args string))) {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Lack(t, "no root, for a network namespace")
	}
	ip := func(args string) {
		t.Helper()
		// A child has the namespace of the thread that starts it.
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Errorf("ip %s: %v: %s", args, err, out)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		for _, args := range []string{
			"link set lo up", "link add up0 type veth peer up1", "link set up0 up", "link set up1 up",
			"addr add 9.0.0.5/24 dev up0", "route add default via 9.0.0.1",
			"addr add 2600::5/64 dev up0 nodad", "route add default via 2600::1",
		} {
			ip(args)
		}
		f(ip)
	}()
	<-done
}

// What the kernel would deliver to the node is the node's own, whichever table of routes says so.
// Routes count as soon as they are there.
func TestRoutesToNode(t *testing.T) {
	inNamespace(t, func(ip func(string)) {
		r := address.NewNodeReader(log)
		if err := r.Open(); err != nil {
			t.Error(err)
			return
		}
		for _, tt := range []struct {
			name   string
			routes string // separated by ;
			allow  string
			server string
			want   reason
		}{
			{"a local prefix", "route %s local 8.8.8.0/24 dev lo", "", "8.8.8.8:53", reasonNode},
			{"beside a local prefix", "route %s local 8.8.8.0/24 dev lo", "", "8.8.9.8:53", permitted},
			{"a local prefix in an allowed prefix", "route %s local 8.8.8.0/24 dev lo", "8.8.8.0/24", "8.8.8.8:53", reasonNode},
			{"a local address that is allowed", "route %s local 8.8.8.0/24 dev lo", "8.8.8.8/32", "8.8.8.8:53", permitted},
			{"a local prefix, IPv6", "-6 route %s local 2620:fe::/48 dev lo", "", "[2620:fe::9]:53", reasonNode},
			{"beside a local prefix, IPv6", "-6 route %s local 2620:fe::/48 dev lo", "", "[2620:ff::9]:53", permitted},
			{"mapped", "route %s local 8.8.8.0/24 dev lo", "", "[::ffff:8.8.8.8]:53", reasonNode},
			{"behind NAT64", "route %s local 8.8.8.0/24 dev lo", "64:ff9b::/96", "[64:ff9b::808:808]:53", reasonNode},
			{"broadcast", "route %s broadcast 8.8.8.255 dev up0", "", "8.8.8.255:53", reasonNode},
			{"multicast", "route %s multicast 8.8.8.0/24 dev up0 table local", "", "8.8.8.8:53", reasonNode},
			{"anycast", "-6 route %s anycast 2620:fe::9 dev up0 table local", "", "[2620:fe::9]:53", reasonNode},
			{"another table, by a rule", "route %s local 8.8.8.0/24 dev lo table 100;rule %s to 8.8.8.0/24 lookup 100", "", "8.8.8.8:53", reasonNode},
			{"another table, by a rule, IPv6", "-6 route %s local 2620:fe::/48 dev lo table 100;-6 rule %s to 2620:fe::/48 lookup 100", "", "[2620:fe::9]:53", reasonNode},
			{"another table, for marked packets", "route %s local default dev lo table 101;rule %s fwmark 1 lookup 101", "", "9.9.9.9:53", permitted},
			{"another table, of no rule", "route %s local 8.8.8.0/24 dev lo table 102", "", "8.8.8.8:53", permitted},
			{"blackhole", "route %s blackhole 8.8.8.0/24", "", "8.8.8.8:53", permitted},
			{"unreachable", "route %s unreachable 8.8.8.0/24", "", "8.8.8.8:53", permitted},
			{"prohibit", "route %s prohibit 8.8.8.0/24", "", "8.8.8.8:53", permitted},
			{"blackhole, IPv6", "-6 route %s blackhole 2620:fe::/48", "", "[2620:fe::9]:53", permitted},
			{"prohibit, IPv6", "-6 route %s prohibit 2620:fe::/48", "", "[2620:fe::9]:53", permitted},
		} {
			p := &policy{}
			if tt.allow != "" {
				p.allow = []netip.Prefix{netip.MustParsePrefix(tt.allow)}
			}
			server := netip.MustParseAddrPort(tt.server)
			routes := func(verb string) {
				for _, args := range strings.Split(tt.routes, ";") {
					ip(strings.Replace(args, "%s", verb, 1))
				}
			}
			routes("add")
			if got := p.refuses(server, r.Node()); got != tt.want {
				t.Errorf("%s: %s: %q, want %q", tt.name, server, got, tt.want)
			}
			routes("del")
			if tt.want == permitted || tt.name == "behind NAT64" {
				continue
			}
			if got := p.refuses(server, r.Node()); got != permitted {
				t.Errorf("%s: %s without the route: %q", tt.name, server, got)
			}
		}
		ip("route del default")
		if r.Node().Has(netip.MustParseAddr("8.8.8.8")) {
			t.Error("without a route an address is the node's")
		}
	})
}
