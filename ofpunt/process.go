// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/ofpunt/admin"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// process is what outlives a Corefile.
type process struct {
	// bridges are the bridges of the process, which publish their queries to feed.
	bridges *bridge.Registry
	feed    watch.Feed

	// The lock is held while serving changes: during takeOver, rollBack and stop.
	sync.Mutex
	// serving is the instance whose servers the bridges have now, nil for none.
	serving *instance
	// parsing is the instance whose last stage is still to be added.
	parsing stage
}

// running is this process. caddy has one list of plugins for a process, and the control socket is the process's.
var running = newProcess()

func newProcess() *process {
	p := &process{}
	p.bridges = bridge.NewRegistry(&p.feed)
	return p
}

func init() {
	plugin.Register(name, setup)
	metric.Bridges.OnScrape(running.bridges.Collect)
	admin.Register(control.Process, running.bridges, &running.feed)
}

// switchTo has the servers of next answer for their bridges, instead of the servers of the instance before. A
// nil next has none. coredns_plugin_enabled then has the plugins of next alone. The lock is held.
func (p *process) switchTo(next *instance) {
	previous := p.serving
	p.serving = next
	if previous != nil {
		for _, s := range previous.servers {
			s.chains.ClearEnabled()
		}
	}
	if next == nil {
		return
	}
	for _, s := range next.servers {
		s.chains.SetEnabled()
		if previous != next {
			p.bridges.Serve(s.Server)
		}
	}
}

// NotReady returns a reason for each bridge of the process that is not served, and one if there
// is no bridge yet.
func NotReady() []string { return running.bridges.NotReady() }

// stage is the instance whose takeOver is to be added, by c, behind the OnStartup stages of all plugins. It
// lasts from setup to the end of the parsing of one Corefile. c and in are nil for none. mu guards both.
type stage struct {
	mu sync.Mutex
	c  *caddy.Controller
	in *instance
}

func (s *stage) set(c *caddy.Controller, in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c, s.in = c, in
}

// take returns what setup has set for the Corefile of ctx, nil for one without ofpunt. What was
// set for another is dropped: its parsing has failed.
func (s *stage) take(ctx caddy.Context) (c *caddy.Controller, in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil && s.c.Context() == ctx {
		c, in = s.c, s.in
	}
	s.c, s.in = nil, nil
	return c, in
}
