// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

const (
	// maxSearch is for one name.
	maxSearch = 2 * time.Second
	// maxCopy is the wait for ovn-northd, which may be copying the row.
	maxCopy = time.Second
)

// searchNorthbound searches the whole table DNS of Northbound.
func (h *Handler) searchNorthbound(a *asker, qname string) ([]explain.Finding, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxSearch)
	defer cancel()
	found, err := h.source.FindDNS(ctx, qname)
	if err != nil {
		return nil, fmt.Errorf("OVN_Northbound was not searched for the name: %w", err)
	}
	late := time.After(maxCopy)
	for {
		changed := h.source.Changed()
		all := h.northboundFindings(a, qname, found)
		if !slices.ContainsFunc(all, func(f explain.Finding) bool { return f.Code == api.CodeNorthd }) {
			return all, nil
		}
		select {
		case <-changed:
		case <-late:
			return all, nil
		}
	}
}

func (h *Handler) northboundFindings(a *asker, qname string, found []ovn.FoundRow) (all []explain.Finding) {
	s := h.source.Snapshot()
	of := northboundSearch{
		qname: qname, own: ovn.SwitchRef{Name: a.scope.Own.Name, ID: a.scope.Own.ID}, scope: a.scope.Networks(), copied: h.source.IsCopied(),
		isKnown: func(id origin.Network) bool { return s.Network(id) != nil },
		hasRow: func(id origin.Network, row [16]byte) bool {
			n := s.Network(id)
			return n == nil || slices.ContainsFunc(n.Sources(qname, h.Domain), func(k names.Candidate) bool { return k.Row == row })
		},
	}
	for i := range found {
		all = append(all, of.findings(&found[i], h.orRouters())...)
	}
	return most(all)
}

// most returns maxOtherNetworks findings of each code: many tenants may have one name.
func most(all []explain.Finding) (some []explain.Finding) {
	seen := map[string]int{}
	for _, f := range all {
		if seen[f.Code]++; seen[f.Code] <= maxOtherNetworks {
			some = append(some, f)
		}
	}
	return some
}

type northboundSearch struct {
	qname string
	own   ovn.SwitchRef
	scope []origin.Network
	// copied: ovn-northd copies names to Southbound.
	copied bool
	// isKnown: the network is read; hasRow: it has the row's name.
	isKnown func(origin.Network) bool
	hasRow  func(id origin.Network, row [16]byte) bool
}

// findings says why a row does not give the guest the name.
func (n *northboundSearch) findings(r *ovn.FoundRow, orRouters string) (all []explain.Finding) {
	if len(r.Switches) == 0 {
		return []explain.Finding{{
			Code: api.CodeNoSwitch, Text: fmt.Sprintf("Northbound has %s in row %s of table DNS, and no logical switch refers to that row", n.qname, r.Row),
			Remedy:   fmt.Sprintf("if it is a name for switch %s, add the row to dns_records of the switch", n.own.Name),
			Commands: []string{"ovn-nbctl list DNS " + r.Row.String(), "ovn-nbctl add Logical_Switch " + n.own.ID.String() + " dns_records " + r.Row.String()},
		}}
	}
	for _, sw := range r.Switches {
		switch {
		case !slices.Contains(n.scope, sw.ID):
			if !n.isKnown(sw.ID) { // else explain has found it
				all = append(all, otherNetwork(n.qname, sw, n.own, orRouters))
			}
		case n.copied && r.Addresses && !n.hasRow(sw.ID, r.Row):
			all = append(all, explain.Finding{
				Code: api.CodeNorthd, Text: fmt.Sprintf("Northbound has %s in row %s of table DNS for switch %s, and Southbound does not have it: ovn-northd has not copied the row", n.qname, r.Row, sw.Name),
			})
		}
	}
	return all
}
