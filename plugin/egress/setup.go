// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/plugin/egress/policy"
)

func init() { plugin.Register(name, setup) }

func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	return c.OncePerServerBlock(func() error {
		h.warn()
		return nil
	})
}

// warn logs a warning for each entry that allows more than its author may expect.
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

// wantMode is what errors say of the two properties. Without flows of the switch there is no third mode.
const wantMode = "expected either `observe on` or `strict on`: the switch does not enforce addresses yet"

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{}
	observe := false
	d, err := corefile.ReadBlocks(c, authority.ZonesParser(&h.Zones, name, c.ServerBlockKeys), map[string]corefile.Parser{
		"strict":  onOff(&h.strict),
		"observe": onOff(&observe),
	}, map[string]corefile.BlockParser{"policy": h.parsePolicy}, "allow")
	switch {
	case err != nil:
		return nil, err
	case len(h.policies) == 0:
		return nil, d.Errorf("policy", "expected policy LABEL VALUE with entries that are allowed")
	case h.strict == observe:
		property := "observe"
		if d.Gives("strict") {
			property = "strict"
		}
		return nil, d.Errorf(property, wantMode)
	}
	return h, nil
}

func onOff(to *bool) corefile.Parser {
	return func(words []string) error {
		v, err := corefile.Choice(words, "on", "off")
		*to = v == "on"
		return err
	}
}

// parsePolicy is the corefile.BlockParser of the property policy.
func (h *Handler) parsePolicy(words []string, at corefile.Position) (map[string]corefile.Parser, func() error, error) {
	of, value, err := label.ParseGuest(words)
	if err != nil {
		return nil, nil, err
	}
	p := guestPolicy{name: of.Name + "=" + value, at: at, lines: newRefusalLog()}
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
