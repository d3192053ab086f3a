// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// physical is the name of the physical network that the underlay of the lab stands for.
const physical = "physnet"

// Hosts outside of all chassis ask by the localnet port of their switch. The chassis that
// has their external ports answers, and no other one does.
func TestExternal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		tag  int
	}{{"untagged", 0}, {"tagged", 101}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testExternal(t, tt.tag)
		})
	}
}

// OVN's DHCP gives a host outside its address, on the chassis that answers its queries.
func TestExternalOfDHCP(t *testing.T) {
	t.Parallel()
	n := newExternal(t, 0)
	h := n.host(1)
	if told, _ := lease(t, n.Lab, h, "-4"); told["ip_address"] != "10.0.1.31" {
		t.Fatalf("OVN's DHCP: %v", told)
	}
	s := serve(t, n.Lab, pipelineCorefile("", "", ""))
	expect(t, h, "NOERROR 30 10.0.1.50", "@"+resolver4, "db.internal")
	s.log(`asked db\.internal\. A by red-host1 on red`)
	s.endWell()
}

// external is a lab of two chassis, and a physical network with machines outside of both.
type external struct {
	*lab.Lab
	tag int // of the VLAN on the physical network, 0 for none
}

// newExternal makes the lab. The external ports red-host1 and red-host2 are on the first
// chassis.
func newExternal(t *testing.T, tag int) external {
	t.Helper()
	l := lab.New(t, lab.Options{Nodes: 2})
	for _, n := range l.Nodes {
		n.VSCTL("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings="+physical+":br-ex")
	}
	aclSwitch(l, "red", 1)
	l.NBCTL("lsp-add", "red", "red-net", "--", "lsp-set-type", "red-net", "localnet", "--", "lsp-set-addresses", "red-net", "unknown",
		"--", "lsp-set-options", "red-net", "network_name="+physical)
	if tag != 0 {
		l.NBCTL("set", "Logical_Switch_Port", "red-net", fmt.Sprintf("tag_request=%d", tag))
	}
	l.AddDNS(map[string]string{"db.internal": "10.0.1.50 fd00:1::50"}, "red")
	l.NBCTL("ha-chassis-group-add", "group")
	group := strings.TrimSpace(l.NBCTL("--bare", "--columns=_uuid", "list", "HA_Chassis_Group", "group"))
	n := external{l, tag}
	n.prefer(l.Nodes[0], l.Nodes[1])
	dhcp := l.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24",
		`options={lease_time="3600",server_id="10.0.1.1",server_mac="02:00:00:00:01:01",dns_server="{169.254.169.254}",`+
			`classless_static_route="{169.254.169.254/32,0.0.0.0}"}`)
	for i := 1; i <= 2; i++ {
		port := fmt.Sprintf("red-host%d", i)
		l.NBCTL("lsp-add", "red", port, "--", "lsp-set-type", port, "external",
			"--", "lsp-set-addresses", port, fmt.Sprintf("02:00:00:00:01:3%d 10.0.1.3%d fd00:1::3%d", i, i, i),
			"--", "set", "Logical_Switch_Port", port, "ha_chassis_group="+group, "dhcpv4_options="+dhcp, fmt.Sprintf(`options:hostname="\"host%d\""`, i))
	}
	l.Sync()
	residesOn(l, "red-host1", l.Nodes[0])
	return n
}

// prefer gives the external ports to one chassis, and to the other one when it fails.
func (n external) prefer(first, second *lab.Node) {
	n.NBCTL("ha-chassis-group-add-chassis", "group", first.Name, "20", "--", "ha-chassis-group-add-chassis", "group", second.Name, "10")
}

// host puts a machine on the physical network, which has those IPv4 addresses.
func (n external) host(i int, v4 ...string) *lab.Guest {
	spec := lab.Guest{
		Name: fmt.Sprintf("host%d", i), MAC: fmt.Sprintf("02:00:00:00:01:3%d", i),
		Addrs: lab.Prefixes(append(v4, fmt.Sprintf("fd00:1::3%d/64", i))...), Routes: []string{"fd00::254 dev eth0"},
	}
	if len(v4) > 0 {
		spec.Routes = append(spec.Routes, "169.254.169.254 dev eth0")
	}
	h := n.Node.AddGuest(spec)
	n.Node.VSCTL("del-port", lab.Bridge, h.NodePort, "--", "add-port", "br-ex", h.NodePort, "--", "set", "Port", h.NodePort, fmt.Sprintf("tag=%d", n.tag))
	return h
}

func testExternal(t *testing.T, tag int) {
	t.Helper()
	n := newExternal(t, tag)
	l := n.Lab
	// Two that OVN knows, and one that it does not.
	var hosts []*lab.Guest
	for i := 1; i <= 3; i++ {
		hosts = append(hosts, n.host(i, fmt.Sprintf("10.0.1.3%d/24", i)))
	}

	var servers []*server
	for _, node := range l.Nodes {
		s := launch(t, l, node, "puntdns-"+node.Name, pipelineCorefile("", "domain cloud.internal", ""))
		s.ready(200)
		servers = append(servers, s)
	}
	answered := func(i int) float64 {
		return servers[i].metric("coredns_ofpunt_packet_ins_total", "result", "answered")
	}
	const known, unknown, silent = "NOERROR 30 10.0.1.50", "NXDOMAIN", "no reply"
	asks := func(t *testing.T, resident int) {
		t.Helper()
		before := answered(1 - resident)
		for _, address := range resolvers {
			for _, transport := range []string{"+notcp", "+tcp"} {
				expect(t, hosts[0], known, "@"+address, transport, "db.internal")
				expect(t, hosts[1], "NOERROR 30 10.0.1.31", "@"+address, transport, "host1.cloud.internal")
				expect(t, hosts[0], unknown, "@"+address, transport, "other.cloud.internal")
			}
		}
		servers[resident].log(`asked db\.internal\. A by red-host1 on red`)
		servers[resident].log(`asked host1\.cloud\.internal\. A by red-host2 on red`)
		if got := answered(1 - resident); got != before {
			t.Errorf("the chassis that does not have the ports answered %v packets", got-before)
		}
	}
	t.Run("asks", func(t *testing.T) { asks(t, 0) })
	t.Run("a host that OVN does not know", func(t *testing.T) {
		expect(t, hosts[2], silent, "@"+resolver4, "+time=1", "+tries=1", "db.internal")
		expect(t, hosts[2], silent, "@"+resolver6, "+time=1", "+tries=1", "db.internal")
	})
	t.Run("a host with the address of another", func(t *testing.T) {
		// Nobody outside of OVN checks it: docs/security.md.
		raw := hosts[0].Raw()
		defer raw.Close()
		m := new(dns.Msg).SetQuestion("spoofed.internal.", dns.TypeA)
		f := udpFrame{srcMAC: hosts[1].MAC, dstMAC: "02:00:64:6e:73:35", ttl: 64, src: "10.0.1.31:4000", dst: resolver4 + ":53", payload: pack(t, m)}
		if _, err := rawExchange(within(t, wait), raw, f.build(t), f.dst); err != nil {
			t.Fatal(err)
		}
		servers[0].log(`asked spoofed\.internal\. A by red-host2 on red`)
	})
	// The neighbour entries do not age from here on, so a query reaches a chassis only if the
	// physical network has learnt that the MAC address of the resolver addresses is there.
	for _, h := range hosts[:2] {
		for _, address := range resolvers {
			if _, err := h.Exec(within(t, wait), "ip", "neigh", "replace", address, "lladdr", resolverMAC, "nud", "permanent", "dev", lab.Iface); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A machine that OVN does not know has a resolver address, and another such machine asks it.
	const known4 = "NOERROR 30 192.0.2.9"
	other := n.host(4, "10.0.1.34/24")
	if _, err := other.Exec(within(t, wait), "ip", "addr", "add", resolver4+"/32", "dev", lab.Iface); err != nil {
		t.Fatal(err)
	}
	other.ServeDNS(resolver4+":53", "db.internal. 30 A 192.0.2.9")
	// The kernel may just be giving up its search for a neighbour.
	expectSoon(t, l, hosts[2], known4, "@"+resolver4, "db.internal")
	announced := func(i int) float64 { return servers[i].metric("coredns_ofpunt_announcements_total") }
	if first, second := announced(0), announced(1); first == 0 || second != 0 {
		t.Errorf("%v announcements of the chassis that has the ports, %v of the other one", first, second)
	}
	for _, to := range []int{1, 0} {
		t.Run("moves to "+l.Nodes[to].Name, func(t *testing.T) {
			n.prefer(l.Nodes[to], l.Nodes[1-to])
			residesOn(l, "red-host1", l.Nodes[to])
			residesOn(l, "red-host2", l.Nodes[to])
			l.Eventually("flows of the chassis before", func() error {
				if n := len(flowLines(l.Nodes[1-to].OFCTL("dump-flows", lab.Bridge, ourCookie))); n != privateFlows {
					return fmt.Errorf("%d flows", n)
				}
				return nil
			})
			before := announced(1 - to)
			for _, h := range hosts[:2] {
				for _, address := range resolvers {
					expectSoon(t, l, h, known, "@"+address, "db.internal")
				}
			}
			expect(t, hosts[2], known4, "@"+resolver4, "db.internal")
			asks(t, to)
			if got := announced(1 - to); got != before {
				t.Errorf("%v announcements of the chassis before after it has lost the ports", got-before)
			}
		})
	}
	for _, s := range servers {
		s.endWell()
	}
}

// residesOn waits until a chassis has an external port.
func residesOn(l *lab.Lab, port string, n *lab.Node) {
	l.Eventually(port+" is on "+n.Name, func() error {
		chassis := l.SBCTL("--bare", "--columns=chassis", "find", "Port_Binding", "logical_port="+port)
		if chassis = strings.TrimSpace(chassis); chassis == "" {
			return errors.New("it is on none")
		}
		if name := strings.TrimSpace(l.SBCTL("--bare", "--columns=name", "list", "Chassis", chassis)); name != n.Name {
			return fmt.Errorf("it is on %s", name)
		}
		return nil
	})
}
