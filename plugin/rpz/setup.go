// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

func init() { plugin.Register(name, setup) }

// setup only parses; the callbacks read the zones. internal/lifecycle/reload.go shows when the callbacks are
// called.
func setup(c *caddy.Controller) error {
	h, err := readHandler(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	closeOnce := sync.OnceValue(func() error {
		h.close()
		return nil
	})
	openOnce := sync.OnceValue(func() error {
		corefile.OnFailedStart(closeOnce)
		return h.open()
	})
	// A first start fails before plugins above this one connect to anything. A reload has had the
	// files looked at by its trial.
	c.OnFirstStartup(openOnce)
	c.OnStartup(openOnce)
	c.OnShutdown(closeOnce)
	return nil
}

// open reads the zones and follows them, or shares what others follow.
func (h *Handler) open() error {
	for _, z := range h.policies {
		s, err := source.Acquire(z.config, log)
		if err != nil {
			return h.zoneError(z, err)
		}
		z.source = s
	}
	handlersMu.Lock()
	defer handlersMu.Unlock()
	handlers[h] = true
	return nil
}

// close undoes open, as far as that has come.
func (h *Handler) close() {
	handlersMu.Lock()
	delete(handlers, h)
	handlersMu.Unlock()
	for _, z := range h.policies {
		if z.source != nil {
			z.source.Release()
		}
	}
}

// Check does what a start does with the directive of one server block, but for asking primaries:
// it returns the same errors, but for those far behind the beginning of a file.
func Check(c *caddy.Controller, _ func(directive string) bool) error {
	h, err := readHandler(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	for _, z := range h.policies {
		if z.config.Path == "" {
			continue
		}
		if err := source.CheckFile(z.config.Zone, z.config.Path); err != nil {
			return h.zoneError(z, err)
		}
	}
	return nil
}
