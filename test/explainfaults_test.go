// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
closed.example {
    ofpunt br-int
    hosts
    forward . UPSTREAM
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
rewritten.example {
    ofpunt br-int
    rewrite name suffix .rewritten.example .typo.example answer auto
    forward . UPSTREAM
}
dropped.example {
    ofpunt br-int
    acl {
        drop
    }
    forward . UPSTREAM
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
	second := aclGuest(n.Lab, "red", 1, 2) // so that the network is read, whatever becomes of the first guest
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
	for _, f := range faults(x, loose, second) {
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
	args := append(x.traced("--summary"), f.args...)
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
		// An error in the place of an answer is possible: the guest may change while puntdns explains.
		out, errs, status := x.run(x.traced("red-vm1", "db.internal")...)
		return errorUnless(status == 0, "%s%s", out, errs)
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

func faults(x *explained, loose, second *lab.Guest) []fault {
	up := x.upstream.Addr
	empty := fault{
		name: "a VIP without backends", plant: plantVIP("false"), args: []string{"red-vm1", "db.internal"}, status: 1,
		want: []string{"a load balancer drops it, since its VIP has no backend (row ", "[not-punted]\n", "give the VIP of the resolver address backends"}, never: "ACL",
		more: showsRow("Load_Balancer", resolver4),
	}
	rejecting := fault{
		name: "a VIP without backends that rejects", plant: plantVIP("true"), args: []string{"red-vm1", "db.internal"}, status: 1,
		want: []string{"a load balancer rejects it, since its VIP has no backend (row ", "[not-punted]\n"}, never: "ACL",
	}
	if !x.Release().TracesVIP() {
		for _, f := range []*fault{&empty, &rejecting} {
			f.status, f.want, f.never, f.more = 4, []string{"the switch has load balancers of OVN, and a trace does not show what goes to one", "[not-traced]\n"}, "not well", nil
		}
	}
	return []fault{
		empty, rejecting,
		{name: "none", args: []string{"red-vm1", "db.internal"}, want: []string{"port red-vm1 asks 169.254.169.254:53 for db.internal. A: NOERROR 10.0.1.101\n"}, never: "not well"},
		{
			name: "an ACL that rejects queries", plant: plantACL("reject"), args: []string{"red-vm1", "db.internal"}, status: 1,
			want:  []string{"not well: the switch drops the query of the guest before puntdns gets it: an ACL rejects it (row ", "[not-punted]\n", "ovn-sbctl lflow-list "},
			never: "has expired",
			more:  showsACL,
		},
		{
			name: "an ACL that drops queries", plant: plantACL("drop"), args: []string{"red-vm1", "db.internal"}, status: 1,
			want: []string{
				"the query does not get to puntdns, whose answer would be NOERROR 10.0.1.101\n",
				"not well: the switch drops the query of the guest before puntdns gets it: an ACL drops it (row ", "[not-punted]\n",
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
			name: "a port that does not exist, at once", plant: bound("red-vm8"), args: []string{x.red.NodePort, "red.internal"}, status: 1,
			want: []string{"not well: interface red-vm1 (logical port \"red-vm8\") is not served, so none of its queries comes here: OVN has not bound its logical port here; "}, never: "localport",
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
			name: "a value that can't be read", plant: plantDNS("records:typo.internal=10.0.1.300", "red"), args: []string{"red-vm1", "typo.internal"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: switch red has a record of typo.internal. ", `value "10.0.1.300"`, "[unreadable]\n"}, never: "ovn-sbctl",
			more: showsValue("10.0.1.300"),
		},
		{
			name: "an alias that can't be read", plant: plantDNS(`external_ids:"dns-cname/www.internal"=10.0.1.60`, "red"), args: []string{"red-vm1", "www.internal"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: switch red has a record of www.internal. ", `"dns-cname/www.internal": value "10.0.1.60"`, "[unreadable]\n"}, never: "ovn-sbctl",
			more: showsValue("10.0.1.60"),
		},
		{
			name: "a row on no switch", plant: plantDNS("records:loose.internal=10.0.1.62", ""), args: []string{"red-vm1", "loose.internal"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: Northbound has loose.internal. in row ", "[no-switch]\n", "ovn-nbctl add Logical_Switch "}, never: "[private]",
			more: addsRow,
		},
		{
			name: "an ovn-northd that has ended", plant: plantNorthd, args: []string{"red-vm1", "new.internal"}, status: 1,
			want: []string{": NXDOMAIN\n", "not well: Northbound has new.internal. in row ", "for switch red, and Southbound does not have it", "[northd]\n", "ovn-appctl -t ovn-northd status\n"}, never: "[private]",
		},
		{
			name: "a name that ovn-northd has copied again", args: []string{"red-vm1", "new.internal"},
			want: []string{": NOERROR 10.0.1.63\n"}, never: "not well",
		},
		{
			name: "a dead upstream", args: []string{"red-vm1", "www.dead.example"}, status: 1,
			want: []string{": SERVFAIL\n", "not well: upstream 127.0.0.1:1 does not answer: ", "[upstream]\n", "see whether a DNS server runs there and this node reaches it", "dig @127.0.0.1 -p 1 www.dead.example. A\n"},
		},
		{
			name: "hosts without fallthrough", args: []string{"red-vm1", "www.closed.example"}, status: 1,
			want: []string{": SERVFAIL\n", "not well: the guest gets the error SERVFAIL, which the plugin hosts returns without an answer", "[error]\n", "`fallthrough`"},
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
			name: "a slow upstream", plant: slowing, args: []string{"red-vm1", "slow.example.org"},
			want: []string{": NXDOMAIN\n", "warning: upstream " + up + " has taken 1.", "[slow-upstream]\n", "dig @127.0.0.53 -p "}, status: 1,
		},
		{
			name: "an address that port security does not permit", plant: func(*explained) func() { return usesAnother(second) }, args: []string{"red-vm2", "db.internal"},
			want: []string{": NOERROR 10.0.1.101\n", "warning: OVN's port security has dropped ARP packets of the guest within the last minute, ", "[port-security]\n", "ovn-nbctl lsp-get-port-security red-vm2\n"}, never: "not well",
		},
		{
			name: "aliases in a circle", plant: plantDNS(`external_ids:"dns-cname/round.internal"=round.internal`, "red"), args: []string{"red-vm1", "round.internal"}, status: 1,
			want: []string{": SERVFAIL\n", "not well: the CNAME records lead in a circle, ", ": round.internal. is an alias, too [alias]\n", "puntctl names red-vm1\n"}, never: "[error]",
		},
		{
			name: "a flow of another program", plant: plantFlow, args: []string{"red-vm1", "db.internal"}, status: 1,
			want: []string{"the switch drops it before OVN's pipeline, in table 0: ", "[not-punted]\n", "ovs-ofctl dump-flows br-int table=0\n"}, never: "does not know the port",
		},
		{
			name: "a port that receives nothing", plant: plantNoReceive, args: []string{"red-vm1", "db.internal"}, status: 1,
			want: []string{"the config of the guest's OpenFlow port is no-receive, in table 0: ", "[not-punted]\n", "[port-config]\n", "mod-port br-int "}, never: "does not know the port",
		},
		{
			name: "a name that rewrite has changed", args: []string{"red-vm1", "www.rewritten.example"}, status: 1,
			want: []string{": NXDOMAIN\n", "(forward), which was asked for www.typo.example. [no-data]\n"},
		},
		{
			name: "an acl that drops", args: []string{"red-vm1", "www.dropped.example"}, status: 1,
			want: []string{"the last plugin that had it is acl [dropped]\n"},
		},
		{
			name: "a server of another family", args: []string{loose.Name, "db.internal", "--server", "[fd00::254]:53"},
			want: []string{": NOERROR 10.0.1.101\n"},
		},
		{
			name: "an upstream that is no resolver", plant: referring, args: []string{"red-vm1", "www.example.net"}, status: 1,
			want: []string{": NOERROR\n", "not well: upstream " + up + " refers to other servers", "[upstream]\n", "dig @127.0.0.53 -p "}, never: "[no-type]",
		},
		{
			name: "an upstream that truncates, and takes no TCP", plant: truncating, args: []string{"red-vm1", "large.example.org"}, status: 1,
			want: []string{": NOERROR\n", "[truncated]\n", "not well: over TCP, which the guest uses next: upstream " + up + " does not answer: ", "[upstream]\n"},
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
			want: []string{": NXDOMAIN\n", "not well: web.internal.cloud.internal. is no name of switch red, but web.internal. is: the guest has put a domain behind it [search-domain]\n", "ask for web.internal., or, if a DNS row has it, write the longer name into the row too"},
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
			name: "an answer that is stored whole, and truncated over UDP", plant: plantStoredWhole, args: []string{"red-vm1", "large.example.org"},
			want: []string{": NOERROR 192.0.2.9\n"}, never: "[cached]",
		},
		{
			name: "a stored answer whose server fails", plant: plantStoredFailing, args: []string{"red-vm1", "failing.example.org"},
			want: []string{": NOERROR 192.0.2.9\n"}, never: "[cached]",
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
			want: []string{": NOERROR 10.0.1.101\n", "not well: DHCP announces dns_server 9.9.9.9 to the guest, and none of these is a resolver address of the guest (169.254.169.254:53 [fd00::254]:53)", "[not-announced]\n", "announce a resolver address", "ovn-nbctl list DHCP_Options ", "warning: DHCP gives the guest no route to 169.254.169.254: its DHCP options have neither router nor classless_static_route", "[no-route]\n"},
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
			name: "no record of another type", args: []string{"red-vm1", "web.internal", "MX"},
			want: []string{": NOERROR\n", "warning: web.internal. exists, but has no record of type MX, says the plugin ovnhosts [no-type]\n", "with another type"}, never: "not well",
		},
		{
			name: "no record of the type", args: []string{"red-vm1", "web.internal", "AAAA"},
			want: []string{": NOERROR\n", "warning: web.internal. exists, but has no record of type AAAA, says the plugin ovnhosts [no-type]\n", "the right answer for a name that has IPv4 addresses only"}, never: "not well",
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

// slowing has the upstream answer late that a name does not exist.
func slowing(x *explained) func() {
	x.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		time.Sleep(1100 * time.Millisecond) // what is slow is measured in time
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNameError))
	}))
	return func() { x.upstream.SetHandler(nil) }
}

// referring has the upstream refer to the servers of a zone, as one that serves other zones only.
func referring(x *explained) func() {
	x.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: "net.", Rrtype: dns.TypeNS, Class: dns.ClassINET, Ttl: 60}, Ns: "a.gtld-servers.net."}}
		_ = w.WriteMsg(m)
	}))
	return func() { x.upstream.SetHandler(nil) }
}

// truncating has the upstream truncate each answer over UDP, and refuse to answer over TCP.
func truncating(x *explained) func() {
	x.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if w.RemoteAddr().Network() != "udp" {
			w.Close()
			return
		}
		m := new(dns.Msg).SetReply(q)
		m.Truncated = true
		_ = w.WriteMsg(m)
	}))
	return func() { x.upstream.SetHandler(nil) }
}

// usesAnother has a guest ask from an address that OVN does not know.
func usesAnother(g *lab.Guest) func() {
	const address = "10.0.1.77"
	for _, line := range []string{"ip address add " + address + "/24 dev " + lab.Iface, "dig +time=1 +tries=1 -b " + address + " @" + resolver4 + " db.internal"} {
		_, _ = g.Exec(context.Background(), strings.Fields(line)...) // dig gets no answer
	}
	return func() {
		_, _ = g.Exec(context.Background(), "ip", "address", "del", address+"/24", "dev", lab.Iface)
	}
}

// plantNoReceive has the switch drop what comes from the port of the guest.
func plantNoReceive(x *explained) func() {
	set := func(config string) { x.Node.OFCTL("mod-port", lab.Bridge, x.red.NodePort, config) }
	set("no-receive")
	return func() { set("receive") }
}

// plantFlow adds a flow that drops queries before OVN's pipeline.
func plantFlow(x *explained) func() {
	const flow = "table=0,priority=60000,udp,tp_dst=53"
	x.Node.OFCTL("add-flow", lab.Bridge, flow+",actions=drop")
	return func() { x.Node.OFCTL("--strict", "del-flows", lab.Bridge, flow) }
}

// plantVIP adds a load balancer whose VIP is the resolver address, without backends. reject is its option.
func plantVIP(reject string) func(x *explained) func() {
	return func(x *explained) func() {
		x.NBCTL("--id=@lb", "create", "Load_Balancer", "name=empty", "protocol=udp", `vips:"`+resolver4+`:53"=""`, "options:reject="+reject,
			"--", "add", "Logical_Switch", "red", "load_balancer", "@lb")
		x.Sync()
		return func() {
			x.NBCTL("lb-del", "empty")
			x.Sync()
			x.wellAgain()
		}
	}
}

var lflowList = regexp.MustCompile(`ovn-sbctl lflow-list (\S+) (0x[0-9a-f]+) `)

// showsACL runs the lines that are said to show the logical flow, which has to be that of the ACL, and the ACL.
func showsACL(x *explained, said string) error {
	m := lflowList.FindStringSubmatch(said)
	if m == nil {
		return fmt.Errorf("no line to paste:\n%s", said)
	}
	flow := x.SBCTL("lflow-list", m[1], m[2])
	if !strings.Contains(flow, "udp.dst == 53") || !strings.Contains(flow, "ls_in_acl") {
		return fmt.Errorf("lflow-list shows %q", flow)
	}
	return showsRow("ACL", "udp.dst == 53")(x, said)
}

// showsRow runs the line that is said to show the row of Northbound, which has to have a text.
func showsRow(table, has string) func(x *explained, said string) error {
	of := regexp.MustCompile("ovn-nbctl (list) (" + table + ") ([0-9a-f]{8})\n")
	return func(x *explained, said string) error {
		m := of.FindStringSubmatch(said)
		if m == nil {
			return fmt.Errorf("no line that lists the row:\n%s", said)
		}
		row := x.NBCTL(m[1:]...)
		return errorUnless(strings.Contains(row, has), "the row is %q", row)
	}
}

// plantDNS adds a DNS row with a record to a switch, or to none.
func plantDNS(record, sw string) func(x *explained) func() {
	return func(x *explained) func() {
		row := x.AddDNS(nil)
		x.NBCTL("set", "DNS", row, record)
		if sw != "" {
			x.NBCTL("add", "Logical_Switch", sw, "dns_records", row)
		}
		x.Sync()
		return func() { x.NBCTL("remove", "Logical_Switch", "red", "dns_records", row, "--", "destroy", "DNS", row) }
	}
}

// plantNorthd adds a name that ovn-northd does not copy, as it has ended.
func plantNorthd(x *explained) func() {
	x.Kill("ovn-northd")
	x.AddDNS(map[string]string{"new.internal": "10.0.1.63"}, "red")
	return func() {
		x.Revive("ovn-northd")
		x.Sync()
	}
}

var addDNS = regexp.MustCompile(`ovn-nbctl (add Logical_Switch \S+ dns_records \S+)`)

// addsRow runs the line that is said to add the row to the switch of the guest, which then has the name.
func addsRow(x *explained, said string) error {
	m := addDNS.FindStringSubmatch(said)
	if m == nil {
		return fmt.Errorf("no line to paste:\n%s", said)
	}
	x.NBCTL(strings.Fields(m[1])...)
	x.Eventually("the name is known", func() error {
		e, status := x.explain("red-vm1", "loose.internal")
		return errorUnless(status == 0 && e.Rcode == "NOERROR", "%s, %+v", e.Rcode, e.Findings)
	})
	return nil
}

var getDNS = regexp.MustCompile(`ovn-nbctl get DNS (\S+) '(.*)'`)

// showsValue runs the line that is said to show the value. Northbound has to have the row.
func showsValue(value string) func(x *explained, said string) error {
	return func(x *explained, said string) error {
		m := getDNS.FindStringSubmatch(said)
		if m == nil {
			return fmt.Errorf("no line to paste:\n%s", said)
		}
		got := x.NBCTL("get", "DNS", m[1], m[2])
		return errorUnless(strings.Contains(got, value), "%s shows %q", m[0], got)
	}
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

// plantStoredWhole has cache store an answer over TCP. The upstream truncates it over UDP.
func plantStoredWhole(x *explained) func() {
	const name = "large.example.org."
	x.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if m.Truncated = w.RemoteAddr().Network() == "udp"; !m.Truncated {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 9)})
		}
		_ = w.WriteMsg(m)
	}))
	x.Eventually("an answer over TCP", func() error {
		r, _, err := x.red.ExchangeTCP(within(x.operator.t, wait), new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(resolver4, "53"))
		if err == nil && inShort(r) != "NOERROR 192.0.2.9" {
			err = errors.New(inShort(r))
		}
		return err
	})
	return func() { x.upstream.SetHandler(nil) }
}

// plantStoredFailing has cache store an answer of an upstream that answers with an error by then.
func plantStoredFailing(x *explained) func() {
	const name = "failing.example.org."
	x.upstream.Set("www.example.org. 60 IN A 192.0.2.5", name+" 60 IN A 192.0.2.9")
	x.asked(x.red, name, "NOERROR 192.0.2.9")
	return refusing(name)(x)
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
