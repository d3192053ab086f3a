// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

const (
	// changeRate is how many records change in a second, each in a transaction of its
	// own.
	changeRate = 200
	// guestRecords is how many records each DNS row of guestChanges has.
	guestRecords = 100
	// networkGuests is how many guests of a node a network has at most. ovn-controller
	// may take half a minute for the flows of a network with 1,000 of them.
	networkGuests = 100
	// otherNetwork is a network that has one guest on each node.
	otherNetwork = "other"
)

// guestChanges measures the memory of puntdns on a node with few guests and on one with many, and
// what changed records cost there: records of a network that many of them are in, and of one that
// a single guest of the node is in.
func (b *bench) guestChanges() {
	l := lab.New(b.t, lab.Options{Nodes: len(b.guests)})
	l.AddSwitch(otherNetwork)
	for i, guests := range b.guests {
		addPorts(l, i, guests)
	}
	l.Sync()
	// northd would undo what others write into Southbound, and looks at all ports for
	// each change in Northbound.
	l.Kill("ovn-northd")
	sb := b.open(l.SB, "OVN_Southbound")
	defer sb.close()
	other := sb.addDNS(l, otherNetwork)
	var own []any
	for i := range b.guests {
		own = append(own, sb.addDNS(l, networkOf(i, 1)))
	}
	for range b.rounds {
		for i, guests := range b.guests {
			name := guestsName(guests)
			start := func() *lab.Process { return b.serveGuests(l, l.Nodes[i], guests) }
			b.with(peer{name: name, start: start}, func(p *lab.Process) {
				b.report.table(tGuestsRSS).put(name, b.memory(p.Pid, "VmRSS"))
				for _, changed := range []struct {
					table string
					row   any
				}{{tChangesOwn, own[i]}, {tChangesOther, other}} {
					cost := b.changeCost(sb, changed.row, p)
					b.report.table(changed.table).put(name, cost)
					b.say("%s, %s: %.1f", changed.table, name, cost)
				}
			})
		}
	}
}

// guestsName is the name of a node with so many guests in the report.
func guestsName(guests int) string { return fmt.Sprintf("%d guests", guests) }

// addPorts gives a node its guests. Nothing runs behind their interfaces: a patch port
// without a peer is one for OVN, and needs no device.
func addPorts(l *lab.Lab, node, guests int) {
	var nb, vs []string
	for i := range guests {
		sw, port, device := networkOf(node, i), fmt.Sprintf("vm%d-%d", node, i), fmt.Sprintf("patch%d", i)
		nb = append(nb, "--", "--may-exist", "ls-add", sw, "--", "lsp-add", sw, port,
			"--", "lsp-set-addresses", port, fmt.Sprintf("02:00:00:%02x:%02x:%02x 10.%d.%d.%d", node, i>>8, i&255, node, i>>8, i&255))
		vs = append(vs, "--", "add-port", lab.Bridge, device,
			"--", "set", "Interface", device, "type=patch", "options:peer=none", "external_ids:iface-id="+port)
	}
	l.NBCTL(nb[1:]...)
	l.Nodes[node].VSCTL(vs[1:]...)
}

// networkOf is the network of a guest by the numbers of node and guest, both from 0.
func networkOf(node, guest int) string {
	if guest == 0 {
		return otherNetwork
	}
	return fmt.Sprintf("net%d-%d", node, guest/networkGuests)
}

// serveGuests starts puntdns on a node and waits until it serves all guests.
func (b *bench) serveGuests(l *lab.Lab, n *lab.Node, guests int) *lab.Process {
	p := b.serve(n.Host, "flows are in place", b.puntdns, "-conf", l.WriteFile("Corefile", fmt.Sprintf(`. {
    ofpunt br-int {
        openflow %s
        ovsdb %s
    }
    errors
    prometheus 127.0.0.1:9153
    ovnhosts {
        southbound %s
    }
}
`, n.OpenFlow, n.OVSDB, l.SB)))
	l.Eventually("guests", func() error {
		if got := b.metric(n, "coredns_ofpunt_guests"); got != float64(guests) {
			return fmt.Errorf("%v guests, expected %d", got, guests)
		}
		return nil
	})
	return p
}

// changeCost changes records of a DNS row at changeRate and returns what that costs a
// process, in ms of processor time a second.
func (b *bench) changeCost(d *database, row any, p *lab.Process) float64 {
	n := int(b.changeSpan.Seconds() * changeRate)
	before, began := b.cpu(p.Pid), time.Now()
	for i := range n {
		// One that is late does not put off those behind it.
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / changeRate)))
		d.changeRecord([]any{"_uuid", "==", row}, recordName(0, i%guestRecords), fmt.Sprintf("192.0.%d.%d", i>>8&255, i&255))
	}
	took := time.Since(began)
	if took > b.changeSpan*11/10 {
		b.say("%d records took %s to change", n, took)
	}
	return milliseconds(b.cpu(p.Pid)-before) / took.Seconds()
}
