// SPDX-License-Identifier: Apache-2.0

package interest

import (
	"iter"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func groupsOfName(port string) clause    { return clause{Column: "ports", Includes: true, Text: port} }
func groupsOfRow(port ovsdb.UUID) clause { return idIn("ports", port) }

// readsNorthboundGroups reports whether groups are read from Northbound. Southbound has their names, and not their egress
// policies.
func (u Uses) readsNorthboundGroups() bool { return u.Egress || u.GroupNames && !u.Southbound }

// askGroups requests the groups of guests if they are needed. With Monitor All it requests all groups.
func askGroups(want Conditions, in *Inputs, needed bool, ofGuests iter.Seq[clause]) {
	want.ask(topology.TablePortGroup)
	switch {
	case !needed:
	case !in.Local:
		want.ask(topology.TablePortGroup, everyRow)
	default:
		for of := range ofGuests {
			want.ask(topology.TablePortGroup, of)
		}
	}
}

// guestNames yields the names of the ports of local guests. s is nil unless Southbound is read: then they are the ports
// that have an interface here. A retained guest may have no row.
func guestNames(s *topology.Southbound, in *Inputs) iter.Seq[string] {
	if s == nil {
		return slices.Values(in.Plugged)
	}
	return func(yield func(string) bool) {
		for p := range localGuests(s, in) {
			if !yield(p.Name) {
				return
			}
		}
		for name := range in.Retained {
			if !yield(name) {
				return
			}
		}
	}
}

func southboundGroups(s *topology.Southbound, in *Inputs) iter.Seq[clause] {
	return func(yield func(clause) bool) {
		for name := range guestNames(s, in) {
			if !yield(groupsOfName(name)) {
				return
			}
		}
	}
}

func northboundGroups(n *topology.Northbound, s *topology.Southbound, in *Inputs) iter.Seq[clause] {
	return func(yield func(clause) bool) {
		for name := range guestNames(s, in) {
			if p := n.PortNamed[name]; p != nil && !yield(groupsOfRow(p.ID)) {
				return
			}
		}
	}
}

// Groups reports whether all groups of a guest have come that requests need.
func (c Coverage) Groups(port string) bool {
	if c.GroupNames && c.Southbound != nil && !c.groups(c.SouthboundMonitor, groupsOfName(port)) {
		return false
	}
	if !c.readsNorthboundGroups() {
		return true
	}
	p := c.Northbound.PortNamed[port]
	return p != nil && c.groups(c.NorthboundMonitor, groupsOfRow(p.ID))
}

func (c Coverage) groups(m *Monitor, of clause) bool {
	if !c.Local {
		of = everyRow
	}
	return m.has(topology.TablePortGroup, of)
}
