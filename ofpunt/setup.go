// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
)

func init() { plugin.Register(name, setup) }

// setup only parses. What the directive asks for begins with the callbacks of
// the instance.
func setup(c *caddy.Controller) error {
	b, err := parseBlock(c)
	if err != nil {
		return plugin.Error(name, err)
	}

	config := dnsserver.GetConfig(c)
	// No socket, unless bind, which comes later in the order, puts one here.
	config.ListenHosts = nil
	config.AddPlugin(func(next plugin.Handler) plugin.Handler { return &Handler{Next: next} })
	for i := range c.ServerBlockKeys {
		of := *c
		of.ServerBlockKeyIndex = i
		b.configs = append(b.configs, dnsserver.GetConfig(&of))
	}

	in, ok := c.Get(instanceKey{}).(*instance)
	if !ok {
		in = newInstance()
		c.Set(instanceKey{}, in)
		c.OnStartup(in.build)
		c.OnShutdown(in.stop)
		c.OnRestartFailed(in.resume)
		lastStage.arm(c, in.serve)
	}
	in.blocks = append(in.blocks, b)
	return nil
}

type instanceKey struct{}

// TakeOverAfter makes the punt server of a Corefile take over from the one
// before it once every plugin has been started. It names the last of the
// directives, since the stages of OnStartup run in their order. Call it once,
// before caddy starts.
func TakeOverAfter(directive string) {
	caddy.RegisterParsingCallback("dns", directive, lastStage.fire)
}

// lastStage remembers, between setup and the end of the parsing of one Corefile,
// what is to be added behind the OnStartup stages of all plugins.
var lastStage stage

type stage struct {
	mu sync.Mutex
	c  *caddy.Controller
	f  func() error
}

func (s *stage) arm(c *caddy.Controller, f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.c, s.f = c, f
}

// fire is a parsing callback, called for every Corefile, with or without ofpunt.
func (s *stage) fire(ctx caddy.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// An armed stage of another Corefile is one whose parsing failed.
	if s.c != nil && s.c.Context() == ctx {
		s.c.OnStartup(s.f)
	}
	s.c, s.f = nil, nil
	return nil
}
