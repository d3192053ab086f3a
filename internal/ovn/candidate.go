// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

const (
	DomainDHCP     = "dhcp"
	DomainSwitch   = "switch"
	DomainCorefile = "corefile"
)

// Candidate is one source's value for a name. Candidates are for operators only.
type Candidate struct {
	names.Candidate
	// Port and DomainFrom are set for a hostname. DomainFrom is "" for a bare name.
	Port       *Port
	DomainFrom string
}

type FoundRow struct {
	Row ovsdb.UUID
	// Addresses is set for column records, the only column with names that ovn-northd copies.
	Addresses bool
	Switches  []SwitchRef
}

// Candidates returns the candidates for a canonical name by precedence.
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

// isSubset excludes disabled ports.
func isSubset(some, all []netip.Addr) bool {
	return !slices.ContainsFunc(some, func(a netip.Addr) bool { return !slices.Contains(all, a) })
}
