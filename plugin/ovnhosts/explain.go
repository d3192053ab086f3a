// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// maxOtherNetworks bounds the networks that an explanation names.
const maxOtherNetworks = 8

// explain shows an operator what the asker's networks, and other networks, have for a name. No guest sees this:
// it would learn of other networks.
func (h *Handler) explain(x *explain.Step, s *ovn.Snapshot, a *asker, qname string, found bool) {
	scope := a.scope.Networks()
	x.Notef("asks for switch %s (%s), domain %s", a.scope.Own.Name, a.scope.Own.ID, cmp.Or(a.domain, "none"))
	if len(scope) > 1 {
		x.Notef("%d networks are joined by routers", len(scope))
	}
	if a.unread {
		x.Notef("the networks that routers join to it have not been read yet: nothing can be denied")
	}
	h.explainKnown(x, a.scope.Own, qname)
	var others []*ovn.Network
	for n := range s.Networks() {
		switch {
		case n == a.scope.Own || len(n.Sources(qname, h.Domain)) == 0:
		case slices.Contains(scope, n.ID):
			h.explainKnown(x, n, qname)
		case h.hasName(n, qname):
			others = append(others, n)
		}
	}
	if found {
		return
	}
	h.findUnreadable(x, s, a, qname)
	h.findVariants(x, s, a, qname)
	slices.SortFunc(others, func(a, b *ovn.Network) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, n := range others[:min(len(others), maxOtherNetworks)] {
		x.Find(explain.Finding{
			Code: explain.OtherNetwork, Text: fmt.Sprintf("%s is a name of switch %s (%s), and this guest is on switch %s, which does not have it", qname, n.Name, n.ID, a.scope.Own.Name),
			Remedy: fmt.Sprintf("if the guest belongs on switch %s, bind its interface to a port of that switch; if both switches are of one tenant, give switch %s a DNS row with the name%s; if they are of two, that is as it should be", n.Name, a.scope.Own.Name, h.orRouters()),
		})
	}
	if more := len(others) - maxOtherNetworks; more > 0 {
		x.Find(explain.Finding{Code: explain.OtherNetwork, Text: fmt.Sprintf("%s is a name of %d more switches, which this guest is not on", qname, more)})
	}
}

// orRouters returns another way to the names of a second network.
func (h *Handler) orRouters() string {
	if h.routers {
		return ", or join both switches by a router"
	}
	return ", or join both switches by a router and set `scope router` in ovnhosts"
}

// hasName reports whether a network has a name with a valid value.
func (h *Handler) hasName(n *ovn.Network, name string) bool {
	return slices.ContainsFunc(n.Sources(name, h.Domain), func(k names.Candidate) bool { return k.Used })
}

// findUnreadable reports the records of a name whose values are invalid.
func (h *Handler) findUnreadable(x *explain.Step, s *ovn.Snapshot, a *asker, qname string) {
	for _, id := range a.scope.Networks() {
		n := s.Network(id)
		if n == nil {
			continue
		}
		for _, k := range n.Sources(qname, h.Domain) {
			if !k.Unreadable {
				continue
			}
			row, list := ovsdb.UUID(k.Row).String(), "ovn-nbctl list DNS "
			if h.source.DNSDatabase(&k) == "OVN_Southbound" {
				list = "ovn-sbctl list DNS "
			}
			x.Find(explain.Finding{
				Code: explain.Unreadable, Text: fmt.Sprintf("switch %s has a record of %s in row %s of table DNS, but its value can't be read, so there is no such name", n.Name, qname, row),
				Remedy: "mend the value: expected IP addresses with spaces or commas between them, or for the reverse name of an address the name that it has", Commands: []string{list + row},
			})
		}
	}
}

// explainKnown shows a network's sources of a name, and which one wins.
func (h *Handler) explainKnown(x *explain.Step, n *ovn.Network, qname string) {
	all := n.Candidates(qname, h.Domain)
	if len(all) == 0 {
		x.Notef("switch %s does not know the name", n.Name)
	}
	for i := range all {
		k := &all[i]
		source := "port"
		switch {
		case k.Row != ([16]byte{}):
			source = "row " + ovsdb.UUID(k.Row).String() + " of table DNS"
		case k.Port != nil:
			source = "hostname of port " + k.Port.Name
			if k.DomainFrom != "" {
				source += ", domain from " + k.DomainFrom
			}
		case k.Derived:
			source = "derived from other names of the switch"
		}
		var data []string
		for _, a := range k.Addresses {
			data = append(data, a.String())
		}
		what := strings.Join(slices.Concat(data, k.Targets, k.Records), " ")
		switch {
		case k.Unreadable:
			what = "it has no value that can be read"
		case !k.Used:
			what += ", which another one goes before"
		}
		x.Notef("switch %s: %s: %s", n.Name, source, what)
	}
}

// explainSkipped shows why the handler does not look a name up.
func (h *Handler) explainSkipped(x *explain.Step, o *origin.Origin, zone string) {
	switch {
	case zone == "":
		x.Notef("the name is in none of its zones: %s", strings.Join(h.Zones, " "))
	case o != nil:
		x.Notef("the network of port %s is not known, so it has no names here", o.Port)
	default:
		x.Notef("no network, no names")
	}
}
