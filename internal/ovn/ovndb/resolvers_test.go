// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// resolvers are what a guest of a snapshot may be told to ask: the DNS servers of DHCP that
// are none of its tenant's own, and the gateways.
func resolvers(s *ovn.Snapshot, port string) string {
	p := s.PortByName(port)
	if p == nil {
		return "no such port"
	}
	n := s.Network(p.Network)
	servers := slices.DeleteFunc(slices.Clone(p.DNSServers), func(a netip.Addr) bool { return s.HasMachine(n, a) })
	return strings.Trim(fmt.Sprint(servers)+" | "+fmt.Sprint(n.Gateways()), " ")
}

// TestResolvers: what northd makes of DHCP options and of routers, and changes to that, in
// each way of reading.
func TestResolvers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	for _, command := range []string{
		"ls-add red", "ls-add blue", "ls-add alone", "ls-add ext",
		"lr-add r1", "lr-add r2", "lr-add r3",
		"lrp-add r1 r1-red 02:00:00:00:01:01 10.0.0.1/24 fd00::1/64",
		"lsp-add red red-r1 -- lsp-set-type red-r1 router -- lsp-set-addresses red-r1 router -- lsp-set-options red-r1 router-port=r1-red",
		// Addresses that are the same as those of another tenant, and written out.
		"lrp-add r2 r2-blue 02:00:00:00:01:02 10.0.0.1/24",
		"lsp-add blue blue-r2 -- lsp-set-type blue-r2 router -- lsp-set-addresses blue-r2 02:00:00:00:01:02~10.0.0.1 -- lsp-set-options blue-r2 router-port=r2-blue",
		// A gateway router, and the uplink of a router of Neutron's.
		"lrp-add r3 r3-ext 02:00:00:00:01:03 192.0.2.1/24 -- set Logical_Router r3 options:chassis=hv1",
		"lsp-add ext ext-r3 -- lsp-set-type ext-r3 router -- lsp-set-addresses ext-r3 router -- lsp-set-options ext-r3 router-port=r3-ext",
		"lrp-add r1 r1-ext 02:00:00:00:01:04 192.0.2.77/24",
		"lsp-add ext ext-r1 -- lsp-set-type ext-r1 router -- lsp-set-addresses ext-r1 router -- lsp-set-options ext-r1 router-port=r1-ext -- set Logical_Switch_Port ext-r1 external_ids:\"neutron:device_owner\"=\"network:router_gateway\"",
		"lsp-add ext phys -- lsp-set-type phys localnet -- lsp-set-addresses phys unknown -- lsp-set-options phys network_name=phys",
	} {
		r.nbctl(command)
	}
	var here []string
	guest := func(sw, name, settings string) {
		r.nbctl(fmt.Sprintf("lsp-add %s %s -- lsp-set-addresses %s %s", sw, name, name, settings))
		here = append(here, name)
	}
	guest("red", "red1", "02:00:00:00:00:01~10.0.0.11~fd00::11")
	guest("red", "red2", "02:00:00:00:00:02~10.0.0.12")
	guest("blue", "blue1", "02:00:00:00:00:01~10.0.0.11")
	guest("alone", "alone1", "02:00:00:00:00:01~10.0.0.11")
	guest("ext", "ext1", "02:00:00:00:00:05~192.0.2.11")
	v4 := r.nbctl(`create DHCP_Options cidr=10.0.0.0/24 options:dns_server="{9.9.9.9,10.0.0.53}"`)
	v6 := r.nbctl(`create DHCP_Options cidr="fd00::/64" options:dns_server="{2620:fe::fe}"`)
	blue := r.nbctl(`create DHCP_Options cidr=10.0.0.0/24 options:dns_server=10.0.0.53`)
	r.nbctl(fmt.Sprintf("set Logical_Switch_Port red1 dhcpv4_options=%s dhcpv6_options=%s -- set Logical_Switch_Port red2 dhcpv4_options=%s -- set Logical_Switch_Port blue1 dhcpv4_options=%s", v4, v6, v4, blue))
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	for _, g := range here {
		r.sbctl("lsp-bind " + g + " hv1")
	}

	type reading struct {
		name                      string
		source                    *Source
		southbound, wide, servers bool
	}
	var readings []reading
	for _, monitor := range []Monitor{All, Local} {
		for i, c := range []Config{r.config(true, false), r.config(true, true), r.config(false, true)} {
			for _, wide := range []bool{false, true} {
				c.Monitor = monitor
				sb, nb, err := c.parse()
				if err != nil {
					t.Fatal(err)
				}
				s := start(c, sb, nb, nil)
				t.Cleanup(s.stop)
				if wide {
					s.Request(Requests{Routers: true})
				}
				s.nameChassis("hv1")
				s.as("br").setPorts(here, 0)
				readings = append(readings, reading{
					fmt.Sprintf("southbound %v, northbound %v, monitor %d, joined %v", i < 2, i > 0, monitor, wide), s, i < 2, wide, i > 0,
				})
			}
		}
	}
	// Nobody has asked yet.
	for _, x := range readings {
		eventually(t, x.source, func(s *ovn.Snapshot) string {
			if got := resolvers(s, "red1"); got != "[] | []" || !s.Settled {
				return x.name + ": red1 has " + got
			}
			return ""
		})
	}
	var releases []func()
	for _, x := range readings {
		releases = append(releases, x.source.Request(Requests{DNSServers: true, Gateways: true}))
		if x.source.Snapshot().Settled && x.southbound && !x.wide && x.source.local {
			t.Errorf("%s: settled before the routers' ports are read", x.name)
		}
	}
	steps := []struct {
		name, command string
		want          []string // "PORT DNS servers | gateways"
		wide          []string // where joined networks are known
	}{
		{"initial", "", []string{
			"red1 [9.9.9.9 10.0.0.53 2620:fe::fe] | [10.0.0.1 fd00::1]", "red2 [9.9.9.9 10.0.0.53] | [10.0.0.1 fd00::1]",
			"blue1 [10.0.0.53] | [10.0.0.1]", "alone1 [] | []", "ext1 [] | [192.0.2.1]",
		}, nil},
		{"the tenant has a DNS server of its own", "lsp-add red ns -- lsp-set-addresses ns 02:00:00:00:00:53~10.0.0.53", []string{
			"red1 [9.9.9.9 2620:fe::fe] | [10.0.0.1 fd00::1]", "red2 [9.9.9.9] | [10.0.0.1 fd00::1]", "blue1 [10.0.0.53] | [10.0.0.1]",
		}, nil},
		{"it is a localport", "lsp-set-type ns localport", []string{"red2 [9.9.9.9 10.0.0.53] | [10.0.0.1 fd00::1]"}, nil},
		{"it is a virtual port", "lsp-set-type ns virtual -- lsp-set-options ns virtual-ip=10.0.0.53 virtual-parents=red1", []string{"red2 [9.9.9.9] | [10.0.0.1 fd00::1]"}, nil},
		{"it goes", "lsp-del ns", []string{"red2 [9.9.9.9 10.0.0.53] | [10.0.0.1 fd00::1]"}, nil},
		{"DHCP tells another", "set DHCP_Options " + v4 + " options:dns_server=10.0.0.1", []string{
			"red1 [10.0.0.1 2620:fe::fe] | [10.0.0.1 fd00::1]", "red2 [10.0.0.1] | [10.0.0.1 fd00::1]", "blue1 [10.0.0.53] | [10.0.0.1]",
		}, nil},
		{"DHCPv6 tells none", "remove DHCP_Options " + v6 + " options dns_server", []string{"red1 [10.0.0.1] | [10.0.0.1 fd00::1]"}, nil},
		{"a second router", "lrp-add r2 r2-red 02:00:00:00:01:05 10.0.0.2/24 -- lsp-add red red-r2 -- lsp-set-type red-r2 router -- lsp-set-addresses red-r2 router -- lsp-set-options red-r2 router-port=r2-red",
			[]string{"red1 [10.0.0.1] | [10.0.0.1 10.0.0.2 fd00::1]", "blue1 [10.0.0.53] | [10.0.0.1]"}, nil},
		{"a DNS server in a network that it joins", "lsp-add red nsred -- lsp-set-addresses nsred 02:00:00:00:00:54~10.0.0.53",
			[]string{"blue1 [10.0.0.53] | [10.0.0.1]"}, []string{"blue1 [] | [10.0.0.1]"}},
		{"and it is joined no more", "lrp-del r2-red -- lsp-del red-r2", []string{"red1 [10.0.0.1] | [10.0.0.1 fd00::1]", "blue1 [10.0.0.53] | [10.0.0.1]"}, nil},
		{"a router has another address", "set Logical_Router_Port r1-red networks=10.0.0.254/24", []string{"red1 [10.0.0.1] | [10.0.0.254]", "blue1 [10.0.0.53] | [10.0.0.1]"}, nil},
		{"other options", "set Logical_Switch_Port red2 dhcpv4_options=" + blue, []string{"red2 [] | [10.0.0.254]"}, nil},
		{"no router", "lrp-del r2-blue", []string{"blue1 [10.0.0.53] | []"}, nil},
		{"a router", "lrp-add r2 r2-blue 02:00:00:00:01:02 10.0.0.9/24", []string{"blue1 [10.0.0.53] | [10.0.0.9]"}, nil},
		{"the uplink of a tenant becomes a gateway", "clear Logical_Switch_Port ext-r1 external_ids", []string{"ext1 [] | [192.0.2.1 192.0.2.77]"}, nil},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			if step.command != "" {
				r.nbctl("--wait=sb " + step.command)
			}
			for _, x := range readings {
				want := step.want
				if x.wide && step.wide != nil {
					want = step.wide
				}
				eventually(t, x.source, func(s *ovn.Snapshot) string {
					for _, line := range want {
						port, line, _ := strings.Cut(line, " ")
						if !x.servers {
							line = "[]" + line[strings.Index(line, "]")+1:]
						}
						if got := resolvers(s, port); got != line {
							return fmt.Sprintf("%s: %s has %s, want %s", x.name, port, got, line)
						}
						n := s.Network(s.PortByName(port).Network)
						for _, a := range n.Gateways() {
							if !n.Owns(a) {
								return fmt.Sprintf("%s: %s does not own its gateway %s", x.name, n.Name, a)
							}
						}
					}
					return ""
				})
			}
		})
	}
	for i, x := range readings {
		releases[i]()
		eventually(t, x.source, func(s *ovn.Snapshot) string {
			if got := resolvers(s, "red1"); got != "[] | []" {
				return x.name + ": red1 still has " + got
			}
			return ""
		})
	}
}

// Guests with the same DHCP options share the list of their DNS servers, and changes that no
// guest has a use for have no ports built anew.
func TestDNSServersShared(t *testing.T) {
	r := newRig(t)
	options := r.nbctl(`create DHCP_Options cidr=10.0.0.0/24 options:dns_server="{9.9.9.9,1.1.1.1}"`)
	r.nbctl("ls-add red")
	for i := range 3 {
		r.nbctl(fmt.Sprintf("lsp-add red p%d -- lsp-set-dhcpv4-options p%d %s", i, i, options))
	}
	c := r.config(false, true)
	c.Monitor = All
	s := r.acquire(c)
	s.as("br").setPorts([]string{"p0", "p1", "p2"}, 0)
	eventually(t, s, func(s *ovn.Snapshot) string {
		if got := guests(s); got != "p0 p1 p2" {
			return "guests: " + got
		}
		return ""
	})
	before := s.Snapshot()
	r.nbctl("set DHCP_Options " + options + " options:dns_server=8.8.8.8")
	r.nbctl("set DHCP_Options " + options + ` options:domain_name="\"x.test\""`)
	after := eventually(t, s, func(s *ovn.Snapshot) string {
		if p := s.PortByName("p0"); p.Domain != "x.test." {
			return "domain: " + p.Domain
		}
		return ""
	})
	if after.PortsVersion != before.PortsVersion+1 {
		t.Errorf("the DNS servers, which nobody asks for, count: version %d after %d", after.PortsVersion, before.PortsVersion)
	}
	s.Request(Requests{DNSServers: true})
	now := eventually(t, s, func(s *ovn.Snapshot) string {
		if got := resolvers(s, "p0"); got != "[8.8.8.8] | []" {
			return got
		}
		return ""
	})
	if first := &now.PortByName("p0").DNSServers[0]; &now.PortByName("p1").DNSServers[0] != first || &now.PortByName("p2").DNSServers[0] != first {
		t.Error("each guest has a list of its own")
	}
}

// Where the routers of many tenants meet, none of them is a gateway.
func TestManyRouters(t *testing.T) {
	r := newRig(t)
	sw, router := r.insertSwitch("a", uuidA, 1), r.insertSwitch("r", "x", 2)
	add := func(i int) {
		r.sbctl(fmt.Sprintf("create Port_Binding logical_port=s%d tunnel_key=%d type=patch options:peer=r%d datapath=%s mac=router -- "+
			"create Port_Binding logical_port=r%d tunnel_key=%d type=patch options:peer=s%d datapath=%s mac=\"02:00:00:00:00:01~10.0.0.%d/24\"", i, i+2, i, sw, i, i+2, i, router, i+1))
	}
	r.sbctl("chassis-add hv1 geneve 192.0.2.1 -- create Port_Binding logical_port=p1 tunnel_key=1 datapath=" + sw + ` mac="02:00:00:00:00:01~10.0.0.99"`)
	r.sbctl("lsp-bind p1 hv1")
	s := r.acquire(r.config(true, false))
	s.nameChassis("hv1")
	s.as("br").setPorts([]string{"p1"}, 0)
	s.Request(Requests{Gateways: true, RouterNames: true})
	for i := range ovn.MaxGateways {
		add(i)
	}
	has := func(want int, names string) {
		t.Helper()
		eventually(t, s, func(s *ovn.Snapshot) string {
			p := s.PortByName("p1")
			if got := len(s.Network(p.Network).Gateways()); got != want || p.Routers() != names {
				return fmt.Sprintf("%d gateways, routers %q, want %d, %q", got, p.Routers(), want, names)
			}
			return ""
		})
	}
	eventually(t, s, func(s *ovn.Snapshot) string {
		if s.PortByName("p1") == nil {
			return "no guest"
		}
		return ""
	})
	has(ovn.MaxGateways, "r")
	add(ovn.MaxGateways)
	has(0, "")
	r.sbctl(fmt.Sprintf("destroy Port_Binding s%d", ovn.MaxGateways))
	has(ovn.MaxGateways, "r")

	s.mu.Lock()
	asked := make(map[ovsdb.Condition]bool)
	for _, c := range s.sbConn.Latest.Requests()[topology.TablePort] {
		if asked[c] {
			t.Errorf("a condition is sent twice: %v", c)
		}
		asked[c] = true
	}
	s.mu.Unlock()

	// The network is in no snapshot without them.
	c := r.config(true, false)
	sb, nb, err := c.parse()
	if err != nil {
		t.Fatal(err)
	}
	fresh := start(c, sb, nb, nil)
	t.Cleanup(fresh.stop)
	fresh.Request(Requests{Gateways: true})
	fresh.nameChassis("hv1")
	first := eventually(t, fresh, func(s *ovn.Snapshot) string {
		if s.PortByName("p1") == nil {
			return "no guest"
		}
		return ""
	})
	if got := len(first.Network(first.PortByName("p1").Network).Gateways()); got != ovn.MaxGateways {
		t.Errorf("the first snapshot of the network has %d gateways", got)
	}
}

// A port of a network that is joined leads to a router's port that is not there, as where
// ovn-nbctl lrp-del was called and lsp-del was not. All the others are joined, whatever else is
// asked for of routers.
func TestJoinedToNobody(t *testing.T) {
	r := newRig(t)
	a, b, router := r.insertSwitch("a", uuidA, 1), r.insertSwitch("b", uuidB, 2), r.insertSwitch("r", "x", 3)
	for i, port := range []struct{ name, datapath, peer, mac string }{
		{"a-r", a, "r-a", "router"}, {"r-a", router, "a-r", `"02:00:00:00:00:01~10.0.0.1/24"`},
		{"b-r", b, "r-b", "router"}, {"r-b", router, "b-r", `"02:00:00:00:00:01~10.0.1.1/24"`},
		{"b-x", b, "x-b", "router"},
	} {
		r.sbctl(fmt.Sprintf("create Port_Binding logical_port=%s tunnel_key=%d type=patch options:peer=%s datapath=%s mac=%s", port.name, i+2, port.peer, port.datapath, port.mac))
	}
	r.sbctl("chassis-add hv1 geneve 192.0.2.1 -- create Port_Binding logical_port=p1 tunnel_key=1 datapath=" + a + ` mac="02:00:00:00:00:01~10.0.0.99"`)
	r.sbctl("lsp-bind p1 hv1")
	for _, tt := range []struct {
		name string
		Requests
	}{
		{"nothing else", Requests{Routers: true}},
		{"names", Requests{Routers: true, RouterNames: true}},
		{"gateways", Requests{Routers: true, Gateways: true}},
		{"both", Requests{Routers: true, RouterNames: true, Gateways: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.config(true, false)
			sb, nb, err := c.parse()
			if err != nil {
				t.Fatal(err)
			}
			s := start(c, sb, nb, nil)
			t.Cleanup(s.stop)
			s.Request(tt.Requests)
			s.nameChassis("hv1")
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := joined(s, "a"); got != "a b" {
					return "joined: " + got
				}
				return ""
			})
		})
	}
}
