// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// churn changes a database at a steady rate: ports, and once a second a record.
type churn struct {
	c *cloud
	d *database
	// nodes are those whose answers are waited for; nil for none.
	nodes *clients
	// controllers follow claims with their conditions; nil for none.
	controllers *clients
	// ports has the state of each port in turn, of those that are bound to no node.
	ports []churnPort
	next  int

	// claims counts all claims, away those by a node that has no other port of the tenant.
	claims, away int

	lastID  int
	changed map[int]time.Time // when it was committed, by the ID of what is expected
	records map[int]bool      // which of these are records
	// done counts the changes, transactions the commits.
	done, transactions int
	seed               uint32
}

// churnPort is a port that is claimed, altered, released, removed and made in turn.
type churnPort struct {
	port, step, generation, node int
}

// churnShape is how changes are cut into transactions.
type churnShape struct {
	name string
	// each is how many changes a transaction has.
	each int
}

var (
	// Batches are what ovn-northd writes while it has much to do, single changes what it and
	// each ovn-controller write while they have little.
	inBatches = churnShape{"10 transactions a second", 10}
	oneByOne  = churnShape{"100 transactions a second", 1}
)

const (
	changesASecond = 100
	// churnPorts is how many ports change in turn.
	churnPorts = 200
	// churnSteps is how many changes make a port what it was. With churnPorts times as many all
	// ports are: these are what ten seconds have, so that windows of that length are alike.
	churnSteps = 5
	// elsewhere is how many claims are by a node that has no other port of the tenant, one in
	// so many, and elsewhereStride how far one such node is from that before. It has no
	// divisor in common with the number of nodes, so that each has its turn.
	elsewhere       = 10
	elsewhereStride = 381
)

func (c *cloud) newChurn(s *cloudServer, nodes *clients) *churn {
	ch := &churn{c: c, d: c.b.openPatient("unix:" + s.socket), nodes: nodes}
	for i := range min(churnPorts, len(c.layout.free)) {
		// Ports of all tenants.
		ch.ports = append(ch.ports, churnPort{port: c.layout.free[i*len(c.layout.free)/churnPorts], step: 0})
	}
	ch.forget()
	ch.spread()
	return ch
}

// spread has ports in all states, so that each second of the churn has changes of all kinds.
func (ch *churn) spread() {
	for i := range ch.ports {
		var ops []map[string]any
		for range i % churnSteps {
			ch.next = i
			ops = append(ops, ch.change()...)
		}
		if len(ops) > 0 {
			ch.commit(ops...)
		}
	}
	ch.next = 0
	ch.forget()
}

// introduce tells clients that have just started of the ports that the churn has bound to their nodes.
func (ch *churn) introduce(to *clients) {
	for _, p := range ch.ports {
		if p.step == 1 || p.step == 2 {
			to.tell(order{Do: "plug", Node: p.node, Port: p.port, Name: cloudPort(p.port)})
		}
	}
}

// reopen connects once more, after all connections were cut.
func (ch *churn) reopen(s *cloudServer) {
	ch.d.close()
	ch.d = ch.c.b.openPatient("unix:" + s.socket)
}

func (ch *churn) forget() {
	ch.changed, ch.records = make(map[int]time.Time), make(map[int]bool)
	ch.done, ch.transactions = 0, 0
}

// random returns a number below n, the same in each run.
func (ch *churn) random(n int) int {
	ch.seed = ch.seed*1664525 + 1013904223
	return int(ch.seed>>8) % n
}

func byRow(op, table, id string) map[string]any {
	return map[string]any{"op": op, "table": table, "where": []any{[]any{"_uuid", "==", []string{"uuid", id}}}}
}

func updateRow(table, id string, row map[string]any) map[string]any {
	op := byRow("update", table, id)
	op["row"] = row
	return op
}

// row is the row of a port, whose UUID is another one each time it is made.
func (ch *churn) row(p *churnPort) string {
	return cloudUUID(kPort, p.port+p.generation*ch.c.layout.ports)
}

func (ch *churn) flow(p *churnPort, k int) string {
	return cloudUUID(kFlow, (p.port+p.generation*ch.c.layout.ports)*ch.c.layout.flows+k)
}

// change returns the operations of the next change of a port.
func (ch *churn) change() (ops []map[string]any) {
	l := ch.c.layout
	p := &ch.ports[ch.next%len(ch.ports)]
	ch.next++
	ch.done++
	none := []any{"set", []any{}}
	switch p.step {
	case 0: // ovn-controller claims it
		nodes := l.nodesOfTenant(l.tenantOf(l.switchOf(p.port)))
		p.node = nodes[ch.random(len(nodes))]
		if ch.claims++; ch.claims%elsewhere == 0 {
			ch.away++
			p.node = ch.away * elsewhereStride % l.nodes
		}
		ch.expectGuest(p)
		ops = append(ops, updateRow("Port_Binding", ch.row(p), map[string]any{"chassis": ref(kChassis, p.node), "encap": ref(kEncap, p.node), "up": true}))
	case 1: // ovn-northd alters it
		row := l.portRow(p.port)
		row["external_ids"] = ovsMap([2]string{"neutron:device_owner", "compute:nova"}, [2]string{"neutron:revision_number", fmt.Sprint(ch.done)})
		ops = append(ops, updateRow("Port_Binding", ch.row(p), map[string]any{"external_ids": row["external_ids"]}))
	case 2: // ovn-controller releases it
		ch.tell(order{Do: "unplug", Node: p.node, Port: p.port, Name: cloudPort(p.port)})
		ops = append(ops, updateRow("Port_Binding", ch.row(p), map[string]any{"chassis": none, "encap": none, "up": false}))
	case 3: // ovn-northd removes it
		ops = append(ops, byRow("delete", "Port_Binding", ch.row(p)))
		for k := range l.flows {
			ops = append(ops, byRow("delete", "Logical_Flow", ch.flow(p, k)))
		}
	case 4: // ovn-northd makes it
		p.generation++
		op := insert("Port_Binding", "", l.portRow(p.port))
		op["uuid"] = ch.row(p)
		ops = append(ops, op)
		for k, row := range l.flowRows(p.port) {
			op := insert("Logical_Flow", "", row)
			op["uuid"] = ch.flow(p, k)
			ops = append(ops, op)
		}
		flood := byRow("mutate", "Multicast_Group", cloudUUID(kFlood, l.switchOf(p.port)))
		flood["mutations"] = []any{[]any{"ports", "insert", []string{"uuid", ch.row(p)}}}
		ops = append(ops, flood)
	}
	p.step = (p.step + 1) % churnSteps
	return ops
}

// clients returns those that follow the churn.
func (ch *churn) clients() (all []*clients) {
	for _, of := range []*clients{ch.nodes, ch.controllers} {
		if of != nil {
			all = append(all, of)
		}
	}
	return all
}

// tell gives an order to all clients.
func (ch *churn) tell(o order) {
	for _, to := range ch.clients() {
		to.tell(o)
	}
}

func (ch *churn) expectGuest(p *churnPort) {
	ch.tell(order{Do: "plug", Node: p.node, Port: p.port, Name: cloudPort(p.port)})
	if ch.nodes == nil {
		return
	}
	ch.lastID++
	ch.changed[ch.lastID] = time.Time{}
	ch.nodes.tell(order{Do: "expect guest", ID: ch.lastID, Node: p.node, Name: cloudPort(p.port)})
}

// record changes a record.
func (ch *churn) record() {
	sw := ch.random(ch.c.layout.switches)
	name, address := recordName(sw, ch.random(cloudSwitchPorts)), fmt.Sprintf("192.0.%d.%d", ch.lastID>>8&255, ch.lastID&255)
	ch.lastID++
	if ch.nodes != nil {
		ch.nodes.tell(order{Do: "expect record", ID: ch.lastID, Switch: sw, Name: name + ".", Address: address})
	}
	ch.changed[ch.lastID], ch.records[ch.lastID] = time.Time{}, true
	ch.commit(byRowMutate("DNS", cloudUUID(kDNS, sw), name, address))
}

func byRowMutate(table, id, name, address string) map[string]any {
	op := byRow("mutate", table, id)
	op["mutations"] = []any{
		[]any{"records", "delete", []any{"set", []string{name}}},
		[]any{"records", "insert", ovsMap([2]string{name, address})},
	}
	return op
}

// commit commits, and notes when what is expected since the last time was.
func (ch *churn) commit(ops ...map[string]any) {
	ch.d.transact(ops...)
	ch.transactions++
	now := time.Now()
	for id, at := range ch.changed {
		if at.IsZero() {
			ch.changed[id] = now
		}
	}
}

// run makes the changes of ports and records of a while, and returns how many of ports there were and
// how many it made a second: fewer than asked for if the server does not keep up.
func (ch *churn) run(shape churnShape, length time.Duration) (changes int, perSecond float64) {
	began := time.Now()
	ch.forget()
	changes = max(1, int(length.Seconds()*changesASecond))
	for records := 0; ch.done < changes; {
		var ops []map[string]any
		for range shape.each {
			ops = append(ops, ch.change()...)
		}
		ch.commit(ops...)
		if ch.done/changesASecond >= records {
			records++
			ch.record()
		}
		due := began.Add(time.Duration(ch.done) * time.Second / changesASecond)
		time.Sleep(time.Until(due))
	}
	return ch.done, float64(ch.done) / time.Since(began).Seconds()
}

// latencies returns how long what was expected took to be in the snapshots from its commit on, in ms:
// of records, and of guests.
func (ch *churn) latencies() (records, guests []float64, missing int) {
	a := ch.nodes.ask("collect")
	for id, times := range a.Shown {
		for _, at := range times {
			ms := max(0, float64(at-ch.changed[id].UnixNano())/1e6)
			if ch.records[id] {
				records = append(records, ms)
			} else {
				guests = append(guests, ms)
			}
		}
	}
	return records, guests, a.Missing
}
