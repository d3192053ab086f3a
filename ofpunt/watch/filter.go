// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
)

// Filter selects events that match a word of each parameter that has words. It is immutable, and does not allocate.
type Filter struct {
	ports, switches, blocks []string
	names                   []namePattern
	types, rcodes           []uint16
}

const maxWords = 32

type namePattern struct {
	// wire format, lower case
	wire []byte
	// all names below wire
	below bool
}

// ParseFilter parses the query parameters of api.PathWatch.
func ParseFilter(parameters url.Values) (*Filter, error) {
	f := &Filter{ports: parameters[api.FilterPort], switches: parameters[api.FilterSwitch], blocks: parameters[api.FilterBlock]}
	for _, name := range []string{api.FilterPort, api.FilterSwitch, api.FilterBlock, api.FilterName, api.FilterType, api.FilterRcode} {
		words := parameters[name]
		if len(words) > maxWords {
			return nil, fmt.Errorf("%s: %d words; expected at most %d", name, len(words), maxWords)
		}
		if slices.Contains(words, "") {
			return nil, fmt.Errorf("%s is empty: expected a word", name)
		}
	}
	for _, word := range parameters[api.FilterName] {
		p, err := parseName(word)
		if err != nil {
			return nil, err
		}
		f.names = append(f.names, p)
	}
	for _, word := range parameters[api.FilterType] {
		t, ok := numberOf(word, "TYPE", dns.StringToType)
		if !ok {
			return nil, fmt.Errorf("%s %.80q: expected one such as A, AAAA, PTR or TYPE65", api.FilterType, word)
		}
		f.types = append(f.types, t)
	}
	for _, word := range parameters[api.FilterRcode] {
		r, ok := parseRcode(word)
		if !ok {
			return nil, fmt.Errorf("%s %.80q: expected one such as NOERROR or NXDOMAIN, a number, RESUMED or DROPPED", api.FilterRcode, word)
		}
		f.rcodes = append(f.rcodes, r)
	}
	return f, nil
}

func parseName(word string) (p namePattern, err error) {
	name, below := strings.CutPrefix(word, "*.")
	if name == "" {
		name = "." // of "*."
	}
	if _, ok := dns.IsDomainName(name); !ok {
		return p, fmt.Errorf("%s %.80q: expected a domain name, or *. and one for the names below it", api.FilterName, word)
	}
	wire := make([]byte, 256)
	n, err := dns.PackDomainName(strings.ToLower(dns.Fqdn(name)), wire, 0, nil, false)
	if err != nil {
		return p, fmt.Errorf("%s %.80q: %w", api.FilterName, word, err)
	}
	return namePattern{wire[:n], below}, nil
}

// numberOf parses a name, or prefix and number.
func numberOf(word, prefix string, names map[string]uint16) (n uint16, ok bool) {
	word = strings.ToUpper(word)
	if n, ok = names[word]; ok {
		return n, true
	}
	digits, ok := strings.CutPrefix(word, prefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	return uint16(number), err == nil
}

// also RESUMED and DROPPED
func parseRcode(word string) (rcode uint16, ok bool) {
	switch word = strings.ToUpper(word); word {
	case "RESUMED":
		return RcodeResumed, true
	case "DROPPED":
		return RcodeDropped, true
	case "BADVERS":
		return dns.RcodeBadVers, true
	}
	if n, ok := dns.StringToRcode[word]; ok && n < RcodeResumed {
		return uint16(n), true
	}
	n, err := strconv.ParseUint(word, 10, 12)
	return uint16(n), err == nil
}

func (f *Filter) matches(e *Event) bool {
	return contains(f.ports, e.Port) && contains(f.switches, e.Switch) && f.matchesBlock(e.Block) &&
		f.matchesQuestion(e) && (len(f.rcodes) == 0 || slices.Contains(f.rcodes, e.Rcode))
}

// An empty list contains all.
func contains(words []string, word string) bool {
	return len(words) == 0 || slices.Contains(words, word)
}

func (f *Filter) matchesBlock(b *Block) bool {
	if len(f.blocks) == 0 {
		return true
	}
	if b == nil {
		return false
	}
	for _, word := range b.Words {
		if slices.Contains(f.blocks, word) {
			return true
		}
	}
	return false
}

func (f *Filter) matchesQuestion(e *Event) bool {
	if len(f.types) > 0 {
		if t, ok := e.qtype(); !ok || !slices.Contains(f.types, t) {
			return false
		}
	}
	if len(f.names) == 0 {
		return true
	}
	name := e.name()
	for i := range f.names {
		if f.names[i].matches(name) {
			return true
		}
	}
	return false
}

// name is in wire format.
func (p *namePattern) matches(name []byte) bool {
	if p.below {
		// length byte and label
		for n := len(name); n > len(p.wire); n = len(name) {
			name = name[min(1+int(name[0]), n):]
			if len(name) == len(p.wire) {
				return equalFold(name, p.wire)
			}
		}
		return false
	}
	return len(name) == len(p.wire) && equalFold(name, p.wire)
}

// equalFold compares names of equal length, folded in lower case.
func equalFold(name, folded []byte) bool {
	for i, c := range name {
		if lower(c) != folded[i] {
			return false
		}
	}
	return true
}

// ASCII (RFC 4343). Length bytes are not letters.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
