// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// chassisClaims has the chassis that each source is read for, and the servers that claim it. A
// source has the guests of one chassis; bridges that read the same databases share it.
type chassisClaims struct {
	mu sync.Mutex
	m  map[*ovndb.Source]map[*server]*chassisClaim // guarded by mu
}

// chassisClaim is the claim of one server.
type chassisClaim struct {
	// granted is the chassis that the source is read for, "" before the first. wanted is the chassis
	// of the last view: another one while the claim conflicts with that of another bridge.
	granted, wanted string
	interfaces      []string // of the last view
}

var claims chassisClaims

// claim has the source of s read for a chassis and the interfaces of a view. It conflicts if another
// bridge claims the source for another chassis: each bridge would serve the guests of the other. The
// claims that conflict are granted once all bridges want the same chassis. So bridges follow a chassis
// that gets another name, in any order. Of two servers of one bridge, during a reload, the later one
// decides.
func (c *chassisClaims) claim(s *server, chassis string, interfaces []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[*ovndb.Source]map[*server]*chassisClaim{}
	}
	if c.m[s.source] == nil {
		c.m[s.source] = map[*server]*chassisClaim{}
	}
	if c.m[s.source][s] == nil {
		c.m[s.source][s] = &chassisClaim{}
	}
	own := c.m[s.source][s]
	own.wanted, own.interfaces = chassis, interfaces
	c.decide(s, own)
}

// retry decides again on the last claim of s: the bridge that it conflicts with may be gone.
func (c *chassisClaims) retry(s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.m[s.source][s]; own != nil {
		c.decide(s, own)
	}
}

// decide grants the claim of s, or stores why not. The caller holds c.mu.
func (c *chassisClaims) decide(s *server, own *chassisClaim) {
	all, chassis := c.m[s.source], own.wanted
	for o, of := range all {
		if o.options.Bridge != s.options.Bridge && of.granted != "" && of.granted != chassis && of.wanted != chassis {
			err := fmt.Errorf("bridge %s reads the same databases for chassis %q, so they can't be read for chassis %q; expected one chassis, or another process for it",
				o.options.Bridge, of.granted, chassis)
			s.chassisConflict.Store(&err)
			return
		}
	}
	s.source.SetChassis(chassis)
	for o, of := range all {
		if o == s || of.wanted == chassis && of.granted != chassis {
			of.granted = chassis
			o.chassisConflict.Store(nil)
			s.source.SetPorts(o, of.interfaces, o.options.Grace)
		}
	}
}

// release ends the claim of s.
func (c *chassisClaims) release(s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.m[s.source], s); len(c.m[s.source]) == 0 {
		delete(c.m, s.source)
	}
}
