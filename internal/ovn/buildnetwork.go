// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// networkInputs is all that a network is made of. It is read, never changed.
type networkInputs struct {
	topology topology
	sb       *southbound // nil if it is not read
	nb       *northbound // nil if it is not read
	covered  covered
	// guests and retained decide which ports of Southbound are Local. Where Northbound is read alone, these are
	// the ports of plugged, sorted.
	guests   *guestInputs
	retained guestSet
	plugged  []string
}

// network returns one network by the rows, nil if it has no rows or is not covered. Unless withPorts is set
// the network shares the ports of old, the previous version. p are the problems of that version, and get
// those of the network.
func (in *networkInputs) network(id origin.Network, old *Network, withPorts bool, p *problems) *Network {
	d := NetworkData{ID: id}
	dns, ok := in.describe(&d)
	if !ok || !in.covered.network(id) {
		return nil
	}
	var rrs []*northboundDNS
	if in.nb != nil {
		d.Domain = in.nb.domain(id)
		rrs = in.nb.rrRows(id)
		d.Forwards = in.forwards(id, forwardsOf(old), p)
	}
	if old != nil && !withPorts {
		d.Ports = old.Ports()
	} else {
		d.Ports = in.ports(&d, p.replace("ports").add)
	}
	slices.SortFunc(dns, func(a, b *dnsRow) int { return a.id.Compare(b.id) })
	for _, r := range slices.Compact(dns) {
		d.Tables = append(d.Tables, r.table)
	}
	for _, r := range rrs {
		d.RRs = append(d.RRs, r.rrs)
	}
	n := NewNetwork(d)
	bad := p.replace("dns-cname").add
	for _, r := range rrs {
		reportAliases(n, r, bad)
	}
	return n
}

// reportAliases reports the CNAME records of a row whose names have other records in a network. The
// network skips them.
func reportAliases(n *Network, r *northboundDNS, bad func(text string)) {
	for name := range r.rrs.Aliases() {
		a, _ := n.Lookup(name, n.Domain)
		if name == n.Domain || len(a.V4)+len(a.V6)+len(a.PTR) > 0 {
			bad(fmt.Sprintf("%s: %s %s: the CNAME record of %.80q skipped on switch %.80q: the name has other records there (RFC 2181, section 10.1)",
				northboundName, tableDNS, r.id, name, n.Name))
		}
	}
}

// describe sets what the rows say of a network, and returns its DNS rows in any order, some perhaps more than
// once. It reports whether there is such a network.
func (in *networkInputs) describe(n *NetworkData) (dns []*dnsRow, ok bool) {
	if in.sb != nil {
		return southboundNetwork(in.sb, n)
	}
	return northboundNetwork(in.nb, n)
}

func southboundNetwork(s *southbound, n *NetworkData) (dns []*dnsRow, ok bool) {
	var first *datapath
	for id, d := range s.networks[n.ID] {
		if first == nil || id.Compare(first.id) < 0 {
			first = d
		}
		for _, r := range s.dnsOf[id] {
			dns = append(dns, &r.dnsRow)
		}
	}
	if first == nil {
		return nil, false
	}
	n.Name, n.DNSMeter = first.name, s.meterOf(n.ID)
	return dns, true
}

func northboundNetwork(n *northbound, to *NetworkData) (dns []*dnsRow, ok bool) {
	s := n.switches.Get(ovsdb.UUID(to.ID))
	if s == nil {
		return nil, false
	}
	to.Name = s.name
	for _, id := range s.dnsRows {
		if r := n.dns.Get(id); r != nil {
			dns = append(dns, &r.dnsRow)
		}
	}
	return dns, true
}

// forwards returns the zones that a network forwards, nil for none. old are those of its previous version.
func (in *networkInputs) forwards(id origin.Network, old *Forwards, p *problems) *Forwards {
	var rows []ForwardRow
	if in.covered.forwards {
		rows = in.nb.forwardRows(id)
	}
	if old.HasRows(rows) {
		return old
	}
	bad := p.replace(forwardKey).add
	return NewForwards(id, rows, func(row ForwardRow) names.Report {
		return func(where, value string, err error) {
			bad(fmt.Sprintf("%s: %s: external_ids:%s: %.80q skipped: %v", northboundName, row.NamedBy, where, value, err))
		}
	})
}
