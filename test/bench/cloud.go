// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// cloud measures what many nodes cost the Southbound server, on each version of Open vSwitch
// that there is.
type cloud struct {
	b       *bench
	lab     *lab.Lab
	version *openvswitch
	size    cloudSize
	layout  *cloudLayout
	// database is the file of a server of a cluster by itself, which servers get copies of.
	database string
}

func (b *bench) cloud() {
	for _, root := range b.roots() {
		c := &cloud{b: b, lab: lab.New(b.t, lab.Options{Plain: true}), version: &openvswitch{root: root}, size: b.cloudSize}
		c.layout = newCloudLayout(c.size)
		words := strings.Fields(c.tool("sbin", "ovsdb-server", "--version"))
		c.version.version = strings.NewReplacer("(", "", ")", "").Replace(strings.Join(words[1:4], " "))
		c.build()
		for _, part := range []struct {
			name string
			run  func()
		}{{"requests", c.requests}, {"bars", c.barsOfServer}, {"server", c.oneServer}, {"migrations", c.migrations}, {"relays", c.relays}, {"cluster", c.cluster}} {
			if b.parts[part.name] {
				part.run()
			}
		}
		b.t.End()
	}
}

// roots returns where the versions of Open vSwitch are: installed, and in the other root if that is
// asked for.
func (b *bench) roots() []string {
	if !b.parts["newest"] {
		return []string{""}
	}
	root, err := b.makeRoot()
	if err != nil {
		b.t.Fatalf("bench: %v", err)
	}
	return []string{"", root}
}

// peer names a situation. That of another release has its name at the end.
func (c *cloud) peer(format string, args ...any) string {
	name := fmt.Sprintf(format, args...)
	if c.version.root != "" {
		name += ", " + c.version.version
	}
	return name
}

func (c *cloud) put(table, peer string, v float64) {
	c.b.report.table(table).put(peer, v)
	c.b.say("%s, %s: %s", table, peer, figure(v))
}

// fewestSamples is how many values a quantile is of at least: fewer say nothing about others.
const fewestSamples = 5

// putQuantile puts a quantile, unless there are too few values: few clients may have little to do with
// what has changed.
func (c *cloud) putQuantile(table, peer string, values []float64, q float64) {
	if len(values) < fewestSamples {
		c.b.say("%s, %s: left out, samples: %d", table, peer, len(values))
		return
	}
	c.put(table, peer, quantileOf(values, q))
}

// putQuantiles puts the median and the 99th percentile.
func (c *cloud) putQuantiles(table, table99, peer string, values []float64) {
	c.putQuantile(table, peer, values, .5)
	c.putQuantile(table99, peer, values, .99)
}

// build makes the database.
func (c *cloud) build() {
	began := time.Now()
	schema, err := os.ReadFile(c.version.schema())
	if err != nil {
		c.b.t.Fatalf("%v", err)
	}
	alone := filepath.Join(c.lab.Dir, "cloud.alone")
	if err := writeCloud(alone, schema, c.layout); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	c.database = filepath.Join(c.lab.Dir, "cloud.db")
	c.tool("bin", "ovsdb-tool", "create-cluster", c.database, alone, "unix:"+filepath.Join(c.lab.Dir, "m1.raft"))
	_ = os.Remove(alone)
	bound := c.layout.ports - len(c.layout.free)
	c.b.say("%s: %d nodes, %d switches, %d ports of which %d are bound, %d logical flows; written in %.0f s", c.version.version,
		c.size.nodes, c.layout.switches, c.layout.ports, bound, c.layout.ports*c.size.flows+cloudGroupFlows, time.Since(began).Seconds())
}

// copyOf is a copy of the database.
func (c *cloud) copyOf(name string) string {
	path := filepath.Join(c.lab.Dir, name+".db")
	_ = os.Remove(path)
	if err := copyFile(c.database, path); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	return path
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// steady has a database change for a while and puts what that costs a server. What counts is all
// that it does until its clients know these changes, whether it keeps up or not: the figures are for as
// many changes as a second of the churn has.
func (c *cloud) steady(s *cloudServer, ch *churn, peer string, shape churnShape) {
	peer = c.peer("%s, %s", peer, shape.name)
	var before, changed int64
	var nodesCPU time.Duration
	for _, of := range ch.clients() {
		changed -= of.ask("changes").Changes
	}
	c.awaitIdle(s)
	if ch.nodes != nil {
		before, nodesCPU = c.b.bytesRead(ch.nodes.pid), c.b.cpu(ch.nodes.pid)
	}
	cpu, p := c.b.cpu(s.proc.Pid), s.probe()
	changes, rate := ch.run(shape, c.b.cloudSpan)
	// A server sends a transaction to all before it takes the next one. What is left are conditions
	// that follow a claim.
	for _, of := range ch.clients() {
		of.ask("caught up")
	}
	seconds := float64(changes) / changesASecond
	c.put(tCloudCPU, peer, milliseconds(c.b.cpu(s.proc.Pid)-cpu)/seconds)
	c.put(tCloudProbe, peer, milliseconds(p.end()))
	c.put(tCloudRate, peer, rate)
	for _, of := range ch.clients() {
		changed += of.ask("changes").Changes
	}
	c.put(tCloudChanges, peer, float64(changed)/seconds)
	if ch.nodes == nil {
		return
	}
	c.put(tCloudNodeCPU, peer, milliseconds(c.b.cpu(ch.nodes.pid)-nodesCPU)/seconds/float64(ch.nodes.count))
	c.put(tCloudBytes, peer, float64(c.b.bytesRead(ch.nodes.pid)-before)/seconds/float64(ch.nodes.count))
	records, guests, missing := ch.latencies()
	if missing > 0 {
		c.b.say("%s: %d changes had not come after %s", peer, missing, patienceOfChange)
	}
	c.putQuantiles(tCloudRecord, tCloudRecord99, peer, records)
	c.putQuantiles(tCloudGuest, tCloudGuest99, peer, guests)
}

// idle puts what clients cost a server while nothing changes, some time after it has.
func (c *cloud) idle(s *cloudServer, peer string) {
	c.awaitIdle(s)
	cpu, began := c.b.cpu(s.proc.Pid), time.Now()
	time.Sleep(c.b.cloudSpan / 2)
	c.put(tCloudIdle, c.peer("%s", peer), milliseconds(c.b.cpu(s.proc.Pid)-cpu)/time.Since(began).Seconds())
}

// ratios puts what n nodes cost a server beside what as many ovn-controller do.
func (c *cloud) ratios(n int) {
	t := c.b.report.measured(tCloudCPU)
	for _, shape := range []churnShape{inBatches, oneByOne} {
		of := func(peer string) (float64, bool) {
			peer = c.peer("%s, %s", peer, shape.name)
			return t.median(peer), len(t.values[peer]) > 0
		}
		nobody, measured := of("nobody")
		alone, ok := of(fmt.Sprintf("%d ovn-controller", n))
		if !ok || !measured {
			continue
		}
		for _, clients := range []string{fmt.Sprintf("%d puntdns", n), fmt.Sprintf("%d puntdns and %d ovn-controller", n, n)} {
			if v, ok := of(clients); ok {
				c.put(tCloudRatio, c.peer("%s, %s", clients, shape.name), v/alone)
				c.put(tCloudRatioLess, c.peer("%s, %s", clients, shape.name), (v-nobody)/(alone-nobody))
			}
		}
	}
}

// bytesRead is what a process has read, from its connections above all.
func (b *bench) bytesRead(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			if err != nil {
				b.t.Fatalf("%v", err)
			}
			return n
		}
	}
	b.t.Fatalf("no rchar of process %d", pid)
	return 0
}

// oneServer measures a server that all clients are connected to.
func (c *cloud) oneServer() {
	c.serve("alone", func(s *cloudServer, ch *churn, n int) {
		last := n == slices.Max(c.b.cloudNodes)
		shapes := []churnShape{inBatches}
		if last {
			shapes = append(shapes, oneByOne)
		}
		c.clientsOf(s, ch, n, shapes, func() {
			if last {
				c.restart(s, ch, n)
				c.migrate(s, ch)
				c.cutOff(s, ch.nodes, fmt.Sprintf("%d puntdns", n))
				ch.reopen(s)
			}
		})
		if last {
			c.coldControllers(s)
		}
	})
}

// barsOfServer measures of it what the bars need.
func (c *cloud) barsOfServer() {
	c.serve("bars", func(s *cloudServer, ch *churn, n int) {
		c.clientsOf(s, ch, n, []churnShape{inBatches, oneByOne}, func() {
			c.restart(s, ch, n)
			c.cutOff(s, ch.nodes, fmt.Sprintf("%d puntdns", n))
			ch.reopen(s)
		})
	})
}

// serve starts a server and measures it with nobody, and with each number of nodes.
func (c *cloud) serve(name string, with func(s *cloudServer, ch *churn, n int)) {
	s := c.startServer(name, c.copyOf(name))
	defer s.stop()
	c.put(tCloudRSS, c.peer("nobody"), c.b.memory(s.proc.Pid, "VmRSS"))
	c.awaitIdle(s)
	c.firstTransactions(s, "nobody")
	ch := c.newChurn(s, nil)
	c.steady(s, ch, "nobody", inBatches)
	c.steady(s, ch, "nobody", oneByOne)
	for _, n := range c.b.cloudNodes {
		with(s, ch, n)
		c.ratios(n)
		c.put(tCloudRSS, c.peer("%d puntdns, and %d ovn-controller", n, n), c.b.memory(s.proc.Pid, "VmRSS"))
	}
}

// clientsOf measures a server with n nodes of puntdns, with as many ovn-controller beside them, and with
// these alone. With the nodes alone it measures more, too.
func (c *cloud) clientsOf(s *cloudServer, ch *churn, n int, shapes []churnShape, more func()) {
	steady := func(peer string) {
		c.idle(s, peer)
		for _, shape := range shapes {
			c.steady(s, ch, peer, shape)
		}
	}
	ch.nodes = c.connect(s, n, fmt.Sprintf("%d puntdns", n))
	ch.introduce(ch.nodes)
	steady(fmt.Sprintf("%d puntdns", n))
	more()
	ch.controllers = c.connectControllers(s, n, "warm")
	ch.introduce(ch.controllers)
	steady(fmt.Sprintf("%d puntdns and %d ovn-controller", n, n))
	ch.nodes.end()
	ch.nodes = nil
	steady(fmt.Sprintf("%d ovn-controller", n))
	ch.controllers.end()
	ch.controllers = nil
}

// connectControllers starts clients shaped like ovn-controller: warm ones were connected until now.
func (c *cloud) connectControllers(s *cloudServer, n int, how string) *clients {
	controllers := c.startClients("cloudcontrollers", n, strconv.Itoa(int(c.b.cloudController)), how, s.socket)
	a := controllers.ask("settle")
	if how == "cold" {
		c.put(tCloudStart, c.peer("%d ovn-controller", n), slices.Max(a.Seconds))
	}
	return controllers
}

// connect starts nodes and returns when they are in sync.
func (c *cloud) connect(s *cloudServer, n int, peer string) *clients {
	cpu, p := c.b.cpu(s.proc.Pid), s.probe()
	s.longestPoll()
	before := c.b.memory(s.proc.Pid, "VmRSS")
	nodes := c.startClients("cloudnodes", n, s.socket)
	a := nodes.ask("settle")
	peer = c.peer("%s", peer)
	c.put(tCloudStart, peer, slices.Max(a.Seconds))
	c.put(tCloudStartCPU, peer, milliseconds(c.b.cpu(s.proc.Pid)-cpu)/float64(n))
	c.put(tCloudStartProbe, peer, milliseconds(p.end()))
	c.put(tCloudStartKB, peer, float64(c.b.bytesRead(nodes.pid))/1e3/float64(n))
	c.put(tCloudRSSEach, peer, (c.b.memory(s.proc.Pid, "VmRSS")-before)*1e3/float64(n))
	nodes.ask("collected garbage")
	c.put(tCloudNodeMB, peer, c.b.memory(nodes.pid, "VmRSS")/float64(n))
	if a.Missing > 0 {
		c.b.t.Fatalf("%d of %d nodes are not in sync", a.Missing, n)
	}
	return nodes
}

// coldControllers measures what a client shaped like ovn-controller costs that has nothing yet.
func (c *cloud) coldControllers(s *cloudServer) {
	n := c.b.cloudCold
	cpu := c.b.cpu(s.proc.Pid)
	controllers := c.connectControllers(s, n, "cold")
	defer controllers.end()
	peer := c.peer("%d ovn-controller", n)
	c.put(tCloudStartCPU, peer, milliseconds(c.b.cpu(s.proc.Pid)-cpu)/float64(n))
	c.put(tCloudStartKB, peer, float64(c.b.bytesRead(controllers.pid))/1e3/float64(n))
}

// migrate has a port of each node that there is a client for go to another one, at once and in a
// second.
func (c *cloud) migrate(s *cloudServer, ch *churn) {
	l := c.layout
	chosen := l.chosen(ch.nodes.count)
	for k, shape := range []string{"in one transaction", "in as many transactions"} {
		ch.forget()
		var ops []map[string]any
		first := ch.lastID
		for i, from := range chosen {
			to := chosen[(i+len(chosen)/2)%len(chosen)]
			if len(l.at[from]) <= k {
				continue
			}
			port := l.at[from][k]
			ch.lastID++
			ch.changed[ch.lastID] = time.Time{}
			ch.nodes.tell(order{Do: "plug", Node: to, Name: cloudPort(port)})
			ch.nodes.tell(order{Do: "expect guest", ID: ch.lastID, Node: to, Name: cloudPort(port)})
			ops = append(ops, updateRow("Port_Binding", cloudUUID(kPort, port), map[string]any{
				"requested_chassis": ref(kChassis, from), "requested_additional_chassis": ref(kChassis, to), "additional_chassis": ref(kChassis, to),
			}))
		}
		peer := c.peer("%d, %s", len(ops), shape)
		cpu, p := c.b.cpu(s.proc.Pid), s.probe()
		began := time.Now()
		if k == 0 {
			ch.commit(ops...)
		} else {
			for i, op := range ops {
				time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(len(ops)))))
				ch.d.transact(op)
				ch.changed[first+i+1] = time.Now()
			}
		}
		_, guests, missing := ch.latencies()
		if missing > 0 {
			c.b.say("%s: %d were not known after %s", peer, missing, patienceOfChange)
		}
		c.putQuantiles(tCloudMove, tCloudMove99, peer, guests)
		c.put(tCloudMoveCPU, peer, milliseconds(c.b.cpu(s.proc.Pid)-cpu)/float64(len(ops)))
		c.put(tCloudMoveProbe, peer, milliseconds(p.end()))
	}
}

// migrations measures guests that migrate at once, without all else.
func (c *cloud) migrations() {
	s := c.startServer("migrations", c.copyOf("migrations"))
	defer s.stop()
	ch := c.newChurn(s, nil)
	for _, n := range c.b.cloudNodes {
		ch.nodes = c.connect(s, n, fmt.Sprintf("%d puntdns", n))
		ch.introduce(ch.nodes)
		c.migrate(s, ch)
		ch.nodes.end()
		ch.nodes = nil
	}
}

// cutOff has a server end all connections at once.
func (c *cloud) cutOff(s *cloudServer, nodes *clients, peer string) {
	nodes.ask("mark")
	cpu, before := c.b.cpu(s.proc.Pid), c.b.bytesRead(nodes.pid)
	c.appctl(s, "ovsdb-server/reconnect")
	p := s.probe()
	a := nodes.ask("back")
	peer = c.peer("%s, connections cut", peer)
	c.back(peer, a, nodes)
	c.put(tCloudBackCPU, peer, milliseconds(c.b.cpu(s.proc.Pid)-cpu)/float64(nodes.count))
	c.put(tCloudBackKB, peer, float64(c.b.bytesRead(nodes.pid)-before)/1e3/float64(nodes.count))
	c.put(tCloudBackProbe, peer, milliseconds(p.end()))
}

func (c *cloud) back(peer string, a answer, nodes *clients) {
	c.putQuantile(tCloudBack, peer, a.Seconds, .5)
	c.put(tCloudBackLast, peer, slices.Max(a.Seconds))
	c.put(tCloudKept, peer, 100*float64(nodes.count-a.Lost)/float64(nodes.count))
}

// relays measures a server whose clients are connected to two relays.
func (c *cloud) relays() {
	s := c.startServer("main", c.copyOf("main"))
	defer s.stop()
	var sockets []string
	all := []*cloudServer{s}
	for _, name := range []string{"relay1", "relay2"} {
		r := c.startServer(name, "relay:OVN_Southbound:unix:"+s.socket)
		defer r.stop()
		sockets, all = append(sockets, r.socket), append(all, r)
	}
	c.awaitIdle(all...)
	c.firstTransactions(s, "two relays")
	ch := c.newChurn(s, nil)
	c.steady(s, ch, "two relays, nobody", inBatches)
	for _, n := range c.b.cloudNodes {
		cpu := c.b.cpu(s.proc.Pid)
		nodes := c.startClients("cloudnodes", n, sockets...)
		a := nodes.ask("settle")
		c.awaitIdle(all...)
		peer := fmt.Sprintf("%d puntdns at two relays", n)
		c.put(tCloudStart, c.peer("%s", peer), slices.Max(a.Seconds))
		c.put(tCloudStartCPU, c.peer("%s", peer), milliseconds(c.b.cpu(s.proc.Pid)-cpu)/float64(n))
		ch.nodes = nodes
		ch.introduce(nodes)
		c.steady(s, ch, peer, inBatches)
		ch.nodes = nil
		nodes.end()
	}
}

// firstTransactions measures what the first transactions after its start cost a server.
func (c *cloud) firstTransactions(s *cloudServer, peer string) {
	d := c.b.openPatient("unix:" + s.socket)
	defer d.close()
	for _, which := range []string{"the first", "the second", "the third"} {
		cpu := c.b.cpu(s.proc.Pid)
		d.transact(byRowMutate("DNS", cloudUUID(kDNS, 0), recordName(0, 0), "192.0.2.1"))
		c.awaitIdle(s)
		c.put(tCloudFirst, c.peer("%s, %s", peer, which), milliseconds(c.b.cpu(s.proc.Pid)-cpu))
	}
}

// cluster measures three servers whose leader is killed.
func (c *cloud) cluster() {
	var servers []*cloudServer
	for i := range 3 {
		name := fmt.Sprintf("m%d", i+1)
		path := filepath.Join(c.lab.Dir, name+".db")
		if i == 0 {
			path = c.copyOf(name)
		} else {
			raft := func(i int) string { return "unix:" + filepath.Join(c.lab.Dir, fmt.Sprintf("m%d.raft", i+1)) }
			_ = os.Remove(path)
			c.tool("bin", "ovsdb-tool", "join-cluster", path, "OVN_Southbound", raft(i), raft(0))
		}
		servers = append(servers, c.startServer(name, path))
		defer servers[i].stop()
	}
	n := slices.Max(c.b.cloudNodes)
	peer := c.peer("%d puntdns, leader of three killed", n)
	nodes := c.startClients("cloudnodes", n, servers[0].socket, servers[1].socket, servers[2].socket)
	defer nodes.end()
	a := nodes.ask("settle")
	c.put(tCloudStart, c.peer("%d puntdns at three servers", n), slices.Max(a.Seconds))
	leader := slices.IndexFunc(servers, func(s *cloudServer) bool {
		return strings.Contains(c.appctl(s, "cluster/status", "OVN_Southbound"), "Role: leader")
	})
	nodes.ask("mark")
	servers[leader].stop()
	a = nodes.ask("ready")
	c.back(peer, a, nodes)
}
