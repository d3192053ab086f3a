// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
)

// Network is a logical switch with its names. It is immutable.
type Network struct {
	// ID is the UUID of the Northbound Logical_Switch.
	ID origin.Network
	// Name is the Logical_Switch.name, which need not be unique.
	Name string
	// Domain is other_config:dns_domain or external_ids:dns_domain of the
	// switch, fully qualified and in lower case, "" without Northbound.
	Domain string
	// HasLocalport is set if the switch has a port of type localport. That of
	// ML2/OVN's metadata agent answers for 169.254.169.254, though no row says
	// so.
	HasLocalport bool

	rows  []*table // in the order of their UUIDs
	wild  bool     // a row has a wildcard
	ports *ports
}

// Sources of an Answer.
const (
	FromDNS  = "dns"  // records of a DNS row
	FromPort = "port" // hostname of a port
)

// Answer is what a network knows of a name. The slices are shared: do not
// change them.
type Answer struct {
	// V4 and V6 are the addresses of the name.
	V4, V6 []netip.Addr
	// PTR are the targets of a name below in-addr.arpa or ip6.arpa: fully
	// qualified, in presentation form.
	PTR []string
	// Source is FromDNS or FromPort.
	Source string
	// OVNOwned is set for a row with options:ovn-owned=true: a query for the
	// name never leaves the node.
	OVNOwned bool
}

// Lookup finds a name. The name is fully qualified, in lower case and in the
// presentation form of miekg/dns. Domain (the same form, or "") completes the
// hostnames of ports for which OVN states no domain: it belongs to who asks and
// not to the network, since several may read one network with different ones.
//
// Of several sources of one name the first counts, as a whole: the DNS rows in
// the order of their UUIDs, then the ports, all of that hostname together. A
// record without a readable value is as good as absent, but that of a row that OVN
// owns is the name's without data.
//
// A reverse name is answered with a record of that name; else with the names
// whose address it is, in the same order of sources. Fully qualified names are
// preferred to single labels, and there are only names that lead back to that
// address. A wildcard record is no name of its addresses.
//
// A name that does not exist is answered with a wildcard record of a DNS row, if
// there is one right below the closest encloser (RFC 4592, section 3.3). All
// names of the network, its ports' included, are one tree in that.
func (n *Network) Lookup(name, domain string) (Answer, bool) {
	if a, ok := n.forward(name, domain); ok {
		return a, true
	}
	if addr, ok := parseReverse(name); ok {
		if a, ok := n.reverse(addr, domain); ok {
			return a, true
		}
	}
	if a, ok := n.synthesize(name, domain); ok {
		return a, true
	}
	// A name of a row that OVN owns is nobody else's to answer.
	for _, row := range n.rows {
		if row.owned && row.has(name) {
			return Answer{Source: FromDNS, OVNOwned: true}, true
		}
	}
	return Answer{}, false
}

func (n *Network) forward(name, domain string) (Answer, bool) {
	for _, row := range n.rows {
		if e := row.find(name); e != nil {
			return e.answer(FromDNS, row.owned), true
		}
	}
	if e := n.ports.names[name]; e != nil {
		return e.answer(FromPort, false), true
	}
	if bare, ok := strings.CutSuffix(name, domain); ok && domain != "" {
		if e := n.ports.plain[bare]; e != nil {
			return e.answer(FromPort, false), true
		}
	}
	return Answer{}, false
}

func (n *Network) reverse(addr netip.Addr, domain string) (Answer, bool) {
	for _, row := range n.rows {
		if names := n.confirm(row.reverse.find(addr), addr, domain); len(names) > 0 {
			return Answer{PTR: names, Source: FromDNS, OVNOwned: row.owned}, true
		}
	}
	names := n.confirm(n.ports.fqdns.find(addr), addr, domain)
	if len(names) == 0 {
		names = n.confirm(qualify(n.ports.bare.find(addr), domain), addr, domain)
	}
	return Answer{PTR: names, Source: FromPort}, len(names) > 0
}

// hasWithin tells whether PTR records are derived for an address of the prefix.
func (n *Network) hasWithin(p netip.Prefix) bool {
	for _, row := range n.rows {
		if row.reverse.within(p) {
			return true
		}
	}
	return n.ports.fqdns.within(p) || n.ports.bare.within(p)
}

// confirm returns the names that have the address: a row may have one that is
// overridden by another row. It copies only if some have not.
func (n *Network) confirm(names []string, addr netip.Addr, domain string) []string {
	has := func(name string) bool {
		a, _ := n.forward(name, domain)
		return slices.Contains(a.V4, addr) || slices.Contains(a.V6, addr)
	}
	for i, name := range names {
		if has(name) {
			continue
		}
		kept := slices.Clone(names[:i])
		for _, name := range names[i+1:] {
			if has(name) {
				kept = append(kept, name)
			}
		}
		return kept
	}
	return names
}

func qualify(names []string, domain string) []string {
	if domain == "" || len(names) == 0 {
		return names
	}
	full := make([]string, 0, len(names))
	for _, name := range names {
		if joined, ok := join(name, domain); ok {
			full = append(full, joined)
		}
	}
	return full
}

// Owns reports whether a port of the switch has the address, guests or not.
// ARP and neighbour solicitations for it are not ours to answer.
func (n *Network) Owns(addr netip.Addr) bool {
	_, ok := n.ports.owners[addr.Unmap()]
	return ok
}
