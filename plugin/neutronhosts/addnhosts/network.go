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
	// Scope is of this network alone.
	names.Scope
	// Domain is the one that most of the names have, canonical; of several the first in
	// the alphabet, and empty if no name has one.
	Domain string
	// Time is when its files were read.
	Time time.Time
	// names is how many there are.
	names int
}

// unread stands for a network whose files are there, and could not be read yet.
var unread = new(Network)

// isRead reports whether n has the names of a network.
func (n *Network) isRead() bool { return n != nil && n != unread }

// maxAddresses bounds those of a name: no answer holds more (RFC 1035, section 4.2.2: 65,535
// bytes, and an A record takes 16).
const maxAddresses = 4096

var errAddresses = errors.New("the name has more addresses than an answer holds")

// host is a name, and the domain that the file completes it with, empty if it does not.
type host struct{ name, domain string }

// builder collects the hosts of one network.
type builder struct {
	addresses map[host][]netip.Addr
	counts    map[string]int // of addresses, by name without a domain
	domains   map[string]int // how many lines have a name in it
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
			// A name of several labels is complete as it is; join leaves it alone.
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

// completion returns what the longest of the names has behind n, empty if none begins with
// the labels of n.
func completion(n string, all []string) (rest string) {
	for _, other := range all {
		if r, ok := strings.CutPrefix(other, n); ok && len(r) > len(rest) {
			rest = r
		}
	}
	return rest
}

// covered reports whether n is a shorter one of the names, completed.
func covered(n string, all []string) bool {
	for _, other := range all {
		if rest := completion(other, all); rest != "" && other+rest == n {
			return true
		}
	}
	return false
}

// parent is a canonical name without its first label, empty for a single label.
func parent(n string) string {
	i, end := dns.NextLabel(n, 0)
	if end {
		return ""
	}
	return n[i:]
}

// done returns the network. The builder must not be used any more.
func (b *builder) done(read time.Time) *Network {
	h := names.NewHostsBuilder()
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
