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

// Filter says which events are wanted: those that have one of the words of each parameter that has
// words. It allocates nothing to decide. It is immutable.
type Filter struct {
	ports, switches, blocks []string
	names                   []namePattern
	types, rcodes           []uint16
}

// maxWords is how many words a parameter may have.
const maxWords = 32

// namePattern is a name, or all names below one.
type namePattern struct {
	// wire is the name in the form of a message and in lower case.
	wire []byte
	// below is set for the names below it, at whatever depth.
	below bool
}

// ParseFilter parses the parameters of api.PathWatch that are of queries.
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

// numberOf returns the number of a word, which is a name or has a prefix before the number. It reports
// whether it is one.
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

// parseRcode returns an rcode, or the outcome of a query without one. It reports whether the word is one.
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

// matches reports whether an event is wanted.
func (f *Filter) matches(e *Event) bool {
	return contains(f.ports, e.Port) && contains(f.switches, e.Switch) && f.matchesBlock(e.Block) &&
		f.matchesQuestion(e) && (len(f.rcodes) == 0 || slices.Contains(f.rcodes, e.Rcode))
}

// contains reports whether a word is one of those that are wanted: all are where there are none.
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

// matches reports whether a name in the form of a message is meant.
func (p *namePattern) matches(name []byte) bool {
	if p.below {
		// A label is its length and as many bytes.
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

// equalFold reports whether a name is another one, which is in lower case and as long.
func equalFold(name, folded []byte) bool {
	for i, c := range name {
		if lower(c) != folded[i] {
			return false
		}
	}
	return true
}

// lower maps the letters of ASCII (RFC 4343). The length bytes of labels are no letters.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
