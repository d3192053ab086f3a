// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/puntdns/puntdns/test/svg"

// architecture is a node: two tenants with the same address, the switch, puntdns, and what puntdns asks.
func architecture() *svg.Drawing {
	d := svg.New("Open vSwitch sends the DNS queries of guests to puntdns, one process per node. puntdns answers names of the guest's network from OVN's databases, and asks your resolvers for other names.", 456)
	d.Rect(svg.Area(16, 16, 566, 424), "node", 6)
	d.Text(svg.At(32, 40), svg.Start, "dim", "a node")
	red := d.Box(svg.Area(32, 54, 256, 54), "red", "red-vm1", "10.0.0.11, tenant red")
	blue := d.Box(svg.Area(310, 54, 256, 54), "blue", "blue-vm1", "10.0.0.11, tenant blue")
	ovs := d.Box(svg.Area(32, 186, 534, 62), "box", "Open vSwitch, br-int", "port security, ACLs, then the punt: the port identifies the guest")
	for _, guest := range []struct {
		box    svg.Box
		answer string
	}{{red, "10.0.0.21"}, {blue, "10.0.0.99"}} {
		middle := guest.box.Bottom(.5).X
		d.Arrow("", svg.At(middle-12, guest.box.Y+guest.box.H), svg.At(middle-12, ovs.Y))
		d.Arrow("", svg.At(middle+12, ovs.Y), svg.At(middle+12, guest.box.Y+guest.box.H))
		d.Text(svg.At(middle-20, 144), svg.End, "dim", "db.cloud")
		d.Text(svg.At(middle-20, 162), svg.End, "dim", ".internal?")
		d.Text(svg.At(middle+22, 152), svg.Start, "strong", guest.answer)
	}
	puntdns := d.Box(svg.Area(32, 310, 534, 114), "main")
	d.Text(svg.At(299, 334), svg.Middle, "strong", "puntdns, a CoreDNS build")
	names := d.Box(svg.Area(52, 350, 148, 58), "inner", "ovnhosts", "the network's names")
	cache := d.Box(svg.Area(226, 350, 148, 58), "inner", "cache", "by tenant")
	forward := d.Box(svg.Area(400, 350, 148, 58), "inner", "forward", "other names")
	d.Arrow("", names.Right(.5), cache.Left(.5))
	d.Arrow("", cache.Right(.5), forward.Left(.5))
	d.Arrow("", svg.At(287, ovs.Y+ovs.H), svg.At(287, puntdns.Y))
	d.Arrow("", svg.At(311, puntdns.Y), svg.At(311, ovs.Y+ovs.H))
	d.Text(svg.At(279, 284), svg.End, "dim", "query, as a packet-in")
	d.Text(svg.At(321, 284), svg.Start, "dim", "answer, as a packet-out")
	database := d.Box(svg.Area(640, 298, 174, 46), "box", "OVN's databases", "names and addresses")
	resolvers := d.Box(svg.Area(640, 356, 174, 46), "box", "your resolvers", "outside names")
	d.Arrow("", database.Left(.5), svg.At(puntdns.X+puntdns.W, database.Left(.5).Y))
	d.Arrow("", svg.At(forward.X+forward.W, resolvers.Left(.5).Y), resolvers.Left(.5))
	return d
}
