// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// What ML2/OVS needs beside the settings of the page.
const ovsConf = `
[DEFAULT]
service_plugins = router,trunk
[ml2]
type_drivers = local,flat,vlan,geneve
tenant_network_types = local
mechanism_drivers = openvswitch
`

const ovsAgentConf = `
[ovs]
datapath_type = netdev
integration_bridge = br-int
ovsdb_connection = tcp:127.0.0.1:6640
[agent]
tunnel_types =
polling_interval = 1
report_interval = 5
[securitygroup]
firewall_driver = openvswitch
`

const dhcpAgentConf = `
[DEFAULT]
interface_driver = openvswitch
resync_interval = 5
[ovs]
ovsdb_connection = tcp:127.0.0.1:6640
`

// The daemons of Neutron beside its API, by the names of their programs.
const (
	rpcServer  = "neutron-rpc-server"
	ovsAgent   = "neutron-openvswitch-agent"
	dhcpAgent  = "neutron-dhcp-agent"
	proxyAgent = "neutron-metadata-agent"
)

// ovsTenants are the tenants of ML2/OVS, whose networks are isolated.
type ovsTenants struct {
	tenants
	agent, dhcp []string // files of the agents
}

func TestOVS(t *testing.T) {
	c := &ovsTenants{tenants: tenants{cloud: newCloud(t, options{
		name: "ML2/OVS", common: ovsConf, blocks: []string{"settings-of-neutron ini 1", "ml2ovs ini 1"},
		lab: lab.Options{Plain: true}, queue: true,
	})}}
	defer c.keep()
	c.start(t)
	c.shows(t, "the agent's bridge has OpenFlow 1.3, not 1.5", c.testVersion)
	c.shows(t, "DHCP tells the resolver address and the way to it", c.testDHCP)
	c.shows(t, "names of the network and outside names, both families, PTR, TCP", c.testNames)
	c.shows(t, "tenants with equal subnets are apart", c.testApart)
	c.shows(t, "an update of a port changes its names", c.testRenamed)
	c.shows(t, "the DHCP agent's port is no guest", c.testAgentPort)
	c.shows(t, "metadata beside DNS", c.testMetadata)
	c.shows(t, "security groups do not count for the resolver addresses", c.testSecurityGroups)
	c.shows(t, "the agent is restarted under load", c.testAgent)
	c.shows(t, "Neutron's other daemons are restarted under load, a guest comes and goes", c.testRestarts)
	c.shows(t, "Neutron's forwarder beside puntdns, and in its place", c.testForwarder)
	c.shows(t, "a trunk's subport has its own network's names", c.testTrunk)
	c.shows(t, "puntdns ends well", c.end)
}

func (c *ovsTenants) start(t *testing.T) {
	t.Helper()
	c.openflow = "OpenFlow13"
	c.nova(t)
	c.agent = []string{c.write(t, "agent.conf", ovsAgentConf)}
	c.dhcp = []string{c.write(t, "dhcp.conf", dhcpAgentConf), c.write(t, "dhcp-page.conf", c.page.block(t, "ml2ovs ini 2"))}
	c.daemon(rpcServer)
	c.consumed(t, "q-plugin")
	c.daemon(ovsAgent, c.agent...)
	c.daemon(dhcpAgent, c.dhcp...)
	c.daemon(proxyAgent, c.write(t, "metadata.conf", metadataConf))
	c.agents(t, "Open vSwitch agent", "DHCP agent")

	c.red, c.blue = c.plain(t, "red"), c.plain(t, "blue")
	c.vm1 = c.boot(t, c.red, "vm1", nil).lease(c.cloud).static6()
	c.vm2 = c.boot(t, c.red, "vm2", nil).lease(c.cloud).static6()
	c.peer = c.bootPeer(t).static6()
	c.serve(t, "ml2ovs corefile 1")
	c.guests(t, 3)
}

// plain is an isolated network.
func (c *ovsTenants) plain(t *testing.T, project string) object {
	t.Helper()
	n := c.network(t, project, project, "10.0.0.0/24", "fd00:10::/64", "dhcpv6-stateful")
	c.shell(t, "settings-of-neutron sh 1", "SUBNET", project+"-v4")
	return n
}

// agents waits until agents of these kinds report that they are alive.
func (c *cloud) agents(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		until(t, patience, kind, func() error {
			found, err := c.list(within(t, wait), "agent", url.Values{"agent_type": {kind}, "alive": {"true"}})
			if err == nil && len(found) == 0 {
				err = errors.New("not alive")
			}
			return err
		})
	}
}

// static6 gives a guest of a network without a router its IPv6 address, and the route to the
// resolver.
func (m *machine) static6() *machine {
	m.t.Helper()
	m.ip("addr add " + m.address6() + "/64 dev " + lab.Iface + " nodad")
	m.ip("-6 route add " + resolver6 + " dev " + lab.Iface)
	return m
}

func (c *ovsTenants) testVersion(t *testing.T) {
	if out, err := c.node.Exec(within(t, wait), "ovs-ofctl", "-O", "OpenFlow15", "show", lab.Bridge); err == nil {
		t.Errorf("OpenFlow 1.5 is spoken: %s", out)
	}
	if out := c.shell(t, "ml2ovs sh 1"); !strings.Contains(out, "table=0") || !strings.Contains(out, "table=200") {
		t.Errorf("flows of puntdns:\n%s", out)
	}
}

func (c *ovsTenants) testDHCP(t *testing.T) {
	for _, m := range []*machine{c.vm1, c.peer} {
		if got := m.told["dns"]; got != resolver4 {
			t.Errorf("DNS server %q, want %s", got, resolver4)
		}
		if got := m.told["staticroutes"]; !strings.Contains(got, resolver4+"/32 10.0.0.") {
			t.Errorf("routes %q, want one to %s", got, resolver4)
		}
	}
}

func (c *ovsTenants) testNames(t *testing.T) {
	c.asksNames(t, "vm2", "VM2.cloud.internal")
	c.vm1.asks(t, ask{"www.example.org AAAA", ok("2001:db8::80")})
	for name, want := range map[string]string{"vm2": c.vm2.address4(), "www.example.org": "192.0.2.80"} {
		if got := c.vm1.getent(t, "ahostsv4", name); !strings.HasPrefix(got, want+" ") {
			t.Errorf("getent %s: %q, want %s", name, got, want)
		}
	}
}

// testApart asks for names of the other tenant, and looks at whom the log takes two guests for
// who have one address.
func (c *ovsTenants) testApart(t *testing.T) {
	c.peerAsks(t)
	c.vm1.asks(t, ask{"vm1 A", ok(c.vm1.address4())}, ask{"-x " + c.vm2.address4(), ok("vm2.cloud.internal.")})
	for m, network := range map[*machine]object{c.vm2: c.red, c.peer: c.blue} {
		name := "of-" + network.text("name") + ".example.org"
		m.asks(t, ask{name + " A", "NXDOMAIN"})
		if err := c.procs["puntdns"].WaitLog(within(t, wait), network.id()+" "+m.port.id()+" .*"+name); err != nil {
			t.Error(err)
		}
	}
}

func (c *ovsTenants) testAgentPort(t *testing.T) {
	found, err := c.list(within(t, wait), "port", url.Values{"device_owner": {"network:dhcp"}})
	if err != nil || len(found) != 2 {
		t.Fatalf("ports of the DHCP agent: %v, %v", found, err)
	}
	for _, port := range found {
		number := strings.TrimSpace(c.node.VSCTL("--bare", "--columns=ofport", "find", "Interface", "external_ids:iface-id="+port.id()))
		flows := c.exec(t, "ovs-ofctl", "-O", c.openflow, "--no-names", "dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000")
		if number == "" || strings.Contains(flows, "in_port="+number+",") {
			t.Errorf("the DHCP agent's port %q has flows:\n%s", number, flows)
		}
	}
	c.guests(t, 3)
}

func (c *ovsTenants) testMetadata(t *testing.T) {
	for _, m := range []*machine{c.vm1, c.peer} {
		m.metadata(t)
		m.asksBy(t, "@"+resolver4, ask{"www.example.org A", ok("192.0.2.80")})
	}
}

// testSecurityGroups shows that queries are punted before the agent's firewall.
func (c *ovsTenants) testSecurityGroups(t *testing.T) {
	dhcp := c.vm2.told["serverid"]
	if r := c.vm2.Dig("@"+dhcp, "vm1.cloud.internal"); r.Err != nil {
		t.Errorf("the DHCP agent's dnsmasq does not answer:\n%s", r.Out)
	}
	g := c.closedGroup(t, object{"name": "closed"})
	c.update(t, "port", c.vm2.port, object{"security_groups": []string{g.id()}})
	// The firewall is closed when the guest's other packets are dropped.
	until(t, wait, "the group closes", func() error {
		if r := c.vm2.Dig("+time=1", "@"+dhcp, "vm1.cloud.internal"); r.Err == nil {
			return fmt.Errorf("the DHCP agent's dnsmasq still answers: %s", r)
		}
		return nil
	})
	c.vm2.asks(t, ask{"www.example.org A", ok("192.0.2.80")})
}

// testAgent restarts the agent, which removes flows that are not its own once it has been
// through all ports. Until puntdns has put its flows back, queries over IPv4 go to the DHCP
// agent's dnsmasq, which refuses names that are not of the network, and those over IPv6 nowhere.
func (c *ovsTenants) testAgent(t *testing.T) {
	c.vm1.undisturbed(t, "www.example.org.", ok("192.0.2.80"), 10, func() { c.restartAgent(t, c.agent...) })
	c.vm1.asks(t, ask{"vm2 A", ok(c.vm2.address4())})
	c.guests(t, 3)
}

// testRestarts restarts Neutron's other daemons while a guest asks.
func (c *ovsTenants) testRestarts(t *testing.T) {
	c.vm1.undisturbed(t, "vm2.", ok(c.vm2.address4()), 0, func() {
		_ = c.procs["neutron-api"].Stop()
		c.startAPI(t)
		c.restart(rpcServer)
		c.consumed(t, "q-plugin")
		c.restart(dhcpAgent, c.dhcp...)
		c.agents(t, "Open vSwitch agent", "DHCP agent")
		// They are heard of again.
		c.testComeAndGo(t)
	})
}

// restartAgent restarts the agent and waits until it has removed what it takes for leftovers.
func (c *ovsTenants) restartAgent(t *testing.T, files ...string) {
	t.Helper()
	const removed = "cleanup stale flows"
	before := strings.Count(c.procs[ovsAgent].Log(), removed)
	c.restart(ovsAgent, files...)
	until(t, patience, "the agent removes flows", func() error {
		if log := c.procs[ovsAgent].Log(); strings.Count(log, removed) == before {
			return errors.Join(errors.New(last(log, 3)), c.alive(ovsAgent))
		}
		return nil
	})
}

func (c *ovsTenants) testComeAndGo(t *testing.T) {
	m := c.boot(t, c.red, "later", nil).lease(c.cloud).static6()
	m.asks(t, ask{"vm2 A", ok(c.vm2.address4())})
	c.vm1.asks(t, ask{"later A", ok(m.address4())})
	c.guests(t, 4)
	c.unplug(t, m)
	c.guests(t, 3)
}

// testForwarder has the agent's own DNS forwarder beside puntdns, as in a migration: a query
// has one answer, puntdns's; and the forwarder's when puntdns has gone.
func (c *ovsTenants) testForwarder(t *testing.T) {
	files := append(c.agent, c.write(t, "forwarder.conf", c.page.block(t, "from-neutrons-forwarder ini 1")))
	c.restartAgent(t, files...)
	until(t, patience, "flows of the forwarder", func() error {
		flows := c.exec(t, "ovs-ofctl", "-O", c.openflow, "dump-flows", lab.Bridge, "table=60")
		if !strings.Contains(flows, "priority=102") {
			return errors.New(flows)
		}
		return c.alive(ovsAgent)
	})
	c.upstream.Set("www.example.org. 60 IN A 192.0.2.80", "later.example.org. 60 IN A 192.0.2.81")
	for _, resolver := range []string{resolver4, resolver6} {
		if n := c.vm1.replies(t, resolver, "later.example.org."); n != 1 {
			t.Errorf("%d replies of %s", n, resolver)
		}
	}
	if err := c.procs["puntdns"].WaitLog(within(t, wait), "later.example.org"); err != nil {
		t.Error(err)
	}
	c.end(t)
	until(t, wait, "the forwarder answers", func() error {
		if got := c.vm1.Dig("+notcp", "@"+resolver6, "later.example.org", "A"); got.String() != ok("192.0.2.81") {
			return errors.New(got.String())
		}
		return nil
	})
	c.serve(t, "ml2ovs corefile 1")
	c.guests(t, 3)
	c.vm1.asks(t, ask{"later.example.org A", ok("192.0.2.81")})
}

// replies counts the replies to one query within a second of the first.
func (m *machine) replies(t *testing.T, resolver, name string) (n int) {
	conn, err := m.Dial(within(t, wait), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	query, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(query); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(wait))
	for buffer := make([]byte, 512); ; n++ {
		if _, err := conn.Read(buffer); err != nil {
			return n
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
	}
}

// testTrunk plugs a guest as Nova plugs one with a trunk: into a bridge of its own, which the
// agent joins to br-int.
func (c *ovsTenants) testTrunk(t *testing.T) {
	parent, sub, trunk := c.trunk(t, c.red, c.blue)
	bridge := "tbr-" + trunk.id()[:10]
	g := c.node.AddGuest(lab.Guest{Name: "trunk", MAC: parent.text("mac_address")})
	c.node.VSCTL("del-port", lab.Bridge, g.NodePort,
		"--", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev",
		"--", "add-port", bridge, g.NodePort, "--", "set", "Interface", g.NodePort, "external_ids:iface-id="+parent.id(),
		`external_ids:attached-mac="`+g.MAC+`"`, "external_ids:iface-status=active", "external_ids:vm-uuid="+parent.text("device_id"))
	c.active(t, parent)
	c.active(t, sub)
	m := (&machine{Guest: g, t: t, port: parent}).lease(c.cloud).static6()
	m.asks(t, ask{"vm1 A", ok(c.vm1.address4())})
	m.asksTagged(t, sub, ok(c.peer.address4()))
	c.guests(t, 5)
}
