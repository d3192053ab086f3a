// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// forwardsBy returns the zones that a network forwards by rows, nil for none. While the rows say the same it
// returns the Forwards of old, the previous version of the network. p gets the problems of the zones.
func forwardsBy(rows []forwardRow, of origin.Network, old *Network, p *problems) *Forwards {
	if f := forwardsOf(old); f != nil && slices.Equal(f.rows, rows) {
		return f
	}
	bad := p.replace(forwardKey).add
	return newForwards(of, rows, func(row forwardRow) names.Report {
		return func(where, value string, err error) {
			bad(fmt.Sprintf("%s: %s: external_ids:%s: %.80q skipped: %v", northboundName, row.namedBy, where, value, err))
		}
	})
}

// forwardRows returns the rows with zones of a network.
func (n *northbound) forwardRows(id origin.Network) (all []forwardRow) {
	s := n.switches.Get(ovsdb.UUID(id))
	if s == nil {
		return nil
	}
	if s.forward != "" {
		all = append(all, forwardRow{fmt.Sprintf("switch %.80q", s.name), s.forward})
	}
	for _, a := range forwardersOf(attachmentsOf(n, ovsdb.UUID(id))) {
		all = append(all, forwardRow{fmt.Sprintf("router %.80q", a.routerName), a.forward})
	}
	return all
}
