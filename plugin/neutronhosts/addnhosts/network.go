// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// Network has the names of one network. It is immutable.
type Network struct {
	names.Scope
	// Domain is of most names, the alphabetically first of several, or empty.
	Domain string
	Time   time.Time
	names  int
}

// unread is a network whose files exist and have not been read.
var unread = new(Network)

func (n *Network) isRead() bool { return n != nil && n != unread }

// maxAddresses is an answer's room: 65,535 bytes (RFC 1035, section 4.2.2), 16 for an A record.
const maxAddresses = 4096

var errAddresses = errors.New("the name has more addresses than an answer holds")

// host is a name and its domain, or empty.
type host struct{ name, domain string }

type builder struct {
	addresses map[host][]netip.Addr
	counts    map[string]int // of addresses, by name without a domain
	domains   map[string]int // lines with a name in the domain
}

func newBuilder() *builder {
	return &builder{map[host][]netip.Addr{}, map[string]int{}, map[string]int{}}
}

// add takes Neutron's canonical names: with the domain, then without.
func (b *builder) add(a netip.Addr, hostnames []string) error {
	domain, full := "", false
	for _, n := range hostnames {
		if covered(n, hostnames) {
			continue
		}
		h := host{name: n}
		if h.domain = completion(n, hostnames); h.domain == "" {
			// A name of several labels is complete.
			h.domain = parent(n)
		}
		if b.counts[h.name] == maxAddresses {
			return errAddresses
		}
		b.counts[h.name]++
		b.addresses[h] = append(b.addresses[h], a)
		if h.domain != "" && !full {
			domain, full = h.domain, true
		}
	}
	if full {
		b.domains[domain]++
	}
	return nil
}

// completion returns what the longest name with prefix n adds.
func completion(n string, all []string) (rest string) {
	for _, other := range all {
		if r, ok := strings.CutPrefix(other, n); ok && len(r) > len(rest) {
			rest = r
		}
	}
	return rest
}

// covered reports whether n completes a shorter name.
func covered(n string, all []string) bool {
	for _, other := range all {
		if rest := completion(other, all); rest != "" && other+rest == n {
			return true
		}
	}
	return false
}

// parent is empty for a single label.
func parent(n string) string {
	i, end := dns.NextLabel(n, 0)
	if end {
		return ""
	}
	return n[i:]
}

func (b *builder) done(read time.Time) *Network {
	h := names.NewHostnamesBuilder()
	for host, addresses := range b.addresses {
		h.Add(host.name, host.domain, names.SortAddresses(addresses))
	}
	n := &Network{Time: read}
	hosts := h.Done()
	n.names = hosts.Len()
	directory := names.NewDirectory(nil, hosts)
	n.Scope = names.NewScope(&directory, nil)
	most := 0
	for domain, count := range b.domains {
		if count > most || count == most && domain < n.Domain {
			n.Domain, most = domain, count
		}
	}
	return n
}
