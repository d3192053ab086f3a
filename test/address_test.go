// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// gateways are the addresses of the router of a switch of aclSwitch whose number is 1.
var gateways = []string{"10.0.1.1", "fd00:1::1"}

// perGuest is a Corefile whose guests have the resolver addresses that the databases tell.
func perGuest() string { return pipelineCorefile("address dhcp gateway", "northbound $NB", "") }

// dhcpOptions makes a DHCP_Options row, and returns its UUID.
func dhcpOptions(l *lab.Lab, cidr, servers string, more ...string) string {
	options := fmt.Sprintf(`server_id="10.0.1.1",server_mac="02:00:00:00:01:01",lease_time="3600",router="10.0.1.1",dns_server=%q`, servers)
	if net.ParseIP(cidr[:len(cidr)-3]).To4() == nil {
		options = fmt.Sprintf(`server_id="02:00:00:00:01:01",dns_server=%q`, servers)
	}
	for _, m := range more {
		options += "," + m
	}
	return l.NBCTL("create", "DHCP_Options", fmt.Sprintf("cidr=%q", cidr), "options={"+options+"}")
}

// both asks a resolver for a name over UDP and TCP. dig takes no answer from another address
// than it asked. The TTL tells whose the answer is: a release of OVN may answer for db.internal
// whatever server is asked.
func both(t *testing.T, g *lab.Guest, resolver, qname, want string) {
	t.Helper()
	for _, option := range []string{"+notcp", "+tcp"} {
		expect(t, g, want, qname, "@"+resolver, option, "+time=5", "+tries=1")
	}
}

// ping sends an ICMP echo request and waits for the reply (RFC 792, RFC 4443).
func ping(g *lab.Guest, address string) error {
	network, request, reply := "ip4:icmp", []byte{8, 0, 0xf7, 0xca, 0, 0x35, 0, 0}, byte(0)
	if strings.Contains(address, ":") {
		// The kernel fills in the checksum.
		network, request, reply = "ip6:ipv6-icmp", []byte{128, 0, 0, 0, 0, 0x35, 0, 0}, 129
	}
	c, err := g.ListenPacket(network, "")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := c.WriteTo(request, &net.IPAddr{IP: net.ParseIP(address)}); err != nil {
		return err
	}
	for b := make([]byte, 1500); ; {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		if from.String() == address && n >= len(request) && b[0] == reply && slices.Equal(b[4:8], request[4:8]) {
			return nil
		}
	}
}

// Two tenants have the same addresses, routers and DHCP options, and one of them has a DNS
// server of its own where DHCP says: each is answered with its own names, from the address
// that it asked, on the link and beyond.
func TestAddressPerGuest(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	l := n.Lab
	const own = "10.0.1.53"
	for _, tenant := range []struct {
		sw    string
		guest *lab.Guest
	}{{"red", n.red}, {"blue", n.blue}} {
		v4 := dhcpOptions(l, "10.0.1.0/24", "{8.8.8.8, "+own+"}")
		v6 := dhcpOptions(l, "fd00:1::/64", "{2001:db8::53,fe80::53}")
		l.NBCTL("set", "Logical_Switch_Port", tenant.guest.Name, "dhcpv4_options="+v4, "dhcpv6_options="+v6)
	}
	server := l.Node.AddGuest(lab.Guest{
		Name: "blue-ns", Switch: "blue", MAC: "02:00:00:00:01:53", Addrs: lab.Prefixes(own + "/24"), PortSecurity: true,
	})
	server.ServeDNS(own+":53", serverRecords...)
	l.Sync()
	s := serve(t, l, perGuest())

	for _, resolver := range append([]string{"8.8.8.8", "2001:db8::53", "fe80::53%eth0"}, gateways...) {
		t.Run(resolver, func(t *testing.T) {
			both(t, n.red, resolver, "db.internal", "NOERROR 30 10.0.1.101")
			both(t, n.blue, resolver, "db.internal", "NOERROR 30 10.0.1.201")
		})
	}
	t.Run("a tenant's own DNS server", func(t *testing.T) {
		both(t, n.blue, own, "www.example.org", "NOERROR 77 192.0.2.77")
		both(t, n.red, own, "db.internal", "NOERROR 30 10.0.1.101") // nobody has it there
	})
	t.Run("its server is a guest as well", func(t *testing.T) {
		both(t, server, gateways[0], "db.internal", "NOERROR 30 10.0.1.201")
		expect(t, server, "NOERROR 77 192.0.2.77", "db.internal", "@"+own, "+time=5") // by its loopback
	})
	t.Run("routers answer for themselves", func(t *testing.T) {
		for _, gateway := range gateways {
			for _, g := range []*lab.Guest{n.red, n.blue} {
				if err := ping(g, gateway); err != nil {
					t.Errorf("%s asks %s for an echo: %v", g.Name, gateway, err)
				}
			}
		}
		if out, err := n.red.Exec(within(t, wait), "ip", "neigh", "show", gateways[0]); err != nil || !strings.Contains(out, "02:00:00:00:01:01") {
			t.Errorf("the gateway is %q, %v", out, err)
		}
	})
	t.Run("what guests have by default is not theirs", func(t *testing.T) {
		if got := briefly(n.red.Dig("db.internal", "@"+resolver4, "+time=1", "+tries=1")); got == "NOERROR 30 10.0.1.101" {
			t.Errorf("%s answers", resolver4)
		}
	})

	t.Run("the server goes, and comes back", func(t *testing.T) {
		l.NBCTL("lsp-set-addresses", server.Name, "02:00:00:00:01:53 10.0.1.54")
		expectSoon(t, l, n.blue, "NOERROR 30 10.0.1.201", "db.internal", "@"+own)
		l.NBCTL("lsp-set-addresses", server.Name, "02:00:00:00:01:53 "+own)
		expectSoon(t, l, n.blue, "NOERROR 77 192.0.2.77", "www.example.org", "@"+own)
	})
	if got := s.punted("dropped", "foreign"); got != 0 {
		t.Errorf("%d packet-ins of no flow", got)
	}
	s.endWell()
}

// A guest asks what real DHCP has told it.
func TestAddressOfDHCP(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.21"}, "red")
	v4 := dhcpOptions(l, "10.0.1.0/24", "{198.51.100.53, 10.0.1.253}", `domain_name="\"dhcp.test\""`)
	v6 := dhcpOptions(l, "fd00:1::/64", "fd00::254")
	const addresses = "02:00:00:00:01:11 10.0.1.11 fd00:1::11"
	vm := l.Node.AddGuest(lab.Guest{
		Name: "red-vm", Switch: "red", MAC: "02:00:00:00:01:11", Addresses: addresses,
		Settings: []string{`port_security="` + addresses + `"`, "dhcpv4_options=" + v4, "dhcpv6_options=" + v6},
	})
	l.Sync()
	s := serve(t, l, pipelineCorefile("address dhcp", "northbound $NB", ""))
	for _, family := range []struct{ option, name, want string }{
		{"-4", "domain_name_servers", "198.51.100.53 10.0.1.253"},
		{"-6", "dhcp6_name_servers", "fd00::254"},
	} {
		if told, _ := lease(t, l, vm, family.option); told[family.name] != family.want {
			t.Errorf("%s is %q, want %s", family.name, told[family.name], family.want)
		}
	}
	if out, err := vm.Exec(within(t, wait), "ip", "route", "add", "default", "via", "10.0.1.1"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, resolver := range []string{"198.51.100.53", "10.0.1.253", "fd00::254"} {
		both(t, vm, resolver, "db.internal", "NOERROR 30 10.0.1.21")
	}
	s.endWell()
}

// Other addresses of one network change its flows alone: others are answered all the while.
func TestAddressChanges(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	l := n.Lab
	red := dhcpOptions(l, "10.0.1.0/24", "8.8.8.8")
	blue := dhcpOptions(l, "10.0.1.0/24", "8.8.8.8")
	l.NBCTL("set", "Logical_Switch_Port", n.red.Name, "dhcpv4_options="+red, "--", "set", "Logical_Switch_Port", n.blue.Name, "dhcpv4_options="+blue)
	l.AddSwitch("alone")
	alone := l.Node.AddGuest(lab.Guest{
		Name: "alone-vm", Switch: "alone", MAC: "02:00:00:00:02:11", Addrs: lab.Prefixes("10.0.2.11/24"), Gateway4: lab.Addr("10.0.2.1"), PortSecurity: true,
	})
	l.AddDNS(map[string]string{"db.internal": "10.0.2.21"}, "alone")
	l.Sync()
	s := serve(t, l, perGuest())
	const addressless = "coredns_ofpunt_guests_without_address"
	s.reaches(1, addressless)
	s.log(logNoAddress, "alone")

	var asking []*questioner
	for _, resolver := range append([]string{"8.8.8.8"}, gateways...) {
		asking = append(asking, questions(t, n.blue, resolver))
	}
	// Half of what is asked of red is asked by it of the gateways, which do not change.
	asking = append(asking, questions(t, n.red, gateways[0]), questions(t, n.red, gateways[1]))
	wants := []string{"NOERROR 10.0.1.201", "NOERROR 10.0.1.201", "NOERROR 10.0.1.201", "NOERROR 10.0.1.101", "NOERROR 10.0.1.101"}
	stop := askInTurn(t, "db.internal.", asking, wants)
	before := s.metric("coredns_ofpunt_flow_installs_total")
	now := "8.8.8.8"
	for i := range 6 {
		was := now
		now = []string{"9.9.9.9", "1.1.1.1"}[i%2]
		l.NBCTL("set", "DHCP_Options", red, "options:dns_server="+now)
		expectSoon(t, l, n.red, "NOERROR 30 10.0.1.101", "db.internal", "@"+now)
		if got := briefly(n.red.Dig("db.internal", "@"+was, "+time=1", "+tries=1")); got == "NOERROR 30 10.0.1.101" {
			t.Errorf("%s still answers, in the place of %s", was, now)
		}
	}
	// UDP, TCP, and a load balancer's by either register; ARP for it.
	if got := s.metric("coredns_ofpunt_flow_installs_total") - before; got != 6*5 {
		t.Errorf("%v flows were installed for 6 changes, want %d", got, 6*5)
	}
	before = s.metric("coredns_ofpunt_flow_installs_total")
	l.AddRouter("r-alone", lab.RouterPort{Switch: "alone", MAC: "02:00:00:00:02:01", Networks: []string{"10.0.2.1/24"}})
	expectSoon(t, l, alone, "NOERROR 30 10.0.2.21", "db.internal", "@10.0.2.1")
	s.reaches(0, addressless)
	s.log(logAddressAgain, "alone")
	if got := s.metric("coredns_ofpunt_flow_installs_total") - before; got != 4 {
		t.Errorf("%v flows were installed for a router, want 4", got)
	}
	both(t, alone, "10.0.2.1", "db.internal", "NOERROR 30 10.0.2.21")
	stop()
	s.endWell()
}

// A reload to addresses that the databases tell, and back, loses no query to one that both
// have.
func TestAddressReload(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	l := n.Lab
	s := serve(t, l, pipelineCorefile("address 10.0.1.1 fd00:1::1", "northbound $NB", ""))
	var asking []*questioner
	for _, g := range []*lab.Guest{n.red, n.blue} {
		for _, gateway := range gateways {
			asking = append(asking, questions(t, g, gateway))
		}
	}
	wants := []string{"NOERROR 10.0.1.101", "NOERROR 10.0.1.101", "NOERROR 10.0.1.201", "NOERROR 10.0.1.201"}
	stop := askInTurn(t, "db.internal.", asking, wants)
	for _, addresses := range []string{"gateway", "10.0.1.1 fd00:1::1 dhcp", "dhcp gateway", "10.0.1.1 fd00:1::1"} {
		s.reload(corefile(l, pipelineCorefile("address "+addresses, "northbound $NB", "")))
		time.Sleep(200 * time.Millisecond) // load goes on with it
	}
	stop()
	s.endWell()
}

// askInTurn has the questioners ask for a name, one after the other, 300 questions/s in all, each with
// its own answer in wants. It does so until stop, which checks that each question has had its answer.
func askInTurn(t *testing.T, name string, asking []*questioner, wants []string) (stop func()) {
	over := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		_ = pace(t.Context(), 300, func(i int) error {
			select {
			case <-over:
				return errors.New("over")
			default:
			}
			if !asking[i%len(asking)].below(20, wait) {
				return errors.New("no answer")
			}
			return asking[i%len(asking)].ask(name, dns.TypeA, wants[i%len(asking)])
		})
	})
	return func() {
		t.Helper()
		close(over)
		load.Wait()
		for i, q := range asking {
			found := q.finish(wait)
			found.clean(t, fmt.Sprint("questioner ", i))
			if t.Log(found); found.asked < 20 {
				t.Errorf("questioner %d: %d queries are no load", i, found.asked)
			}
		}
	}
}
