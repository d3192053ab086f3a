// SPDX-License-Identifier: Apache-2.0

package neutronhosts

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/plugin/neutronhosts/addnhosts"
)

func init() { plugin.Register(name, setup) }

// defaultPath is dhcp_confs of Neutron (neutron/conf/agent/dhcp.py).
const defaultPath = "/var/lib/neutron/dhcp"

// setup only parses; OnStartup reads the files, in the order of internal/lifecycle/reload.go.
func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	config := dnsserver.GetConfig(c)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	c.OnStartup(func() error {
		h.warn(func(directive string) bool { return config.Handler(directive) != nil })
		corefile.OnFailedStart(h.close)
		h.open()
		return nil
	})
	c.OnShutdown(h.close)
	return nil
}

func (h *Handler) open() {
	h.source = addnhosts.Acquire(h.path, log)
	h.release = sync.OnceFunc(h.source.Release)
}

// close undoes open, once. Its error is always nil.
func (h *Handler) close() error {
	if h.release != nil {
		h.release()
	}
	return nil
}

// warn warns of plugins that no query reaches behind this one. has reports whether the block has a directive.
func (h *Handler) warn(has func(directive string) bool) {
	if !has("ofpunt") {
		log.Warningf("%s - %s: without ofpunt in the block nobody's network is known, and it answers nothing", h.directive.At, h.directive)
		return
	}
	for _, after := range h.Unreached(h.Zones, has) {
		log.Warningf("%s - %s: it takes every name of . and has no fallthrough: of a network that has a file nothing reaches %s behind it", h.directive.At, h.directive, after)
	}
}

// Check returns a start's errors for one server block, without reading files. It also warns of a path that is
// no folder. has reports whether the block has a directive.
func Check(c *caddy.Controller, has func(directive string) bool) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	h.warn(has)
	if err := addnhosts.CheckFolder(h.path); err != nil {
		log.Warning(h.directive.Errorf("path", "%w", err))
	}
	return nil
}

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{Policy: authority.Policy{TTL: authority.DefaultTTL}, path: defaultPath}
	parsers := h.Properties()
	parsers["path"] = func(words []string) error {
		path, err := corefile.One(words, "an absolute path")
		if err == nil && !filepath.IsAbs(path) {
			err = fmt.Errorf("%q: expected an absolute path", path)
		}
		h.path = filepath.Clean(path)
		return err
	}
	var err error
	h.directive, err = corefile.Read(c, authority.ZonesParser(&h.Zones, name, c.ServerBlockKeys), parsers)
	return h, err
}
