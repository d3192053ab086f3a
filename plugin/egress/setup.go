// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"fmt"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/policy"
)

func init() { plugin.Register(name, setup) }

func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	node := address.NewNodeReader(log)
	if err := node.Open(); err != nil {
		return plugin.Error(name, err)
	}
	h.onNode = node.OnInterface
	config := dnsserver.GetConfig(c)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	if h.observe {
		c.OnStartup(func() error {
			observers.open(h)
			return nil
		})
		c.OnShutdown(func() error {
			observers.close(h)
			return nil
		})
	}
	// A block has its handlers from here on.
	c.OnStartup(func() error {
		h.forwards, _ = config.Handler("ovnforward").(forwarder)
		return nil
	})
	return c.OncePerServerBlock(func() error {
		h.warn()
		return nil
	})
}

// warn warns of entries that allow more than their author may expect.
func (h *Handler) warn() {
	for i := range h.policies {
		p := &h.policies[i]
		for _, e := range p.rules.Entries() {
			if text := e.Warning(); text != "" {
				log.Warningf("%s - policy %s: %s", p.at, p.name, text)
			}
		}
	}
}

const (
	defaultFloor = time.Minute
	defaultGrace = 5 * time.Minute
	// Of max_addresses: one name may have 100 addresses (NPEP-133).
	defaultMost, leastMost, mostMost = 1000, 100, 10_000
	// Half, and all, of a bridge's destinations.
	defaultOfNetwork, mostOfNetwork = 32_768, 65_536
)

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{
		sets: map[string]*set{}, floor: defaultFloor,
		settings: opening.Settings{Bit: opening.DefaultBit, Most: defaultMost, MostOfNetwork: defaultOfNetwork, Grace: defaultGrace},
	}
	northbound := false
	d, err := corefile.ReadBlocks(c, authority.ZonesParser(&h.Zones, name, c.ServerBlockKeys), map[string]corefile.Parser{
		"northbound": onOff(&northbound),
		"strict": func(words []string) error {
			v, err := corefile.Choice(words, "on", "names", "off")
			h.strict, h.namesOnly = v == "on" || v == "names", v == "names"
			return err
		},
		"observe": onOff(&h.observe),
		"floor":   parseTime(&h.floor),
		"grace":   parseTime(&h.settings.Grace),
		"bit": func(words []string) error {
			n, err := corefile.Number(words, 1, 31)
			h.settings.Bit = uint8(n)
			return err
		},
		"max_addresses": h.parseMost,
		"closed":        h.parseClosed,
	}, map[string]corefile.BlockParser{"policy": h.parsePolicy}, "allow")
	switch {
	case err != nil:
		return nil, err
	case len(h.policies) == 0 && !northbound:
		return nil, d.Errorf("policy", "expected policy LABEL VALUE with entries that are allowed, or `northbound on`")
	case h.strict && h.observe:
		return nil, d.Errorf("observe", "expected either `observe on` or `strict`")
	}
	if h.at = d.At; northbound {
		h.northbound = &guestPolicy{name: northboundName, at: d.At, lines: newRefusalLog()}
	}
	return h, nil
}

// northboundName names all Northbound policies: tenants choose their number.
const northboundName = "external_ids:" + ovn.EgressKey

// floor and grace together are an OpenFlow idle timeout, 16 bits of seconds.
func parseTime(to *time.Duration) corefile.Parser {
	return func(words []string) (err error) {
		*to, err = corefile.Duration(words, "one duration of whole seconds from 1s to 6h", func(d time.Duration) bool {
			return d >= time.Second && d <= 6*time.Hour && d%time.Second == 0
		})
		return err
	}
}

// parseMost parses the numbers of a guest and of its network.
func (h *Handler) parseMost(words []string) (err error) {
	if len(words) == 2 {
		if h.settings.MostOfNetwork, err = corefile.Number(words[1:], leastMost, mostOfNetwork); err != nil {
			return err
		}
		words = words[:1]
	}
	h.settings.Most, err = corefile.Number(words, leastMost, mostMost)
	return err
}

func (h *Handler) parseClosed(words []string) error {
	if len(words) == 0 {
		return errors.New("expected prefixes")
	}
	for _, word := range words {
		e, err := policy.Parse(word)
		if err == nil && (e.Name != "" || e.Port != 0) {
			err = fmt.Errorf("%q: expected a prefix without a port", word)
		}
		if err != nil {
			return err
		}
		h.closed = append(h.closed, e.Prefix)
	}
	return nil
}

func onOff(to *bool) corefile.Parser {
	return func(words []string) error {
		v, err := corefile.Choice(words, "on", "off")
		*to = v == "on"
		return err
	}
}

func (h *Handler) parsePolicy(words []string, at corefile.Position) (map[string]corefile.Parser, func() error, error) {
	of, value, err := label.ParseGuest(words)
	if err != nil {
		return nil, nil, err
	}
	p := guestPolicy{name: of.Name + "=" + value, at: at, lines: newRefusalLog(), names: &learned{queries: map[string]uint64{}}}
	for i := range h.policies {
		if before := &h.policies[i]; before.name == p.name {
			return nil, nil, fmt.Errorf("%s %q is given at %s already, expected once", of.Name, value, before.at)
		}
	}
	var entries []policy.Entry
	parsers := map[string]corefile.Parser{"allow": func(words []string) error {
		if len(words) == 0 {
			return errors.New("expected entries: names or prefixes")
		}
		for _, word := range words {
			e, err := policy.Parse(word)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return nil
	}}
	end := func() error {
		if len(entries) == 0 {
			return errors.New("the block is empty, expected allow in it")
		}
		p.rules = policy.New(entries)
		h.policies = append(h.policies, p)
		return h.index.Add(of, value, len(h.policies)-1)
	}
	return parsers, end, nil
}
