// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/shell"
)

const maxOtherNetworks = 8

// explain must not be seen by guests, who would learn of other networks.
func (h *Handler) explain(x *explain.Step, s *ovn.Snapshot, a *asker, qname string, qtype uint16, found bool) {
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
	h.findUnreadable(x, s, a, qname, qtype, found)
	if found {
		return
	}
	if h.source.ReadsNorthbound() {
		of := *a // the asker of a query stays on its stack
		x.IfDenied(func() ([]explain.Finding, error) { return h.searchNorthbound(&of, qname) })
	}
	h.findVariants(x, s, a, qname)
	slices.SortFunc(others, func(a, b *ovn.Network) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	own := ovn.SwitchRef{Name: a.scope.Own.Name, ID: a.scope.Own.ID}
	for _, n := range others[:min(len(others), maxOtherNetworks)] {
		x.Find(otherNetwork(qname, ovn.SwitchRef{Name: n.Name, ID: n.ID}, own, h.orRouters()))
	}
	if more := len(others) - maxOtherNetworks; more > 0 {
		x.Find(explain.Finding{Code: api.CodeOtherNetwork, Text: fmt.Sprintf("%s is a name of %d more switches, which this guest is not on", qname, more)})
	}
}

// otherNetwork finds that only another switch has the name.
func otherNetwork(qname string, has, own ovn.SwitchRef, orRouters string) explain.Finding {
	return explain.Finding{
		Code: api.CodeOtherNetwork, Text: fmt.Sprintf("%s is a name of switch %s (%s), and this guest is on switch %s, which does not have it", qname, has.Name, has.ID, own.Name),
		Remedy: fmt.Sprintf("if the guest belongs on switch %s, bind its interface to a port of that switch; if both switches are of one tenant, give switch %s a DNS row with the name%s; if they are of two, that is as it should be", has.Name, own.Name, orRouters),
	}
}

// orRouters returns another way to a second network's names.
func (h *Handler) orRouters() string {
	if h.routers {
		return ", or join both switches by a router"
	}
	return ", or join both switches by a router and set `scope router` in ovnhosts"
}

func (h *Handler) hasName(n *ovn.Network, name string) bool {
	return slices.ContainsFunc(n.Sources(name, h.Domain), func(k names.Candidate) bool { return k.Used })
}

// findUnreadable reports, for a known name, only records that could answer the type.
func (h *Handler) findUnreadable(x *explain.Step, s *ovn.Snapshot, a *asker, qname string, qtype uint16, found bool) {
	for _, id := range a.scope.Networks() {
		n := s.Network(id)
		if n == nil {
			continue
		}
		for _, k := range n.Sources(qname, h.Domain) {
			rrtype, _, _ := names.ParseRRKey(k.Key)
			if !k.Unreadable || found && rrtype != qtype && rrtype != dns.TypeCNAME {
				continue
			}
			x.Find(unreadable(n.Name, qname, &k, h.source.WhyUnreadable(&k)))
		}
	}
}

func unreadable(ofSwitch, qname string, k *names.Candidate, why []string) explain.Finding {
	expected := "IP addresses with spaces or commas between them, or for the reverse name of an address the name that it has"
	if rrtype, _, _ := names.ParseRRKey(k.Key); rrtype != dns.TypeNone {
		expected = "the data of one " + dns.TypeToString[rrtype] + " record a line, as in a zone file (RFC 1035)"
	}
	row := ovsdb.UUID(k.Row).String()
	if len(why) == 0 {
		why = []string{"row " + row + " of table DNS in Northbound"}
	}
	return explain.Finding{
		Code:     api.CodeUnreadable,
		Text:     fmt.Sprintf("switch %s has a record of %s whose value can't be read, so it is not in the answer: %s", ofSwitch, qname, strings.Join(why, "; ")),
		Remedy:   "mend the value in Northbound (`ovn-nbctl set`): expected " + expected,
		Commands: []string{"ovn-nbctl get DNS " + row + " " + shell.Word(k.Column+":"+shell.OVNString(k.Key))},
	}
}

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
			source = "row " + ovsdb.UUID(k.Row).String() + " of table DNS in Northbound"
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
