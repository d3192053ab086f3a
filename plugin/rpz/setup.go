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

// setup only parses; callbacks read the zones, in the order of internal/lifecycle/reload.go.
func setup(c *caddy.Controller) error {
	h, err := readHandler(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	config := dnsserver.GetConfig(c)
	if err := h.shareKeys(config); err != nil {
		return plugin.Error(name, err)
	}
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	closeOnce := sync.OnceValue(func() error {
		h.close()
		return nil
	})
	first := false
	openOnce := sync.OnceValue(func() error {
		corefile.OnFailedStart(closeOnce)
		// A reload waits for new files, as the Corefile before stays in force.
		return h.open(h.required || !first)
	})
	// A first start fails before plugins above connect. A reload's trial has checked the files.
	c.OnFirstStartup(func() error {
		first = true
		return openOnce()
	})
	c.OnStartup(openOnce)
	c.OnShutdown(closeOnce)
	return nil
}

// open acquires the sources. With wait it returns an error if a file can't be read and is required.
func (h *Handler) open(wait bool) error {
	for _, z := range h.policies {
		z.source = source.Acquire(z.config, log)
	}
	if wait {
		for _, z := range h.policies {
			if err := z.source.AwaitFile(); err != nil && h.required {
				return h.zoneError(z, err)
			}
		}
	}
	handlersMu.Lock()
	defer handlersMu.Unlock()
	handlers[h] = true
	return nil
}

// close undoes open, even one that failed halfway.
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

// Check returns a start's errors for one server block, and warns of skipped rules and of unreadable files that
// are not required. It reads only the beginning of files.
func Check(c *caddy.Controller, _ func(directive string) bool) error {
	h, err := readHandler(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	for _, z := range h.policies {
		if z.config.Path == "" {
			continue
		}
		switch err := source.CheckFile(z.config, log); {
		case err != nil && h.required:
			return h.zoneError(z, err)
		case err != nil:
			log.Warningf("%v: queries pass by the zone until its file can be read", h.zoneError(z, err))
		}
	}
	return nil
}
