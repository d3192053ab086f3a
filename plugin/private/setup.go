// SPDX-License-Identifier: Apache-2.0

package private

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
)

func init() { plugin.Register(Name, setup) }

func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(Name, err)
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		with := *h
		with.Next = next
		return &with
	})
	return nil
}

// Answers returns a function that reports whether a block's directive answers for a zone, fully qualified in lower
// case. A wrong directive is an error.
func Answers(c *caddy.Controller) (func(zone string) bool, error) {
	h, err := parse(c)
	if err != nil {
		return nil, plugin.Error(Name, err)
	}
	return func(zone string) bool {
		z, _ := h.table.find(zone, dns.TypeSOA)
		return z != nil && plugin.Zones(h.Zones).Matches(zone) != ""
	}, nil
}

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{singleLabels: true}
	policy := authority.Policy{TTL: authority.DefaultTTL}
	var except, also []string
	d, err := corefile.Read(c, authority.ZonesParser(&h.Zones, Name, c.ServerBlockKeys), map[string]corefile.Parser{
		"except": zonesParser(&except),
		"also":   zonesParser(&also),
		"single_labels": func(words []string) error {
			v, err := corefile.Choice(words, "on", "off")
			h.singleLabels = v == "on"
			return err
		},
		"ttl":               policy.Properties()["ttl"],
		"rebind_protection": h.rebind.parse,
	})
	if err != nil {
		return nil, err
	}
	for _, z := range also {
		if slices.Contains(except, z) {
			return nil, d.Errorf("also", "%q is excepted, too; expected one of the two", z)
		}
	}
	h.ttl = policy.TTL
	h.table = newTable(except, also, h.ttl)
	return h, nil
}

const wantProtection = "off, on, or on except with zones"

// parse parses "on|off" or "on except ZONE...".
func (o *rebindOptions) parse(words []string) error {
	if len(words) > 2 && words[0] == "on" && words[1] == "except" {
		o.on = true
		return zonesParser(&o.except)(words[2:])
	}
	v, err := corefile.One(words, wantProtection)
	if err == nil && v != "on" && v != "off" {
		err = fmt.Errorf("%q: expected %s", v, wantProtection)
	}
	o.on = v == "on"
	return err
}

// zonesParser parses domain names or networks below the root.
func zonesParser(to *[]string) corefile.Parser {
	return func(words []string) error {
		if len(words) == 0 {
			return errors.New("expected zones, domain names or networks")
		}
		for _, word := range words {
			zones, err := authority.Zones(word)
			if err != nil {
				return err
			}
			if slices.Contains(zones, ".") {
				return fmt.Errorf("%q: expected a zone below the root, a domain name or a network", word)
			}
			*to = append(*to, zones...)
		}
		return nil
	}
}
