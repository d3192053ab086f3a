// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn"
)

// chassisClaims has the chassis that each source is read for, and the servers that claim it. A
// source has the guests of one chassis; bridges that read the same databases share it.
type chassisClaims struct {
	mu sync.Mutex
	m  map[*ovn.Source]map[*server]string // guarded by mu
}

var claims chassisClaims

// claim has the source of s read for a chassis. It is an error if another bridge claims the
// source for another one: each would serve the guests of the other. Of two servers of one
// bridge, during a reload, the later one decides.
func (c *chassisClaims) claim(s *server, chassis string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, of := range c.m[s.source] {
		if o.options.Bridge != s.options.Bridge && of != chassis {
			return fmt.Errorf("bridge %s reads the same databases for chassis %q, so they can't be read for chassis %q; expected one chassis, or another process for it",
				o.options.Bridge, of, chassis)
		}
	}
	if c.m == nil {
		c.m = map[*ovn.Source]map[*server]string{}
	}
	if c.m[s.source] == nil {
		c.m[s.source] = map[*server]string{}
	}
	c.m[s.source][s] = chassis
	s.source.SetChassis(chassis)
	return nil
}

// release ends the claim of s.
func (c *chassisClaims) release(s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.m[s.source], s); len(c.m[s.source]) == 0 {
		delete(c.m, s.source)
	}
}
