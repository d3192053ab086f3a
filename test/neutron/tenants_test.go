// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"strings"
	"testing"
)

// tenants are two projects of equal subnets, which the tests of ML2/OVN and ML2/OVS have.
type tenants struct {
	*cloud
	red, blue object   // networks
	vm1, vm2  *machine // of red
	peer      *machine // of blue, with the name of vm1 and the address of vm2
}

// network creates a network of a project with a subnet of each family; mode is how guests
// get their IPv6 addresses.
func (c *cloud) network(t *testing.T, project, name, four, six, mode string) object {
	t.Helper()
	n := c.create(t, "network", object{"name": name, "project_id": project})
	for _, s := range []object{
		{"name": name + "-v4", "ip_version": 4, "cidr": four},
		{"name": name + "-v6", "ip_version": 6, "cidr": six, "ipv6_address_mode": mode, "ipv6_ra_mode": mode},
	} {
		s["network_id"], s["project_id"] = n.id(), project
		c.create(t, "subnet", s)
	}
	return n
}

// bootPeer starts the guest of blue, once vm2 has its address.
func (c *tenants) bootPeer(t *testing.T) *machine {
	t.Helper()
	return c.boot(t, c.blue, "vm1", object{"fixed_ips": []object{
		{"subnet_id": c.named(t, "subnet", "blue-v4").id(), "ip_address": c.vm2.address4()},
		{"subnet_id": c.named(t, "subnet", "blue-v6").id()},
	}}).lease(c.cloud)
}

// ok is the short form of an answer with this data.
func ok(values ...string) string { return strings.Join(append([]string{"NOERROR"}, values...), " ") }

// asksNames has vm1 ask for vm2, which has these names, and for names outside.
func (c *tenants) asksNames(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		c.vm1.asks(t, ask{name + " A", ok(c.vm2.address4())}, ask{name + " AAAA", ok(c.vm2.address6())}, ask{name + " MX", ok()})
	}
	c.vm1.asks(t,
		ask{"-x " + c.vm2.address4(), ok("vm2.cloud.internal.")}, ask{"-x " + c.vm2.address6(), ok("vm2.cloud.internal.")},
		ask{"none.cloud.internal A", "NXDOMAIN"},
		ask{"www.example.org A", ok("192.0.2.80")}, ask{"none.example.org A", "NXDOMAIN"})
}

// peerAsks has peer ask for names that both tenants have, and for some of the other one's.
func (c *tenants) peerAsks(t *testing.T) {
	t.Helper()
	if c.peer.address4() != c.vm2.address4() {
		t.Fatalf("addresses %s and %s, want equal ones", c.peer.address4(), c.vm2.address4())
	}
	c.peer.asks(t,
		ask{"vm1 A", ok(c.peer.address4())}, ask{"vm1.cloud.internal AAAA", ok(c.peer.address6())},
		ask{"-x " + c.peer.address4(), ok("vm1.cloud.internal.")}, ask{"vm2.cloud.internal A", "NXDOMAIN"}, ask{"vm2 A", "NXDOMAIN"})
}

// closedGroup creates a security group of red with these fields and without rules.
func (c *tenants) closedGroup(t *testing.T, fields object) object {
	t.Helper()
	fields["project_id"] = "red"
	g := c.create(t, "security_group", fields)
	list, _ := g["security_group_rules"].([]any)
	for _, rule := range list {
		fields, _ := rule.(map[string]any)
		c.remove(t, "security_group_rule", object(fields))
	}
	return g
}

func (c *tenants) testRenamed(t *testing.T) {
	c.update(t, "port", c.vm2.port, object{"dns_name": "renamed"})
	defer func() {
		c.update(t, "port", c.vm2.port, object{"dns_name": "vm2"})
		c.vm1.asks(t, ask{"vm2 A", ok(c.vm2.address4())})
	}()
	c.vm1.asks(t,
		ask{"renamed A", ok(c.vm2.address4())}, ask{"renamed.cloud.internal AAAA", ok(c.vm2.address6())},
		ask{"-x " + c.vm2.address4(), ok("renamed.cloud.internal.")}, ask{"vm2.cloud.internal A", "NXDOMAIN"})
}
