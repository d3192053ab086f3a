// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// faultyCorefile has a block for each fault that is one of the Corefile.
const faultyCorefile = `gold.example {
    ofpunt br-int
    metadata
    view gold {
        expr metadata('ofpunt/switch') == 'gold'
    }
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.77"
    }
}
dead.example {
    ofpunt br-int
    forward . 127.0.0.1:1
}
several.example {
    ofpunt br-int
    forward first.several.example UPSTREAM
    forward second.several.example 127.0.0.1:1 127.0.0.1:2 {
        policy sequential
        max_connect_attempts 2
    }
    forward third.several.example 127.0.0.1:1 UPSTREAM {
        policy sequential
    }
}
looped.example {
    ofpunt br-int
    forward other.looped.example UPSTREAM
    forward . 10.0.1.13
}
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        control unix:SOCKET
    }
    metadata
    errors
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    ovnhosts {
        southbound $SB
        northbound $NB
        domain cloud.internal
        fallthrough
    }
    rpz {
        zone block.rpz file POLICY
        required
    }
    cache
    private
    forward . UPSTREAM
}
`

// fault is one that is planted, and what puntctl explain --summary says of it.
type fault struct {
	name string
	// plant plants it, and returns what mends it; nil for a fault of the Corefile.
	plant func(x *explained) (mend func())
	args  []string
	// status is the exit status.
	status int
	// want are parts of what is said, in their order; never must not be there.
	want  []string
	never string
	// more, unless it is nil, looks at what was said.
	more func(x *explained, said string) error
}

// An operator finds out by `puntctl explain` alone why a guest gets no answer, or not the one that was
// expected: the verdict names the fault, and says what to do.
func TestExplainFaults(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	aclGuest(n.Lab, "red", 1, 2) // so that the network is read, whatever becomes of the first guest
	n.AddDNS(map[string]string{"app.cloud.internal": "10.0.1.60", "web.internal": "10.0.1.61"}, "red")
	loose := n.Node.AddGuest(lab.Guest{
		Name: "red-loose", Switch: "red", MAC: "02:00:00:00:01:44", Addrs: lab.Prefixes("10.0.1.44/24"), Addresses: "unknown", Gateway4: lab.Addr("10.0.1.1"),
	})
	server := aclGuest(n.Lab, "red", 1, 3)
	n.Sync()
	// The node reaches the server of red by an address of its own, which it must not tell others.
	for _, line := range []string{"sysctl -qw net.ipv4.conf.all.arp_ignore=8", "ip address add 10.0.1.13/32 dev lo"} {
		if _, err := n.Node.Exec(within(t, wait), strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
	}
	n.Node.ServeDNS("10.0.1.13:53").SetHandler(passedOn(server, resolver4))
	socket := filepath.Join(n.Dir, "control.sock")
	x := &explained{overlap: n, operator: &operator{t, n.Lab, socket}, upstream: n.Upstream("www.example.org. 60 IN A 192.0.2.5", "bad.example.org. 60 IN A 192.0.2.7", "x.third.several.example. 60 IN A 192.0.2.8")}
	x.upstream.SetHandler(nil)
	rules := policy(t, n.Lab, "block.rpz", "bad.example.org CNAME .\nsilent.example.org CNAME rpz-drop.\n")
	x.server = serve(t, n.Lab, corefile(n.Lab, replaceAll(faultyCorefile, "SOCKET", socket, "POLICY", rules, "UPSTREAM", x.upstream.Addr)))
	for _, f := range faults(x, loose) {
		t.Run(f.name, func(t *testing.T) {
			of := *x
			of.operator = &operator{t, n.Lab, socket}
			of.finds(t, &f)
		})
	}
	x.server.endWell()
}

// finds plants a fault, explains until the verdict is the one that is wanted, and mends it.
func (x *explained) finds(t *testing.T, f *fault) {
	t.Helper()
	if f.plant != nil {
		if mend := f.plant(x); mend != nil {
			defer mend()
		}
	}
	args := append([]string{"explain", "--summary", "--vswitchd", x.Node.AppCtlTarget("ovs-vswitchd")}, f.args...)
	said := ""
	x.Eventually("a verdict on "+f.name, func() error {
		out, errs, status := x.run(args...)
		said = out
		rest := out
		for _, want := range f.want {
			i := strings.Index(rest, want)
			if i < 0 {
				return fmt.Errorf("exit status %d, want %q:\n%s%s", status, want, out, errs)
			}
			rest = rest[i+len(want):]
		}
		switch {
		case status != f.status:
			return fmt.Errorf("exit status %d, want %d:\n%s%s", status, f.status, out, errs)
		case f.never != "" && strings.Contains(out, f.never):
			return fmt.Errorf("%q must not be there:\n%s", f.never, out)
		case f.more != nil:
			return f.more(x, out)
		}
		return nil
	})
	t.Logf("puntctl explain --summary %s\n%s", strings.Join(f.args, " "), said)
}

// wellAgain waits until nothing is wrong any more for the first guest of red.
func (x *explained) wellAgain() {
	x.Eventually("red-vm1 is served", func() error {
		e, status := x.explain("red-vm1", "db.internal")
		return errorUnless(status == 0, "%+v", e.Findings)
	})
}

// bound binds the interface of the first guest of red to another port.
func bound(port string) func(x *explained) func() {
	return func(x *explained) func() {
		set := func(id string) { x.Node.VSCTL("set", "Interface", x.red.NodePort, "external_ids:iface-id="+id) }
		set(port)
		return func() {
			set("red-vm1")
			x.wellAgain()
		}
	}
}

func faults(x *explained, loose *lab.Guest) []fault {
	up := x.upstream.Addr
	return []fault{
		{name: "none", args: []string{"red-vm1", "db.internal"}, want: []string{"port red-vm1 asks 169.254.169.254:53 for db.internal. A: NOERROR 10.0.1.101\n"}, never: "not well"},
		{
			name: "an ACL that rejects queries", plant: plantACL("reject"), args: []string{"red-vm1", "db.internal"}, status: 1,
			want:  []string{"not well: the switch drops the query of the guest before puntdns gets it: an ACL or a security group drops or rejects it, in table ", "[not-punted]\n", "ovn-sbctl lflow-list "},
			never: "has expired",
			more:  showsACL,
		},
		{
			name: "an ACL that drops queries", plant: plantACL("drop"), args: []string{"red-vm1", "db.internal"}, status: 1,
			want: []string{
				"the query does not get to puntdns, whose answer would be NOERROR 10.0.1.101\n",
				"not well: the switch drops the query of the guest before puntdns gets it: an ACL or a security group drops it, in table ", "[not-punted]\n",
				"allow UDP and TCP to port 53 of the resolver address from the guest\n", "ovn-sbctl lflow-list ", "ovn-trace ",
			},
			more: showsACL,
		},
		{
			name: "the wrong switch", plant: bound("blue-peer"), args: []string{x.red.NodePort, "red.internal"}, status: 1,
			want: []string{
				"port blue-peer asks ", ": NXDOMAIN\n", "not well: red.internal. is a name of switch red (", "and this guest is on switch blue, which does not have it [other-network]\n",
				"if the guest belongs on switch red, bind its interface to a port of that switch", "ovs-vsctl get Interface red-vm1 external_ids:iface-id",
			},
		},
		{
			name: "a port that does not exist", plant: bound("red-vm7"), args: []string{x.red.NodePort, "red.internal"}, status: 1,
			want: []string{
				"puntdns is not asked, as its interface is not served\n", `not well: interface red-vm1 (logical port "red-vm7") is not served, so none of its queries comes here: Southbound has no logical port of this name [unserved]`,
				"external_ids:iface-id of the interface has to be the name of a logical port", "ovs-vsctl get Interface red-vm1 external_ids:iface-id\n",
			},
		},
		{
			name: "a name of another tenant", args: []string{"blue-vm1", "red.internal"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: red.internal. is a name of switch red (", "this guest is on switch blue, which does not have it [other-network]\n", "if both switches are of one tenant, give switch blue a DNS row with the name, or join both switches by a router"},
		},
		{
			name: "a dead upstream", args: []string{"red-vm1", "www.dead.example"}, status: 1,
			want: []string{": SERVFAIL\n", "not well: upstream 127.0.0.1:1 does not answer: ", "[upstream]\n", "see whether a DNS server runs there and this node reaches it", "dig @127.0.0.1 -p 1 www.dead.example. A\n"},
		},
		{
			name: "several forwards, of which one asks", args: []string{"red-vm1", "x.second.several.example"}, status: 1,
			want: []string{": SERVFAIL\n", "not well: upstreams 127.0.0.1:1 127.0.0.1:2 do not answer; the last error: ", "[upstream]\n"}, never: up,
		},
		{
			name: "an upstream that answers with an error", plant: refusing("refused.example.org."), args: []string{"red-vm1", "refused.example.org"}, status: 1,
			want: []string{": REFUSED\n", "not well: upstream " + up + " answers REFUSED [upstream]\n", "ask that server yourself", "dig @127.0.0.53 -p "},
		},
		{
			name: "a view that does not match", args: []string{"red-vm1", "www.gold.example"}, status: 1,
			want: []string{
				"not well: the block ", "gold.example does not answer this guest, as its view gold does not match: metadata('ofpunt/switch') == 'gold' is false, ofpunt/switch of this guest is \"red\"; another block takes the query: ", "[view]\n",
				"if that block is for this guest, mend the expression",
			},
		},
		{
			name: "no search domain", args: []string{"red-vm1", "app"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: app. is no name of switch red, but app.cloud.internal. is: the guest has asked without the domain [search-domain]\n", "give the guest cloud.internal as its search domain"},
		},
		{
			name: "a search domain too many", args: []string{"red-vm1", "web.internal.cloud.internal"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: web.internal.cloud.internal. is no name of switch red, but web.internal. is: the guest has put a domain behind it [search-domain]\n", "ask for web.internal., or write the longer name into the row too"},
		},
		{
			name: "a private name", args: []string{"red-vm1", "nas.lan"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: no network of this guest has the name nas.lan., and it is private: lan. is for private networks", "says that it does not exist, and no upstream is asked [private]\n", "add it to a DNS row of the switch", "`except lan.`, so that forward asks\n"},
		},
		{
			name: "a private address", args: []string{"red-vm1", "9.9.168.192.in-addr.arpa", "PTR"}, status: 1,
			want: []string{": NXDOMAIN\n", "it is the reverse name of an address that many networks use", "`except 168.192.in-addr.arpa.`"},
		},
		{
			name: "a filter that blocks", args: []string{"red-vm1", "bad.example.org"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: a filter decides: rule bad.example.org. of the policy zone block.rpz. of ", "says that the name does not exist [policy]\n", "remove the rule from "},
		},
		{
			name: "a filter that drops", args: []string{"red-vm1", "silent.example.org"}, status: 1,
			want: []string{": no answer (dropped, unanswered)\n", "not well: a filter decides: rule silent.example.org. of the policy zone block.rpz. of ", "has the query dropped without an answer [policy]\n"},
		},
		{
			name: "a denial that is stored", plant: plantStored, args: []string{"red-vm1", "late.example.org"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: the guest gets what was stored in cache: NXDOMAIN; a new query would get: NOERROR A 192.0.2.9 [cached]\n", "wait until the entry has expired, or reload", "systemctl reload puntdns\n"},
		},
		{
			name: "a guest without a known address", args: []string{loose.Name, "db.internal"},
			want: []string{"port red-loose asks 169.254.169.254:53 for db.internal. A: NOERROR 10.0.1.101\n"}, never: "not well",
		},
		{
			name: "an address that port security does not know", args: []string{"red-vm1", "db.internal", "--from", "10.0.1.99"}, status: 1,
			want: []string{"the query does not get to puntdns", "not well: the switch drops the query of the guest before puntdns gets it: port security drops it, or the port is disabled, in table ", "[not-punted]\n", "the guest may only use the addresses in port_security of its logical port"},
		},
		{
			name: "an address that is no resolver", args: []string{"red-vm1", "db.internal", "--server", "192.0.2.99"}, status: 1,
			want: []string{"puntdns is not asked, as the guest has asked another server\n", "not well: 192.0.2.99:53 is no resolver address of this guest, which are 169.254.169.254:53 [fd00::254]:53: the query is not punted, and goes on [not-a-resolver]\n", "have the guest ask a resolver address (dns_server in its DHCP options)"},
		},
		{
			name: "DHCP tells another server", plant: plantDHCP, args: []string{"red-vm1", "db.internal"}, status: 1,
			want: []string{": NOERROR 10.0.1.101\n", "not well: DHCP tells the guest to ask 9.9.9.9, and none of that is a resolver address of it, which are 169.254.169.254:53 [fd00::254]:53", "[not-announced]\n", "announce a resolver address", "ovn-nbctl list DHCP_Options ", "warning: DHCP gives the guest no route to 169.254.169.254: its DHCP options have neither router nor classless_static_route", "[no-route]\n"},
		},
		{
			name: "a loop", args: []string{"red-vm1", "www.looped.example"}, status: 1,
			want: []string{": SERVFAIL\n", "not well: a loop: port red-vm3 of switch red, a DNS server that is asked for the name, asks the same here", "[loop]\n", "that server has to ask another one than a resolver address"}, never: "not well: upstream 10.0.1.13:53 answers",
		},
		{
			name: "no name at all", args: []string{"red-vm1", "none.example.org"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: none.example.org. does not exist for port red-vm1 of switch red, says upstream " + up + " (forward) [no-data]\n", "see that it is spelt right"},
		},
		{
			name: "no record of the type", args: []string{"red-vm1", "web.internal", "AAAA"}, status: 1,
			want: []string{": NOERROR\n", "not well: web.internal. exists, but has no record of type AAAA, says the plugin ovnhosts [no-data]\n", "ask for another type"},
		},
	}
}

func plantACL(verdict string) func(x *explained) func() {
	return func(x *explained) func() {
		acl := []string{"red", "from-lport", "2000", "udp.dst == 53"}
		x.NBCTL(append(append([]string{"acl-add"}, acl...), verdict)...)
		x.Sync()
		return func() {
			x.NBCTL(append([]string{"acl-del"}, acl...)...)
			x.Sync()
			x.wellAgain()
		}
	}
}

var lflowList = regexp.MustCompile(`ovn-sbctl lflow-list (\S+) (0x[0-9a-f]+) `)

// showsACL runs the line that is said to show the logical flow, which has to be that of the ACL.
func showsACL(x *explained, said string) error {
	m := lflowList.FindStringSubmatch(said)
	if m == nil {
		return fmt.Errorf("no line to paste:\n%s", said)
	}
	flow := x.SBCTL("lflow-list", m[1], m[2])
	return errorUnless(strings.Contains(flow, "udp.dst == 53") && strings.Contains(flow, "ls_in_acl"), "lflow-list shows %q", flow)
}

// refusing has the upstream refuse a name.
func refusing(name string) func(x *explained) func() {
	return func(x *explained) func() {
		x.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			rcode := dns.RcodeNameError
			if r.Question[0].Name == name {
				rcode = dns.RcodeRefused
			}
			_ = w.WriteMsg(new(dns.Msg).SetRcode(r, rcode))
		}))
		return func() { x.upstream.SetHandler(nil) }
	}
}

// plantStored has cache store a denial of a name that the upstream has by then.
func plantStored(x *explained) func() {
	const name = "late.example.org."
	x.asked(x.red, name, "NXDOMAIN")
	x.upstream.Set("www.example.org. 60 IN A 192.0.2.5", name+" 60 IN A 192.0.2.9")
	return nil
}

func plantDHCP(x *explained) func() {
	row := strings.TrimSpace(x.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24", `options={lease_time="3600",server_id="10.0.1.1",server_mac="02:00:00:00:01:01",dns_server="9.9.9.9"}`))
	x.NBCTL("lsp-set-dhcpv4-options", "red-vm1", row)
	x.Sync()
	return func() {
		x.NBCTL("lsp-set-dhcpv4-options", "red-vm1")
		x.Sync()
		x.wellAgain()
	}
}
