// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// This file is for operators. No query is answered by it.

// The origin of the domain of a port's name.
const (
	// DomainDHCP is domain_name in the port's DHCP options.
	DomainDHCP = "dhcp"
	// DomainSwitch is the dns_domain of the switch.
	DomainSwitch = "switch"
	// DomainCorefile is the domain in the Corefile.
	DomainCorefile = "corefile"
)

// Candidate is what one source of a network has for a name.
type Candidate struct {
	names.Candidate
	// Port is the port of a hostname, nil for other sources. DomainFrom is the origin of its domain, "" for a
	// bare name.
	Port       *Port
	DomainFrom string
}

// FoundRow is a row of Northbound's table DNS that has a name.
type FoundRow struct {
	Row ovsdb.UUID
	// Addresses is set if the name is in the column records. ovn-northd copies records to Southbound, and no
	// other column with names.
	Addresses bool
	// Switches refer to the row, each with its name and its ID.
	Switches []SwitchRef
}

// Candidates returns all candidates for a canonical name in the order of precedence, one for each port. The
// domain completes the hostnames of ports that have none.
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

// isNamed reports whether the hostname of a port, bare or with its domain, equals name. ofSwitch is the domain
// of its switch.
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

// isSubset reports whether all has all of some. A disabled port does not add its addresses to the name.
func isSubset(some, all []netip.Addr) bool {
	return !slices.ContainsFunc(some, func(a netip.Addr) bool { return !slices.Contains(all, a) })
}
