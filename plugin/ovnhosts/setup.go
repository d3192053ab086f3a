// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
)

func init() { plugin.Register(name, setup) }

const (
	defaultSouthbound = "unix:/var/run/ovn/ovnsb_db.sock"
	defaultTTL        = 30
	// maxTTL is the largest TTL of RFC 2181, section 8.
	maxTTL = 1<<31 - 1
)

// setup only parses; OnStartup opens the databases. cmd/puntdns/reload.go shows when the
// callbacks are called.
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
		if err := h.checkTLS(); err != nil {
			return plugin.Error(name, err)
		}
		h.warn(func(directive string) bool { return config.Handler(directive) != nil })
		started.add(c.Context(), h)
		return h.open()
	})
	c.OnShutdown(h.close)
	c.OnRestartFailed(func() error {
		started.rollBack(c.Context())
		return nil
	})
	return nil
}

// open opens the databases, or shares them with others that have them open.
func (h *Handler) open() error {
	s, err := openSources.acquire(h.config)
	if err != nil {
		return plugin.Error(name, err)
	}
	release := s.Request(h.requests())
	h.source = s
	h.release = sync.OnceFunc(func() {
		release()
		openSources.release(s)
	})
	return nil
}

// requests returns the requests of h to its databases.
func (h *Handler) requests() ovn.Requests {
	return ovn.Requests{Routers: h.routers, Network: h.defaultSwitch}
}

// close undoes open, once. Its error is always nil.
func (h *Handler) close() error {
	if h.release != nil {
		h.release()
	}
	return nil
}

// started has the handlers of the Corefile whose start has begun last. When that fails
// after they have opened databases, caddy calls no callback of the new Corefile, but
// OnRestartFailed of the old one.
var started lastStart

// lastStart has the handlers of one Corefile.
type lastStart struct {
	mu       sync.Mutex // guards all below
	of       caddy.Context
	handlers []*Handler
}

func (a *lastStart) add(of caddy.Context, h *Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != of {
		a.of, a.handlers = of, nil
	}
	a.handlers = append(a.handlers, h)
}

// rollBack closes the handlers of the last start, unless that is of the Corefile that
// serves.
func (a *lastStart) rollBack(serving caddy.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == serving {
		return
	}
	for _, h := range a.handlers {
		_ = h.close() // its error is nil
	}
	a.of, a.handlers = serving, nil
}

// warn logs a warning about plugins behind this one that no query gets to. has
// reports whether the server block has a directive.
func (h *Handler) warn(has func(directive string) bool) {
	if len(h.Fall.Zones) > 0 || !slices.Contains(h.Zones, ".") {
		return
	}
	for _, after := range []string{"forward", "passthrough"} {
		if has(after) {
			log.Warningf("%s - %s: it takes every name of . and has no fallthrough: nothing reaches %s behind it", h.directive.At, h.directive, after)
		}
	}
}

// Check does what a start does with the ovnhosts directive of one server block, up to the
// opening of the databases: it returns the same errors, and logs the same warnings. has
// reports whether the block has another directive.
func Check(c *caddy.Controller, has func(directive string) bool) error {
	h, err := parseAndCheck(c)
	if err != nil {
		return err
	}
	h.warn(has)
	return nil
}

// Databases returns which databases the ovnhosts directive of one server block reads, without
// opening them, and what it requests of them. It is an error if the directive is wrong, or
// the TLS files can't be loaded.
func Databases(c *caddy.Controller) (ovn.Config, ovn.Requests, error) {
	h, err := parseAndCheck(c)
	if err != nil {
		return ovn.Config{}, ovn.Requests{}, err
	}
	return h.Database(), h.requests(), nil
}

// parseAndCheck parses a directive, and looks whether its TLS files can be loaded.
func parseAndCheck(c *caddy.Controller) (*Handler, error) {
	h, err := parse(c)
	if err == nil {
		err = h.checkTLS()
	}
	if err != nil {
		return nil, plugin.Error(name, err)
	}
	return h, nil
}

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{ttl: defaultTTL, config: ovn.Config{Log: log}}
	parsers := make(map[string]corefile.Parser, len(properties))
	for name, parse := range properties {
		parsers[name] = func(words []string) error { return parse(h, words) }
	}
	var err error
	h.directive, err = corefile.Read(c, func(zones []string) error {
		if err := checkZones(zones); err != nil {
			return err
		}
		h.Zones = plugin.OriginsFromArgsOrServerBlock(zones, c.ServerBlockKeys)
		if len(h.Zones) == 0 {
			return errors.New("expected zones after ovnhosts that are domain names")
		}
		return nil
	}, parsers)
	if err != nil {
		return nil, err
	}
	if len(h.config.Southbound)+len(h.config.Northbound) == 0 {
		h.config.Southbound = []string{defaultSouthbound}
	}
	return h, nil
}

// checkTLS returns an error if endpoints need TLS files, and there are none or they can't be
// loaded.
func (h *Handler) checkTLS() error {
	var peers []corefile.Peer
	for _, p := range []struct {
		property  string
		endpoints []string
	}{{"southbound", h.config.Southbound}, {"northbound", h.config.Northbound}} {
		for _, s := range p.endpoints {
			e, err := endpoint.Parse(s)
			if err != nil {
				return h.directive.Errorf(p.property, "%w", err)
			}
			peers = append(peers, corefile.Peer{Property: p.property, Endpoint: e})
		}
	}
	return h.directive.CheckTLS(h.config.TLS, peers...)
}

// checkZones refuses zones that CoreDNS would ignore without an error.
func checkZones(zones []string) error {
	for _, z := range zones {
		if len(plugin.Host(z).NormalizeExact()) == 0 {
			return fmt.Errorf("%q: expected a zone, a domain name or a network", z)
		}
	}
	return nil
}

// properties has the parser of each property's words.
var properties = map[string]func(*Handler, []string) error{
	"southbound": func(h *Handler, args []string) (err error) {
		h.config.Southbound, err = endpoints(args)
		return err
	},
	"northbound": func(h *Handler, args []string) (err error) {
		h.config.Northbound, err = endpoints(args)
		return err
	},
	"monitor": func(h *Handler, args []string) error {
		all, err := either(args, "local", "all")
		h.config.Monitor = ovn.Local
		if all {
			h.config.Monitor = ovn.All
		}
		return err
	},
	"tls": func(h *Handler, args []string) (err error) {
		h.config.TLS, err = corefile.ParseTLS(args)
		return err
	},
	"domain": parseDomain,
	"ttl":    parseTTL,
	"scope": func(h *Handler, args []string) (err error) {
		h.routers, err = either(args, "switch", "router")
		return err
	},
	"default_switch": func(h *Handler, args []string) (err error) {
		h.defaultSwitch, err = one(args, "the name of a logical switch")
		return err
	},
	"fallthrough": func(h *Handler, args []string) error {
		h.Fall, h.fallAll = fall.F{}, len(args) == 0
		h.Fall.SetZonesFromArgs(args)
		return checkZones(args)
	},
}

// one returns the only word. want is what the error says was expected.
func one(args []string, want string) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("%q: expected %s", args, want)
	}
	return args[0], nil
}

// either reports whether the only word is yes and not no.
func either(args []string, no, yes string) (bool, error) {
	if len(args) != 1 || args[0] != no && args[0] != yes {
		return false, fmt.Errorf("%q: expected %s or %s", args, no, yes)
	}
	return args[0] == yes, nil
}

func parseDomain(h *Handler, args []string) error {
	v, err := one(args, "a domain name")
	if err != nil {
		return err
	}
	if _, ok := dns.IsDomainName(v); !ok || dns.CanonicalName(v) == "." {
		return fmt.Errorf("%q: expected a domain name below the root", v)
	}
	h.domain = dns.CanonicalName(v)
	return nil
}

func parseTTL(h *Handler, args []string) error {
	v, err := one(args, "seconds")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > maxTTL {
		return fmt.Errorf("%q: expected whole seconds from 0 to %d", v, maxTTL)
	}
	h.ttl = uint32(n)
	return nil
}

// endpoints parses connection methods to dial, and returns them in their canonical form.
func endpoints(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("expected at least one of %s", endpoint.ActiveForms)
	}
	all, err := endpoint.ParseActive(args)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.String()
	}
	return texts, nil
}
