// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/puntdns/puntdns/test/svg"

// path is the path of a query through the switch and puntdns.
func path() *svg.Drawing {
	d := svg.New("The path of a query: port security and ACLs, an entry flow, the leased flow, the punt, puntdns. Without a lease, or resumed, the query goes on to OVN's own DNS and its destination.", 424)
	d.Rect(svg.Area(108, 16, 714, 246), "node", 6)
	d.Text(svg.At(120, 40), svg.Start, "dim", "Open vSwitch")
	guest := d.Box(svg.Area(12, 54, 78, 76), "blue", "guest")
	acls := d.Box(svg.Area(120, 54, 148, 76), "box", "OVN's pipeline", "port security,", "ACLs")
	entry := d.Box(svg.Area(292, 54, 180, 76), "main", "entry flow", "for each guest, address", "and protocol")
	leased := d.Box(svg.Area(496, 54, 148, 76), "main", "leased flow", "table 200")
	punt := d.Box(svg.Area(668, 54, 142, 76), "main", "punt", "table 202")
	d.Arrow("", guest.Right(.5), acls.Left(.5))
	d.Arrow("", acls.Right(.5), entry.Left(.5))
	d.Arrow("", entry.Right(.5), leased.Left(.5))
	d.Arrow("", leased.Right(.5), punt.Left(.5))
	d.Text(svg.At(382, 150), svg.Middle, "dim", "the stage before ls_in_dns_lookup")

	destination := d.Box(svg.Area(120, 190, 148, 56), "box", "destination")
	own := d.Box(svg.Area(292, 190, 180, 56), "box", "OVN's own DNS", "ls_in_dns_lookup")
	d.Arrow("", own.Left(.5), destination.Right(.5))
	d.Arrow("", leased.Bottom(.25), svg.At(leased.Bottom(.25).X, 208), svg.At(own.X+own.W, 208))
	d.Text(svg.At(leased.Bottom(.25).X+8, 172), svg.Start, "dim", "the lease has ended")

	reader := d.Box(svg.Area(496, 296, 314, 56), "main", "puntdns", "package ofpunt/punt")
	d.Box(svg.Area(496, 352, 314, 56), "inner", "CoreDNS's server blocks", "ovnhosts, cache, forward ...")
	d.Arrow("", punt.Bottom(.5), svg.At(punt.Bottom(.5).X, reader.Y))
	d.Text(svg.At(punt.Bottom(.5).X-8, 284), svg.End, "dim", "query: packet-in")
	d.Arrow("", svg.At(520, reader.Y), svg.At(520, 230), svg.At(own.X+own.W, 230))
	d.Text(svg.At(528, 234), svg.Start, "dim", "resume: packet-out")
	d.Arrow("", reader.Left(.5), svg.At(guest.Bottom(.5).X, reader.Left(.5).Y), guest.Bottom(.5))
	d.Text(svg.At(120, 316), svg.Start, "dim", "answer: packet-out, through the guest's port")
	return d
}

// pathWithoutOVN is what the switch does with a packet of a guest on a bridge without OVN.
func pathWithoutOVN() *svg.Drawing {
	d := svg.New("On a bridge without OVN, IPv4 and ARP for the resolver addresses go to the leased flow in table 200, IPv6 first to table 201, which knows the addresses. All else returns to the bridge's own table, and goes on.", 236)
	bridge := d.Box(svg.Area(16, 16, 176, 204), "box", "table of the bridge", "a packet that returns", "gets a bit of register", "15, and goes on")
	addresses := d.Box(svg.Area(436, 72, 132, 56), "main", "table 201", "our addresses")
	leased := d.Box(svg.Area(592, 72, 108, 56), "main", "table 200", "leased flow")
	punt := d.Box(svg.Area(724, 72, 90, 56), "main", "table 202", "punt")
	right := bridge.X + bridge.W
	d.Arrow("", svg.At(right, 44), svg.At(leased.Top(.5).X, 44), leased.Top(.5))
	d.Text(svg.At(right+10, 36), svg.Start, "dim", "IPv4, ARP for one of our addresses")
	d.Arrow("", svg.At(right, 100), addresses.Left(.5))
	d.Text(svg.At(right+10, 92), svg.Start, "dim", "IPv6 to the port, solicitations")
	d.Arrow("", addresses.Right(.5), leased.Left(.5))
	d.Arrow("", leased.Right(.5), punt.Left(.5))
	d.Arrow("", addresses.Bottom(.5), svg.At(addresses.Bottom(.5).X, 160), svg.At(right, 160))
	d.Text(svg.At(right+10, 152), svg.Start, "dim", "any other address")
	d.Arrow("", leased.Bottom(.5), svg.At(leased.Bottom(.5).X, 204), svg.At(right, 204))
	d.Text(svg.At(right+10, 196), svg.Start, "dim", "without a lease")
	return d
}
