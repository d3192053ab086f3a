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
	// Scope has this network only.
	names.Scope
	// Domain is the canonical domain of most names, the first in the alphabet of several, or empty.
	Domain string
	// Time is the time at which the files were read.
	Time time.Time
	// names is the number of names.
	names int
}

// unread stands for a network whose files exist and have not been read.
var unread = new(Network)

// isRead reports whether n has the names of a network.
func (n *Network) isRead() bool { return n != nil && n != unread }

// maxAddresses bounds the addresses of a name: an answer has no room for more (RFC 1035, section 4.2.2: 65,535 bytes, and
// an A record takes 16).
const maxAddresses = 4096

var errAddresses = errors.New("the name has more addresses than an answer holds")

// host is a name, and the domain by which the file completes it, or empty.
type host struct{ name, domain string }

// builder collects the hosts of one network.
type builder struct {
	addresses map[host][]netip.Addr
	counts    map[string]int // of addresses, by name without a domain
	domains   map[string]int // number of lines with a name in the domain
}

func newBuilder() *builder {
	return &builder{map[host][]netip.Addr{}, map[string]int{}, map[string]int{}}
}

// add adds a line: an address with canonical names. Neutron writes a name with its domain,
// then the same without.
func (b *builder) add(a netip.Addr, hostnames []string) error {
	domain, full := "", false
	for _, n := range hostnames {
		if covered(n, hostnames) {
			continue
		}
		h := host{name: n}
		if h.domain = completion(n, hostnames); h.domain == "" {
			// A name of several labels is complete; join does not change it.
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

// completion returns the labels behind n of the longest name that begins with n, or empty.
func completion(n string, all []string) (rest string) {
	for _, other := range all {
		if r, ok := strings.CutPrefix(other, n); ok && len(r) > len(rest) {
			rest = r
		}
	}
	return rest
}

// covered reports whether n is the completed form of a shorter one of the names.
func covered(n string, all []string) bool {
	for _, other := range all {
		if rest := completion(other, all); rest != "" && other+rest == n {
			return true
		}
	}
	return false
}

// parent returns a canonical name without its first label, empty for a single label.
func parent(n string) string {
	i, end := dns.NextLabel(n, 0)
	if end {
		return ""
	}
	return n[i:]
}

// done returns the network. The builder must not be used afterwards.
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
