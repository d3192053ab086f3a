// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

type options struct {
	allow, deny []netip.Prefix
	ports       []uint16
	// maxZones is per network, maxServers per zone, maxUpstreams the servers in use.
	maxZones, maxServers, maxUpstreams int
}

// Defaults, and the limit of maxUpstreams.
const (
	defaultZones     = 16
	defaultServers   = 4
	defaultUpstreams = 1024
	mostUpstreams    = 65536
)

func init() { plugin.Register(Name, setup) }

// setup only parses. OnStartup opens the database of ovnhosts in the block.
func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(Name, err)
	}
	config := dnsserver.GetConfig(c)
	if err := h.readDatabase(config.Plugin); err != nil {
		return plugin.Error(Name, err)
	}
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	c.OnStartup(func() error {
		corefile.OnFailedStart(h.close)
		return h.open(config.Handler)
	})
	c.OnShutdown(h.close)
	return nil
}

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{lastAttempt: lastAttempt, options: options{maxZones: defaultZones, maxServers: defaultServers, maxUpstreams: defaultUpstreams}}
	var err error
	h.directive, err = corefile.Read(c, authority.ZonesParser(&h.Zones, Name, c.ServerBlockKeys), map[string]corefile.Parser{
		"allow":         prefixesParser(&h.allow),
		"deny":          prefixesParser(&h.deny),
		"ports":         portsParser(&h.ports),
		"max_zones":     numberParser(&h.maxZones, ovn.MaxForwardZones),
		"max_servers":   numberParser(&h.maxServers, ovn.MaxForwardServers),
		"max_upstreams": numberParser(&h.maxUpstreams, mostUpstreams),
	})
	return h, err
}

// prefixesParser takes an address as a prefix of full length.
func prefixesParser(to *[]netip.Prefix) corefile.Parser {
	return func(words []string) error {
		if len(words) == 0 {
			return errors.New("expected prefixes, such as 10.0.0.0/8 or 2001:db8::1")
		}
		for _, word := range words {
			p, err := netip.ParsePrefix(word)
			if a, plain := netip.ParseAddr(word); plain == nil && a.Zone() == "" {
				p, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			switch {
			case err != nil:
				return fmt.Errorf("%q: expected a prefix, such as 10.0.0.0/8, or an address", word)
			case p.Addr().Is4In6():
				return fmt.Errorf("%q: expected the IPv4 prefix itself", word)
			case p != p.Masked():
				return fmt.Errorf("%q: expected %s, or the address alone", word, p.Masked())
			}
			*to = append(*to, p)
		}
		return nil
	}
}

func portsParser(to *[]uint16) corefile.Parser {
	return func(words []string) error {
		if len(words) == 0 {
			return errors.New("expected port numbers")
		}
		for _, word := range words {
			n, err := strconv.ParseUint(word, 10, 16)
			if err != nil || n == 0 {
				return fmt.Errorf("%q: expected a port from 1 to 65535", word)
			}
			*to = append(*to, uint16(n))
		}
		return nil
	}
}

func numberParser(to *int, most int) corefile.Parser {
	want := fmt.Sprintf("a number from 1 to %d", most)
	return func(words []string) error {
		word, err := corefile.One(words, want)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("%q: expected %s", word, want)
		}
		*to = n
		return nil
	}
}

// nameSource is the block's ovnhosts handler.
type nameSource interface {
	Database() ovndb.Config
	DefaultSwitch() ovn.SwitchRef
}

// readDatabase takes the database from ovnhosts, which is set up before.
func (h *Handler) readDatabase(plugins []plugin.Plugin) error {
	for _, p := range plugins {
		// Each server with the block makes a handler.
		if s, ok := p(nil).(nameSource); ok {
			h.database, h.defaultSwitch = s.Database(), s.DefaultSwitch()
			if len(h.database.Northbound) == 0 {
				return fmt.Errorf("%s - %s: ovnhosts in the same block reads no Northbound database, which alone has what networks forward; expected northbound there", h.directive.At, h.directive)
			}
			return nil
		}
	}
	return fmt.Errorf("%s - %s: the block has no ovnhosts, which says where the OVN databases are; expected it, with northbound", h.directive.At, h.directive)
}

// resolver is the block's ofpunt handler.
type resolver interface{ ResolverAddresses() []netip.Addr }

// open takes the block's handlers by directive, nil for none.
func (h *Handler) open(handler func(directive string) plugin.Handler) error {
	h.node = address.NewNodeReader(log)
	if err := h.node.Open(); err != nil {
		return plugin.Error(Name, fmt.Errorf("%s - %s: %w", h.directive.At, h.directive, err))
	}
	resolvers := api.DefaultResolvers() // without ofpunt too: other guests may use them
	if r, ok := handler("ofpunt").(resolver); ok {
		h.throughCache = handler("cache") != nil
		resolvers = append(resolvers, r.ResolverAddresses()...)
	}
	return h.start(resolvers)
}

// start takes the resolver addresses of guests.
func (h *Handler) start(resolvers []netip.Addr) error {
	s, err := ovndb.Acquire(h.database)
	if err != nil {
		return plugin.Error(Name, err)
	}
	undo := s.Request(ovndb.Requests{Forwards: true, Network: h.defaultSwitch})
	h.source = s
	h.policy = &policy{allow: h.allow, deny: h.deny, ports: h.ports, resolvers: resolvers}
	h.pool = newPool(h.maxUpstreams)
	h.reviewer = &reviewer{handler: h}
	h.reviewer.follow()
	handlersMu.Lock()
	handlers[h] = struct{}{}
	handlersMu.Unlock()
	h.closeOnce = sync.OnceFunc(func() {
		handlersMu.Lock()
		delete(handlers, h)
		handlersMu.Unlock()
		h.reviewer.stop()
		h.pool.close()
		undo()
		s.Release()
	})
	return nil
}

// close undoes open, once. Its error is always nil.
func (h *Handler) close() error {
	if h.closeOnce != nil {
		h.closeOnce()
	}
	return nil
}
