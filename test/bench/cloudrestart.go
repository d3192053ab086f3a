// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// nodeStarted is what one node tells of its start, in times from the start of its process on.
type nodeStarted struct {
	// Answer is when a record of each of its guests' networks was found, in ms, Sync when it was in
	// sync, and Read what it had read by then, in bytes.
	Answer, Sync float64
	Read         uint64
	// Resumed is set if the server has sent only what had changed.
	Resumed bool
}

// oneNodeProgram is one node of puntdns with a saved snapshot, as far as the databases know of it. It
// writes what it tells of its start, and ends as puntdns does when its input ends.
func oneNodeProgram(args []string) error {
	l, err := parseLayout(args[0])
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	nanos, err := strconv.ParseInt(args[4], 10, 64)
	if err != nil {
		return err
	}
	began := time.Unix(0, nanos)
	cfg := ovndb.Config{Southbound: []string{"unix:" + args[3]}, Monitor: ovndb.Local, WarmStart: ovndb.WarmStart{Folder: args[2], MaxAge: time.Hour}}
	s, err := ovndb.Open(cfg, "br-int")
	if err != nil {
		return err
	}
	var names []string
	var bindings []binding.InPort
	for _, p := range l.at[number] {
		names, bindings = append(names, cloudPort(p)), append(bindings, l.bindingOf(p))
	}
	s.SetLocal(cloudNode(number), names, time.Minute)
	if s.NeedsConfirmation() {
		s.Confirm(bindings)
	}
	var told nodeStarted
	since := func() float64 { return milliseconds(time.Since(began)) }
	for ; !l.answersAll(s.Snapshot(), number); time.Sleep(time.Millisecond) {
		if time.Since(began) > patienceOfCloud {
			return fmt.Errorf("node %d has no answers", number)
		}
	}
	told.Answer = since()
	for ; !s.Snapshot().Settled || !s.Status().Ready(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patienceOfCloud {
			return fmt.Errorf("node %d is not in sync", number)
		}
	}
	told.Sync = since()
	counts := s.Status()[0].Counts
	told.Read, told.Resumed = counts.BytesRead, counts.Contents == 0 && counts.Resumed > 0
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	s.Close()
	return nil
}

// bindingOf is what a flow of ovn-controller in the switch says of a port.
func (l *cloudLayout) bindingOf(p int) binding.InPort {
	first, err := hex.DecodeString(strings.SplitN(cloudUUID(kPort, p), "-", 2)[0])
	if err != nil {
		panic(err) // cloudUUID makes no other
	}
	return binding.InPort{
		Cookie: binary.BigEndian.Uint32(first), Datapath: uint32(l.switchOf(p) + 1), Port: uint32(p%cloudSwitchPorts + 1),
		Interface: cloudPort(p),
	}
}

// answersAll reports whether a snapshot has each guest of a node, and a record of its network.
func (l *cloudLayout) answersAll(s *ovn.Snapshot, number int) bool {
	for _, p := range l.at[number] {
		port := s.PortByName(cloudPort(p))
		if port == nil || !port.Local {
			return false
		}
		n := s.Network(port.Network)
		if n == nil {
			return false
		}
		if _, ok := n.Lookup(recordName(l.switchOf(p), p%cloudSwitchPorts)+".", ""); !ok {
			return false
		}
	}
	return true
}

// oneNode is the process of oneNodeProgram.
type oneNode struct {
	told nodeStarted
	cmd  *exec.Cmd
	in   io.Closer
}

// startNode starts a node of its own and returns when it is in sync.
func (c *cloud) startNode(s *cloudServer, number int, folder string) *oneNode {
	n := &oneNode{}
	var out io.Reader
	n.cmd, n.in, out = c.startProgram("cloudnode", c.size.argument(), strconv.Itoa(number), folder, s.socket, strconv.FormatInt(time.Now().UnixNano(), 10))
	c.b.t.Cleanup(func() { _ = n.cmd.Process.Kill() })
	if err := json.NewDecoder(out).Decode(&n.told); err != nil {
		c.b.t.Fatalf("node %d: %v", number, err)
	}
	return n
}

// stop has it save its snapshot and end.
func (n *oneNode) stop(c *cloud) {
	if err := n.in.Close(); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	if err := n.cmd.Wait(); err != nil {
		c.b.t.Fatalf("a node with a saved snapshot: %v", err)
	}
}

const (
	// restartRounds is how often the node is started again, in each situation.
	restartRounds = 5
	// restartDown is how long it is not there in churn: something changes meanwhile.
	restartDown = time.Second
)

// restart measures a node that starts with nothing, and again from its saved snapshot, while others
// are connected: while nothing changes, and in churn.
func (c *cloud) restart(s *cloudServer, ch *churn, n int) {
	folder := filepath.Join(c.lab.Dir, fmt.Sprintf("saved%d", n))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		c.b.t.Fatalf("%v", err)
	}
	number := c.layout.nodes / 2
	start := func(peer string) *oneNode {
		cpu, quiet := c.b.cpu(s.proc.Pid), peer != pWarmChurn
		node := c.startNode(s, number, folder)
		peer = c.peer("%s, among %d", peer, n)
		c.put(tCloudOneAnswer, peer, node.told.Answer)
		c.put(tCloudOneSync, peer, node.told.Sync)
		c.put(tCloudOneKB, peer, float64(node.told.Read)/1e3)
		if quiet {
			c.put(tCloudOneCPU, peer, milliseconds(c.b.cpu(s.proc.Pid)-cpu))
		}
		return node
	}
	node := start(pCold)
	again := func(peer string, down time.Duration) {
		for range restartRounds {
			node.stop(c)
			time.Sleep(down)
			node = start(peer)
			if !node.told.Resumed {
				c.b.say("%s: the server has sent all contents", peer)
			}
		}
	}
	again(pWarm, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ch.run(inBatches, c.b.cloudSpan)
	}()
	defer func() { <-done }()
	again(pWarmChurn, restartDown)
	<-done
	node.stop(c)
	ch.latencies()
	c.awaitIdle(s)
}

// argument is the size as an argument of a program, parseLayout the layout of one.
func (s cloudSize) argument() string {
	return fmt.Sprintf("[%d,%d,%d,%d]", s.nodes, s.flows, s.fewest, s.most)
}

func parseLayout(argument string) (*cloudLayout, error) {
	var size []int
	if err := json.Unmarshal([]byte(argument), &size); err != nil {
		return nil, err
	}
	return newCloudLayout(cloudSize{size[0], size[1], size[2], size[3]}), nil
}
