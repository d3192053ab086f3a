// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// Inputs is immutable, except AwaitingGroups and Coverage.Networks.
type Inputs struct {
	View       topology.View
	Southbound *topology.Southbound // nil unless read
	Northbound *topology.Northbound // nil unless read
	Coverage   interest.Coverage
	// Guests and Retained decide which Southbound ports are Local. With Northbound alone these are Plugged,
	// sorted.
	Guests   *binding.Inputs
	Retained binding.Guests
	Plugged  []string
	// AwaitingGroups gets the networks without a guest whose port groups have not come.
	AwaitingGroups map[origin.Network]struct{}
}

// Network returns nil without rows or coverage. Unless withPorts is set, it shares the ports of old, the
// previous version. p has the problems of old, and gets the new ones.
func (in *Inputs) Network(id origin.Network, old *ovn.Network, withPorts bool, p *problem.Set) *ovn.Network {
	d := ovn.NetworkData{ID: id, Previous: old}
	dns, ok := in.describe(&d)
	if !ok || !in.Coverage.Network(id) {
		return nil
	}
	var rrs []*topology.NorthboundDNS
	if in.Northbound != nil {
		d.Domain = in.Northbound.Domain(id)
		rrs = in.Northbound.RRRows(id)
		d.Forwards = in.forwards(id, ovn.ForwardsOf(old), p)
	}
	if old != nil && !withPorts {
		d.Ports = old.Ports()
	} else {
		d.Ports = in.ports(&d, old, p.Replace("ports").Add)
	}
	d.Tables = tablesOf(dns)
	for _, r := range rrs {
		d.RRs = append(d.RRs, r.RRs)
	}
	n := ovn.NewNetwork(d)
	bad := p.Replace("dns-cname").Add
	for _, r := range rrs {
		reportAliases(n, r, bad)
	}
	return n
}

// tablesOf sorts DNS rows by UUID and drops duplicates. Several Southbound rows may have the UUID of one
// Northbound row.
func tablesOf(dns []*topology.DNSRow) (all []*names.Table) {
	slices.SortFunc(dns, func(a, b *topology.DNSRow) int { return a.ID.Compare(b.ID) })
	first := 0
	for i, r := range dns {
		if r.ID != dns[first].ID {
			first = i
		}
		if !slices.Contains(dns[first:i], r) {
			all = append(all, r.Table)
		}
	}
	return all
}

func reportAliases(n *ovn.Network, r *topology.NorthboundDNS, bad func(text string)) {
	for name := range r.RRs.Aliases() {
		a, _ := n.Lookup(name, n.Domain)
		if name == n.Domain || len(a.V4)+len(a.V6)+len(a.PTR) > 0 {
			bad(fmt.Sprintf("%s: %s %s: the CNAME record of %.80q skipped on switch %.80q: the name has other records there (RFC 2181, section 10.1)",
				topology.NorthboundName, topology.TableDNS, r.ID, name, n.Name))
		}
	}
}

func (in *Inputs) describe(n *ovn.NetworkData) (dns []*topology.DNSRow, ok bool) {
	if in.Southbound != nil {
		return southboundNetwork(in.Southbound, n)
	}
	return northboundNetwork(in.Northbound, n)
}

func southboundNetwork(s *topology.Southbound, n *ovn.NetworkData) (dns []*topology.DNSRow, ok bool) {
	var first *topology.Datapath
	for id, d := range s.Networks[n.ID] {
		if first == nil || id.Compare(first.ID) < 0 {
			first = d
		}
		for _, r := range s.DNSOf[id] {
			dns = append(dns, &r.DNSRow)
		}
	}
	if first == nil {
		return nil, false
	}
	n.Name, n.DNSMeter = first.Name, s.MeterOf(n.ID)
	return dns, true
}

func northboundNetwork(n *topology.Northbound, to *ovn.NetworkData) (dns []*topology.DNSRow, ok bool) {
	s := n.Switches.Get(ovsdb.UUID(to.ID))
	if s == nil {
		return nil, false
	}
	to.Name = s.Name
	for _, id := range s.DNSRows {
		if r := n.DNS.Get(id); r != nil {
			dns = append(dns, &r.DNSRow)
		}
	}
	return dns, true
}

func (in *Inputs) forwards(id origin.Network, old *ovn.Forwards, p *problem.Set) *ovn.Forwards {
	var rows []ovn.ForwardRow
	if in.Coverage.Forwards {
		rows = in.Northbound.ForwardRows(id)
	}
	if old.HasRows(rows) {
		return old
	}
	bad := p.Replace(ovn.ForwardKey).Add
	return ovn.NewForwards(id, rows, func(row ovn.ForwardRow) names.Report {
		return func(where, value string, err error) {
			bad(fmt.Sprintf("%s: %s: external_ids:%s: %.80q skipped: %v", topology.NorthboundName, row.NamedBy, where, value, err))
		}
	})
}
