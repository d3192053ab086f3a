// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// What follows is for operators. No query is answered by it.

// Where the domain of a port's name is from.
const (
	// DomainDHCP is the domain_name of the port's DHCP options.
	DomainDHCP = "dhcp"
	// DomainSwitch is the dns_domain of the switch.
	DomainSwitch = "switch"
	// DomainCorefile is the domain of who asks.
	DomainCorefile = "corefile"
)

// Candidate is what one source of a network says of a name.
type Candidate struct {
	names.Candidate
	// Port is that of a hostname, nil for the others. DomainFrom says where the domain of the
	// name is from, empty for a bare one.
	Port       *Port
	DomainFrom string
}

// Candidates returns all that the network knows of a canonical name, in the order in which it is looked
// at, with a value for each port. The domain completes the hostnames of ports that have none.
func (n *Network) Candidates(name, domain string) (all []Candidate) {
	for _, k := range n.Sources(name, domain) {
		if k.Row != ([16]byte{}) || k.Derived {
			all = append(all, Candidate{Candidate: k})
			continue
		}
		before := len(all)
		for _, p := range n.ports.all {
			if from, ok := p.isNamed(name, domain, n.Domain); ok && isSubset(p.Addresses, k.Addresses) {
				of := k
				of.Addresses = p.Addresses
				all = append(all, Candidate{of, p, from})
			}
		}
		slices.SortFunc(all[before:], func(a, b Candidate) int { return compareNames(a.Port, b.Port) })
	}
	return all
}

func compareNames(a, b *Port) int {
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

// isNamed reports whether the hostname of a port, bare or with its domain, is a name, and where the
// domain is from. ofSwitch is the domain of its switch.
func (p *Port) isNamed(name, domain, ofSwitch string) (from string, ok bool) {
	if p.Hostname == "" || len(p.Addresses) == 0 {
		return "", false
	}
	from = DomainDHCP
	switch p.Domain {
	case "":
		from = DomainCorefile
	case ofSwitch:
		domain, from = p.Domain, DomainSwitch
	default:
		domain = p.Domain
	}
	if p.Hostname == name {
		return "", true
	}
	full, ok := names.Join(p.Hostname, domain)
	return from, ok && domain != "" && full == name
}

// isSubset reports whether all addresses of a port are among those of its name: those of a port that
// is disabled are not.
func isSubset(some, all []netip.Addr) bool {
	return !slices.ContainsFunc(some, func(a netip.Addr) bool { return !slices.Contains(all, a) })
}
