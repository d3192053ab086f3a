// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile"
)

const (
	// DefaultTTL is the default of Policy.TTL.
	DefaultTTL = 30
	// maxTTL is from RFC 2181, section 8.
	maxTTL = 1<<31 - 1
)

// Properties returns the parsers of p's properties.
func (p *Policy) Properties() map[string]corefile.Parser {
	return map[string]corefile.Parser{
		"domain":  p.parseDomain,
		"ttl":     p.parseTTL,
		"shuffle": p.parseShuffle,
		"fallthrough": func(words []string) error {
			p.Fall, p.FallAll = fall.F{}, len(words) == 0
			p.Fall.SetZonesFromArgs(words)
			return checkZones(words)
		},
	}
}

// ZonesParser returns the parser of a directive's zones, by default the block's keys.
func ZonesParser(to *[]string, directive string, keys []string) corefile.Parser {
	return func(words []string) error {
		if err := checkZones(words); err != nil {
			return err
		}
		*to = plugin.OriginsFromArgsOrServerBlock(words, keys)
		if len(*to) == 0 {
			return errors.New("expected zones after " + directive + " that are domain names")
		}
		return nil
	}
}

func checkZones(words []string) error {
	for _, word := range words {
		if _, err := Zones(word); err != nil {
			return err
		}
	}
	return nil
}

// Zones returns the zones of a word: a domain name, or a network, whose reverse zones may be several. It refuses words that
// CoreDNS would ignore, or take for a name that no query has, and a port or a scheme, which CoreDNS would drop.
func Zones(word string) ([]string, error) {
	if err := corefile.CheckNetwork(word); err != nil {
		return nil, err
	}
	_, noAddress := netip.ParseAddr(word)
	_, noNetwork := netip.ParsePrefix(word)
	isName := noAddress != nil && !strings.ContainsAny(word, "*[]{}:")
	zones := plugin.Host(word).NormalizeExact()
	if len(zones) == 0 || noNetwork != nil && !isName {
		return nil, fmt.Errorf("%q: expected a domain name such as example.org, or a network such as 10.0.0.0/8", word)
	}
	return zones, nil
}

func (p *Policy) parseDomain(words []string) error {
	v, err := corefile.One(words, "a domain name")
	if err != nil {
		return err
	}
	if _, ok := dns.IsDomainName(v); !ok || dns.CanonicalName(v) == "." {
		return fmt.Errorf("%q: expected a domain name below the root", v)
	}
	p.Domain = dns.CanonicalName(v)
	return nil
}

func (p *Policy) parseTTL(words []string) error {
	v, err := corefile.One(words, "seconds")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > maxTTL {
		return fmt.Errorf("%q: expected whole seconds from 0 to %d", v, maxTTL)
	}
	p.TTL = uint32(n)
	return nil
}

func (p *Policy) parseShuffle(words []string) error {
	v, err := corefile.Choice(words, "on", "off")
	p.Shuffle = v == "on"
	return err
}

// Unreached returns plugins that no query reaches behind this one. has reports whether the block has a
// directive.
func (p *Policy) Unreached(zones []string, has func(directive string) bool) (after []string) {
	if len(p.Fall.Zones) > 0 || !slices.Contains(zones, ".") {
		return nil
	}
	for _, d := range []string{"forward", "passthrough"} {
		if has(d) {
			after = append(after, d)
		}
	}
	return after
}
