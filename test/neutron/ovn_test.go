// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// What ML2/OVN needs beside the settings of the page.
const ovnConf = `
[DEFAULT]
service_plugins = ovn-router,trunk
[ml2]
type_drivers = local,flat,vlan,geneve
tenant_network_types = geneve
mechanism_drivers = ovn
[ml2_type_geneve]
vni_ranges = 1:65536
max_header_size = 38
[ovn]
ovn_nb_connection = tcp:127.0.0.1:6641
ovn_sb_connection = tcp:127.0.0.1:6642
ovn_metadata_enabled = true
`

// The daemons of Neutron beside its API, by the names of their programs.
const (
	metadataAgent     = "neutron-ovn-metadata-agent"
	maintenanceWorker = "neutron-ovn-maintenance-worker"
)

// ovnTenants are the tenants of ML2/OVN, where red has a router.
type ovnTenants struct {
	tenants
	red2     object
	far      *machine // of red2
	metadata string   // configuration of the metadata agent
}

func TestOVN(t *testing.T) {
	c := &ovnTenants{tenants: tenants{cloud: newCloud(t, options{name: "ML2/OVN", common: ovnConf, blocks: []string{"settings-of-neutron ini 1", "ml2ovn ini 1"}})}}
	defer c.keep()
	c.start(t)
	c.shows(t, "DHCP tells the resolver addresses and the domain", c.testDHCP)
	c.shows(t, "names of all forms, both families, PTR, TCP", c.testNames)
	c.shows(t, "the guest's C library finds names by what DHCP has told", c.testLibrary)
	c.shows(t, "tenants with equal subnets are apart", c.testApart)
	c.shows(t, "scope router: networks behind the tenant's router", c.testRouter)
	c.shows(t, "security groups decide who may ask", c.testSecurityGroups)
	c.shows(t, "metadata beside DNS", c.testMetadata)
	c.shows(t, "a trunk's subport has its own network's names", c.testTrunk)
	c.shows(t, "an update of a port changes its names", c.testRenamed)
	c.shows(t, "what is set by hand in OVN, and what of it lasts", c.testByHand)
	c.shows(t, "Neutron's daemons are restarted under load", c.testRestarts)
	c.shows(t, "ovn-controller is restarted under load", c.testController)
	c.shows(t, "neutron-ovn-db-sync-util repairs under load", c.testRepair)
	c.shows(t, "puntdns ends well", c.end)
}

// start starts the agents, the tenants and puntdns.
func (c *ovnTenants) start(t *testing.T) {
	t.Helper()
	c.nova(t)
	c.metadata = c.write(t, "metadata.conf", metadataConf)
	c.daemon(metadataAgent, c.metadata)
	c.daemon(maintenanceWorker)

	c.red = c.network(t, "red", "red", "10.0.0.0/24", "fd00:10::/64", "slaac")
	c.red2 = c.network(t, "red", "red2", "10.0.1.0/24", "fd00:11::/64", "slaac")
	c.blue = c.network(t, "blue", "blue", "10.0.0.0/24", "fd00:10::/64", "dhcpv6-stateful")
	c.shell(t, "ml2ovn sh 1", "NETWORK", "red")
	c.shell(t, "settings-of-neutron sh 1", "SUBNET", "red-v4")
	r := c.create(t, "router", object{"name": "red", "project_id": "red"})
	for _, subnet := range []string{"red-v4", "red-v6", "red2-v4", "red2-v6"} {
		c.action(t, "router", r, "add_router_interface", object{"subnet_id": c.named(t, "subnet", subnet).id()})
	}
	c.vm1 = c.boot(t, c.red, "vm1", nil).autoconfigure().lease(c.cloud)
	c.vm2 = c.boot(t, c.red, "vm2", nil).autoconfigure().lease(c.cloud)
	c.far = c.boot(t, c.red2, "far", nil).autoconfigure().lease(c.cloud)
	c.peer = c.bootPeer(t).lease6(c.cloud)
	c.peer.ip("-6 route add " + resolver6 + " dev eth0")
	c.serve(t, "ml2ovn corefile 1")
	c.guests(t, 4)
}

func (c *ovnTenants) testDHCP(t *testing.T) {
	for _, tt := range []struct {
		machine     *machine
		name, field string
		want        string
	}{
		{c.vm1, "the subnet's dns_nameservers", "dns", resolver4},
		{c.peer, "dns_servers of [ovn]", "dns", resolver4},
		{c.vm1, "dns_domain", "domain", "cloud.internal."},
		{c.vm1, "the route to the resolver", "staticroutes", "169.254.169.254/32"},
		{c.peer, "the route to the resolver, without a router", "staticroutes", "169.254.169.254/32"},
	} {
		if got := tt.machine.told[tt.field]; !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: DHCP tells %q, want %q", tt.name, got, tt.want)
		}
	}
	if got, err := netip.ParseAddr(c.peer.told6["dns"]); err != nil || got != netip.MustParseAddr(resolver6) {
		t.Errorf("DHCPv6 tells %q, want %s", c.peer.told6, resolver6)
	}
	subnet := c.named(t, "subnet", "red-v4")
	if got := fmt.Sprint(subnet["dns_nameservers"]); got != "["+resolver4+"]" {
		t.Errorf("dns_nameservers of the subnet are %s", got)
	}
}

func (c *ovnTenants) testNames(t *testing.T) {
	c.asksNames(t, "vm2", "vm2.cloud.internal", "VM2.red.example")
	c.vm1.asks(t, ask{"vm1 A", ok(c.vm1.address4())}) // its own name
}

func (c *ovnTenants) testLibrary(t *testing.T) {
	for _, tt := range [][3]string{
		{"ahostsv4", "vm2", c.vm2.address4() + " "},
		{"ahostsv4", "vm2.cloud.internal", c.vm2.address4() + " "},
		{"ahostsv6", "vm2", c.vm2.address6() + " "},
		{"hosts", c.vm2.address4(), c.vm2.address4() + " "},
		{"ahostsv4", "www.example.org", "192.0.2.80 "},
	} {
		if got := c.vm1.getent(t, tt[0], tt[1]); !strings.HasPrefix(got, tt[2]) {
			t.Errorf("getent %s %s: %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

func (c *ovnTenants) testApart(t *testing.T) {
	c.peerAsks(t)
	c.peer.asks(t, ask{"vm2.red.example A", "NXDOMAIN"}, ask{"www.example.org AAAA", ok("2001:db8::80")})
	c.vm1.asks(t, ask{"vm1.cloud.internal A", ok(c.vm1.address4())})
}

func (c *ovnTenants) testRouter(t *testing.T) {
	c.vm1.asks(t, ask{"far A", ok(c.far.address4())}, ask{"far.cloud.internal AAAA", ok(c.far.address6())}, ask{"-x " + c.far.address4(), ok("far.cloud.internal.")})
	c.far.asks(t, ask{"vm2.cloud.internal A", ok(c.vm2.address4())})
	c.peer.asks(t, ask{"far.cloud.internal A", "NXDOMAIN"})
}

// group creates a security group of red with these rules alone.
func (c *ovnTenants) group(t *testing.T, name string, stateful bool, rules ...object) object {
	t.Helper()
	g := c.closedGroup(t, object{"name": name, "stateful": stateful})
	for _, rule := range rules {
		rule["security_group_id"], rule["project_id"], rule["direction"] = g.id(), "red", "egress"
		c.create(t, "security_group_rule", rule)
	}
	return g
}

// testSecurityGroups has one guest ask while its port gets other security groups.
func (c *ovnTenants) testSecurityGroups(t *testing.T) {
	m := c.boot(t, c.red, "guarded", nil).autoconfigure().lease(c.cloud)
	defer c.unplug(t, m)
	all4, all6 := object{"ethertype": "IPv4"}, object{"ethertype": "IPv6"}
	udp := func(family string) object {
		return object{"ethertype": family, "protocol": "udp", "port_range_min": 53, "port_range_max": 53}
	}
	groups := func(ids ...string) object { return object{"security_groups": ids, "port_security_enabled": true} }
	question := ask{"vm2 A", ok(c.vm2.address4())}
	for _, tt := range []struct {
		name     string
		fields   object
		udp, tcp bool
	}{
		{"the default group", object{}, true, true},
		{"a stateful group with egress alone", groups(c.group(t, "egress", true, all4, all6).id()), true, true},
		{"a stateless group with egress alone", groups(c.group(t, "stateless", false, object{"ethertype": "IPv4"}, object{"ethertype": "IPv6"}).id()), true, true},
		{"UDP to port 53 alone", groups(c.group(t, "udp53", true, udp("IPv4"), udp("IPv6")).id()), true, false},
		{"a group without egress", groups(c.group(t, "closed", true).id()), false, false},
		{"no group at all", groups(), false, false},
		{"port security switched off", object{"security_groups": []string{}, "port_security_enabled": false}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.update(t, "port", m.port, tt.fields)
			c.l.Sync()
			for how, answered := range map[string]bool{"": tt.udp, "+tcp ": tt.tcp} {
				for _, resolver := range []string{resolver4, resolver6} {
					m.gets(t, how+"@"+resolver, question, answered)
				}
			}
		})
	}
}

func (c *ovnTenants) testMetadata(t *testing.T) {
	for _, m := range []*machine{c.vm1, c.peer} {
		m.metadata(t)
		m.asksBy(t, "@"+resolver4, ask{"vm1 A", ok(m.address4())})
	}
}

// A trunk's subport is on another network than its parent.
func (c *ovnTenants) testTrunk(t *testing.T) {
	parent, sub, _ := c.trunk(t, c.red, c.blue)
	m := c.plug(t, parent).autoconfigure().lease(c.cloud)
	defer c.unplug(t, m)
	m.asks(t, ask{"vm1 A", ok(c.vm1.address4())})
	c.active(t, sub)
	m.asksTagged(t, sub, ok(c.peer.address4()))
}

// nbctl runs ovn-nbctl without the domain and the noise of a table.
func (c *ovnTenants) nbctl(args ...string) string {
	return strings.TrimSpace(c.l.NBCTL(append([]string{"--bare"}, args...)...))
}

// testByHand sets in OVN what Neutron does not know of. A DNS row stays; the hostname of a port
// and a DHCP option are gone after the next update by Neutron.
func (c *ovnTenants) testByHand(t *testing.T) {
	ls := "neutron-" + c.red.id()
	row := c.page.block(t, "what-does-not-last sh 1")
	c.exec(t, "sh", "-ec", strings.NewReplacer("NETWORK_ID", c.red.id()).Replace(row))
	c.vm1.asks(t, ask{"printer.cloud.internal A", ok("10.0.0.250")})

	port := c.vm2.port.id()
	c.nbctl("set", "Logical_Switch_Port", port, `options:hostname="\"byhand\""`)
	c.vm1.asks(t, ask{"byhand A", ok(c.vm2.address4())})
	dhcp := c.nbctl("--columns=_uuid", "find", "DHCP_Options", "external_ids:subnet_id="+c.named(t, "subnet", "red-v4").id())
	c.nbctl("set", "DHCP_Options", dhcp, "options:ntp_server=10.0.0.9")

	c.update(t, "port", c.vm2.port, object{"description": "another"})
	c.update(t, "subnet", c.named(t, "subnet", "red-v4"), object{"description": "another"})
	until(t, wait, "Neutron overwrites", func() error {
		if got := c.nbctl("get", "Logical_Switch_Port", port, "options"); strings.Contains(got, "hostname") {
			return errors.New(got)
		}
		if got := c.nbctl("get", "DHCP_Options", dhcp, "options"); strings.Contains(got, "ntp_server") {
			return errors.New(got)
		}
		return nil
	})
	c.vm1.asks(t, ask{"byhand A", "NXDOMAIN"}, ask{"vm2 A", ok(c.vm2.address4())}, ask{"printer.cloud.internal A", ok("10.0.0.250")})
	if rows := strings.Fields(c.nbctl("--columns=dns_records", "list", "Logical_Switch", ls)); len(rows) != 2 {
		t.Errorf("DNS rows of the network: %q, want Neutron's and our own", rows)
	}
}

// testRestarts restarts each of Neutron's daemons while a guest asks.
func (c *ovnTenants) testRestarts(t *testing.T) {
	c.vm1.undisturbed(t, "vm2.", ok(c.vm2.address4()), 0, func() {
		c.restart(metadataAgent, c.metadata)
		c.restart(maintenanceWorker)
		_ = c.procs["neutron-api"].Stop()
		c.startAPI(t)
		// It is heard of again, and what comes now is served.
		m := c.boot(t, c.red, "later", nil).autoconfigure().lease(c.cloud)
		m.asks(t, ask{"vm2 A", ok(c.vm2.address4())})
		c.vm1.asksBy(t, "@"+resolver4, ask{"later A", ok(m.address4())})
		c.unplug(t, m)
	})
	c.testMetadata(t)
}

// testController restarts ovn-controller, which empties the bridge when it starts.
func (c *ovnTenants) testController(t *testing.T) {
	c.vm1.undisturbed(t, "vm2.", ok(c.vm2.address4()), 10, func() {
		c.node.Restart("ovn-controller")
		c.l.Sync()
		c.vm1.asks(t, ask{"vm2 A", ok(c.vm2.address4())})
	})
	c.guests(t, 4)
}

// testRepair shows that names survive a repair of OVN's databases by Neutron, but for those in
// the network's own domain: Neutron 29 removes them, and writes them again when it updates
// the port.
func (c *ovnTenants) testRepair(t *testing.T) {
	argv := []string{"neutron-ovn-db-sync-util", "--ovn-neutron_sync_mode=repair"}
	for _, f := range c.files {
		argv = append(argv, "--config-file="+f)
	}
	c.vm1.undisturbed(t, "vm2.cloud.internal.", ok(c.vm2.address4()), 0, func() { c.exec(t, argv...) })
	tell("            vm2.red.example after the repair: %s", c.vm1.Dig("@"+resolver4, "vm2.red.example"))
	c.shell(t, "what-does-not-last sh 2", "PORT", c.vm2.port.id())
	c.testNames(t)
	c.testApart(t)
	c.testRouter(t)
	c.vm1.asks(t, ask{"printer.cloud.internal A", ok("10.0.0.250")})
}
