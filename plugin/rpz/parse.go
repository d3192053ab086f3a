// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin/pkg/parse"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

const (
	// defaultMaxTTL is BIND's max-policy-ttl in seconds.
	defaultMaxTTL = 5
	// defaultLogRate is in lines a second.
	defaultLogRate = 10
	// maxZones is BIND's limit.
	maxZones = 64
	// Limits of each zone.
	defaultMaxRecords = 4_000_000
	defaultMaxBytes   = 256 << 20
)

// edeCodes are the Extended DNS Errors (RFC 8914, section 5.2) by BIND's words.
var edeCodes = map[string]uint16{
	"none":       0,
	"forged":     dns.ExtendedErrorCodeForgedAnswer,
	"blocked":    dns.ExtendedErrorCodeBlocked,
	"censored":   dns.ExtendedErrorCodeCensored,
	"filtered":   dns.ExtendedErrorCodeFiltered,
	"prohibited": dns.ExtendedErrorCodeProhibited,
}

type zoneLine struct {
	*policyZone
	keyName string
}

func readHandler(c *caddy.Controller) (*Handler, error) {
	h := newHandler()
	var lines []zoneLine
	keys := map[string]source.Key{}
	parsers := map[string]corefile.Parser{
		"zone": func(words []string) error {
			z, err := parseZone(words)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(lines, func(l zoneLine) bool { return l.config.Zone == z.config.Zone }) {
				return fmt.Errorf("%s is given twice, expected once", z.config.Zone)
			}
			z.at = corefile.Position{File: c.File(), Line: c.Line()}
			lines = append(lines, z)
			return nil
		},
		"tsig": func(words []string) error {
			k, err := parseKey(words)
			if _, given := keys[k.Name]; err == nil && given {
				err = fmt.Errorf("%s is given twice, expected once", k.Name)
			}
			keys[k.Name] = k
			return err
		},
	}
	maps.Copy(parsers, h.parsers())
	var err error
	h.directive, err = corefile.Read(c, authority.ZonesParser(&h.Zones, name, c.ServerBlockKeys), parsers, "zone", "tsig")
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || len(lines) > maxZones {
		return nil, h.directive.Errorf("zone", "%d policy zones: expected 1 to %d", len(lines), maxZones)
	}
	for _, l := range lines {
		if l.keyName != "" {
			k, ok := keys[l.keyName]
			if !ok {
				return nil, h.zoneError(l.policyZone, fmt.Errorf("no tsig line has the key %s", l.keyName))
			}
			l.config.Key = k
		}
		l.config.Limits = h.limits
		h.policies = append(h.policies, l.policyZone)
	}
	return h, nil
}

// zoneError has the form of corefile.Directive.Errorf.
func (h *Handler) zoneError(z *policyZone, err error) error {
	return fmt.Errorf("%s - %s: zone %s: %w", z.at, h.directive, z.config.Zone, err)
}

func (h *Handler) parsers() map[string]corefile.Parser {
	return map[string]corefile.Parser{
		"break_dnssec": flag(&h.breakDNSSEC),
		"required":     flag(&h.required),
		"ede": func(words []string) error {
			word, err := corefile.Choice(words, slices.Sorted(maps.Keys(edeCodes))...)
			h.ede = edeCodes[word]
			return err
		},
		"log": func(words []string) error {
			n := uint64(defaultLogRate)
			if len(words) > 0 {
				var err error
				if n, err = number(words, "lines a second", 1, 1_000_000); err != nil {
					return err
				}
			}
			h.lines = newHitLog(int(n))
			return nil
		},
		"max_records": func(words []string) error {
			n, err := number(words, "records", 1, 1_000_000_000)
			h.limits.Records = int(n)
			return err
		},
		"max_bytes": func(words []string) error {
			const want = "a size from 1MiB to 4GiB"
			word, err := corefile.One(words, want)
			if err != nil {
				return err
			}
			h.limits.Bytes, err = corefile.ParseSize(word)
			if err != nil || h.limits.Bytes < 1<<20 || h.limits.Bytes > 4<<30 {
				return fmt.Errorf("%q: expected %s", word, want)
			}
			return nil
		},
		"max_ttl": func(words []string) error {
			n, err := number(words, "seconds", 0, 1<<31-1)
			h.maxTTL = uint32(n)
			return err
		},
	}
}

func flag(to *bool) corefile.Parser {
	return func(words []string) error {
		*to = true
		if len(words) > 0 {
			return fmt.Errorf("%q: expected nothing", words)
		}
		return nil
	}
}

func number(words []string, what string, least, most uint64) (uint64, error) {
	word, err := corefile.One(words, what)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q: expected whole %s from %d to %d", word, what, least, most)
	}
	return n, nil
}

// parseZone parses NAME file PATH | transfer PRIMARY..., then tsig KEY and policy POLICY.
func parseZone(words []string) (z zoneLine, err error) {
	const want = "NAME file PATH or NAME transfer ADDRESS..., then policy POLICY"
	z.policyZone = new(policyZone)
	if len(words) < 3 {
		return z, fmt.Errorf("%q: expected %s", words, want)
	}
	z.config.Zone = dns.CanonicalName(words[0])
	if _, ok := dns.IsDomainName(words[0]); !ok || z.config.Zone == "." {
		return z, fmt.Errorf("%q: expected the name of a policy zone, below the root", words[0])
	}
	kind, rest := words[1], words[2:]
	switch kind {
	case "file":
		if !filepath.IsAbs(rest[0]) {
			return z, fmt.Errorf("%q: expected an absolute path", rest[0])
		}
		z.config.Path = filepath.Clean(rest[0])
		rest = rest[1:]
	case "transfer":
		if rest, err = z.parsePrimaries(rest); err != nil {
			return z, err
		}
	default:
		return z, fmt.Errorf("%q: expected file or transfer", kind)
	}
	for ; len(rest) > 0; rest = rest[2:] {
		if len(rest) == 1 {
			return z, fmt.Errorf("%q: expected %s", rest, want)
		}
		switch {
		case rest[0] == "policy":
			err = z.parsePolicy(rest[1])
		case rest[0] == "tsig" && kind == "transfer":
			z.keyName = dns.CanonicalName(rest[1])
		default:
			err = fmt.Errorf("%q: expected %s", rest[0], want)
		}
		if err != nil {
			return z, err
		}
	}
	return z, nil
}

// parsePrimaries returns the words from the first that is no address.
func (z *zoneLine) parsePrimaries(words []string) (rest []string, err error) {
	var all []string
	for len(words) > 0 && words[0] != "tsig" && words[0] != "policy" {
		a, err := parse.HostPort(words[0], "53")
		if err != nil {
			return nil, fmt.Errorf("%q: expected the address of a primary, with or without a port", words[0])
		}
		all, words = append(all, a), words[1:]
	}
	if len(all) == 0 {
		return nil, errors.New("expected the address of a primary behind transfer")
	}
	z.config.Primaries = strings.Join(all, " ")
	return words, nil
}

func (z *zoneLine) parsePolicy(word string) error {
	switch a, ok := rules.ParseAction(word); {
	case ok:
		z.override = a
	case word == onlyLogged:
		z.logOnly = true
	case word != "given":
		return fmt.Errorf("policy %q: expected given, log, nxdomain, nodata, passthru, drop or tcp-only", word)
	}
	return nil
}

// parseKey parses NAME SECRET [ALGORITHM].
func parseKey(words []string) (source.Key, error) {
	if len(words) < 2 || len(words) > 3 {
		return source.Key{}, fmt.Errorf("%d words: expected NAME SECRET [ALGORITHM]", len(words))
	}
	algorithm := dns.HmacSHA256
	if len(words) == 3 {
		algorithm = words[2]
	}
	return source.NewKey(words[0], algorithm, words[1])
}
