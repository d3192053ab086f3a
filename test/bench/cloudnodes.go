// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// simulatedNode is a node of puntdns as far as the databases know of it: a Source that is told
// of its chassis and its interfaces.
type simulatedNode struct {
	number int
	source *ovndb.Reader
	kick   chan struct{} // another expectation

	mu       sync.Mutex // guards all below
	ports    []string   // that have an interface here
	guests   int        // as few as any snapshot is to have
	lost     bool
	expected []expectation
	shown    map[int]time.Time
}

// expectation is something that is to be in a snapshot: a record, or a guest.
type expectation struct {
	id      int
	network origin.Network
	name    string
	address netip.Addr // not valid for a guest
}

func (x *expectation) isIn(s *ovn.Snapshot) bool {
	if !x.address.IsValid() {
		p := s.PortByName(x.name)
		return p != nil && p.Local
	}
	n := s.Network(x.network)
	if n == nil {
		return false
	}
	a, ok := n.Lookup(x.name, "")
	return ok && slices.Contains(a.V4, x.address)
}

// watch looks at each snapshot.
func (n *simulatedNode) watch() {
	for {
		changed := n.source.Changed()
		n.look(n.source.Snapshot())
		select {
		case <-changed:
		case <-n.kick:
		}
	}
}

func (n *simulatedNode) look(s *ovn.Snapshot) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.guests > 0 {
		count := 0
		for range s.Guests() {
			count++
		}
		n.lost = n.lost || count < n.guests
	}
	n.expected = slices.DeleteFunc(n.expected, func(x expectation) bool {
		if !x.isIn(s) {
			return false
		}
		n.shown[x.id] = now
		return true
	})
}

func (n *simulatedNode) expect(x expectation) {
	n.mu.Lock()
	n.expected = append(n.expected, x)
	n.mu.Unlock()
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

func (n *simulatedNode) setPorts(edit func([]string) []string) {
	n.mu.Lock()
	n.ports = edit(n.ports)
	ports := slices.Clone(n.ports)
	n.mu.Unlock()
	n.source.SetLocal(cloudNode(n.number), ports, time.Minute)
}

// simulatedNodes are those of one program.
type simulatedNodes struct {
	byNumber map[int]*simulatedNode
	began    time.Time
}

// nodesProgram is the program of many nodes of puntdns.
func nodesProgram(args []string) error {
	return serveOrders(args, func(l *cloudLayout, numbers []int, dir string, sockets []string) (func(order) *answer, error) {
		all := &simulatedNodes{byNumber: make(map[int]*simulatedNode), began: time.Now()}
		links, err := os.MkdirTemp(dir, "n")
		if err != nil {
			return nil, err
		}
		for i, number := range numbers {
			cfg := ovndb.Config{Monitor: ovndb.Local}
			for k := range sockets {
				// Nodes with the same endpoints would share one Source.
				link := filepath.Join(links, fmt.Sprintf("%d.%d", number, k))
				if err := os.Symlink(sockets[(i+k)%len(sockets)], link); err != nil {
					return nil, err
				}
				cfg.Southbound = append(cfg.Southbound, "unix:"+link)
			}
			n := &simulatedNode{number: number, kick: make(chan struct{}, 1), shown: make(map[int]time.Time)}
			if n.source, err = ovndb.Open(cfg, "br-int"); err != nil {
				return nil, err
			}
			n.setPorts(func(ports []string) []string {
				for _, p := range l.at[number] {
					ports = append(ports, cloudPort(p))
				}
				return ports
			})
			all.byNumber[number] = n
			go n.watch()
		}
		return all.do, nil
	})
}

func (s *simulatedNodes) do(o order) *answer {
	switch o.Do {
	case "plug":
		if n := s.byNumber[o.Node]; n != nil {
			n.setPorts(func(p []string) []string { return append(p, o.Name) })
		}
	case "unplug":
		if n := s.byNumber[o.Node]; n != nil {
			n.setPorts(func(p []string) []string {
				return slices.DeleteFunc(p, func(name string) bool { return name == o.Name })
			})
		}
	case "expect guest":
		if n := s.byNumber[o.Node]; n != nil {
			n.expect(expectation{id: o.ID, name: o.Name})
		}
	case "expect record":
		id, err := ovsdb.ParseUUID(cloudNetwork(o.Switch))
		if err != nil {
			panic(err) // the layout makes no other
		}
		x := expectation{o.ID, origin.Network(id), o.Name, netip.MustParseAddr(o.Address)}
		for _, n := range s.byNumber {
			if n.source.Snapshot().Network(x.network) != nil {
				n.expect(x)
			}
		}
	case "collect":
		return s.collect()
	case "collected garbage":
		debug.FreeOSMemory()
		return &answer{}
	case "caught up":
		s.caughtUp()
		return &answer{}
	case "changes":
		a := &answer{}
		for _, n := range s.byNumber {
			a.Changes += int64(n.source.Status()[0].Counts.ConditionChanges)
		}
		return a
	case "settle":
		return s.await(s.began, func(n *simulatedNode) bool { return n.source.Snapshot().Settled && n.source.Status().Ready() })
	case "mark":
		s.mark()
		return &answer{}
	case "back", "ready":
		began := s.began
		if o.Do == "ready" {
			// Who was connected to another server is there already.
			time.Sleep(time.Second)
		}
		a := s.await(began, func(n *simulatedNode) bool {
			st := n.source.Status()
			return st.Ready() && (o.Do == "ready" || st[0].Since.After(began))
		})
		for _, n := range s.byNumber {
			n.mu.Lock()
			if n.lost {
				a.Lost++
			}
			n.guests = 0
			n.mu.Unlock()
		}
		return a
	}
	return nil
}

// mark begins the time for back: from now on no guest is to be lost.
func (s *simulatedNodes) mark() {
	s.began = time.Now()
	for _, n := range s.byNumber {
		count := 0
		for range n.source.Snapshot().Guests() {
			count++
		}
		n.mu.Lock()
		n.guests, n.lost = count, false
		n.mu.Unlock()
	}
}

// patienceOfCloud bounds how long many clients take to be in sync.
const patienceOfCloud = 20 * time.Minute

// patienceOfChange bounds how long changes take to come. A thousand guests that migrate at once have the
// server busy for a minute.
const patienceOfChange = 2 * time.Minute

// await waits until all nodes are as they should, and returns how long each took since began.
func (s *simulatedNodes) await(began time.Time, is func(*simulatedNode) bool) *answer {
	a := &answer{}
	waiting := make(map[int]*simulatedNode)
	for number, n := range s.byNumber {
		waiting[number] = n
	}
	for len(waiting) > 0 {
		for number, n := range waiting {
			if is(n) {
				a.Seconds = append(a.Seconds, time.Since(began).Seconds())
				delete(waiting, number)
			}
		}
		if time.Since(began) > patienceOfCloud {
			a.Missing = len(waiting)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return a
}

// collect returns what was expected, and forgets it.
func (s *simulatedNodes) collect() *answer {
	a := &answer{Shown: make(map[int][]int64)}
	s.caughtUp()
	for _, n := range s.byNumber {
		n.mu.Lock()
		a.Missing += len(n.expected)
		for id, at := range n.shown {
			a.Shown[id] = append(a.Shown[id], at.UnixNano())
		}
		n.expected, n.shown = nil, make(map[int]time.Time)
		n.mu.Unlock()
	}
	return a
}

// caughtUp waits for what was expected. What has not come when it returns is missing.
func (s *simulatedNodes) caughtUp() {
	for end := time.Now().Add(patienceOfChange); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !slices.ContainsFunc(s.all(), func(n *simulatedNode) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.expected) > 0
		}) {
			return
		}
	}
}

func (s *simulatedNodes) all() (all []*simulatedNode) {
	for _, n := range s.byNumber {
		all = append(all, n)
	}
	return all
}
