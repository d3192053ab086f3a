// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// forwardRows returns the rows with zones of a network.
func (n *northbound) forwardRows(id origin.Network) (all []ForwardRow) {
	s := n.switches.Get(ovsdb.UUID(id))
	if s == nil {
		return nil
	}
	if s.forward != "" {
		all = append(all, ForwardRow{fmt.Sprintf("switch %.80q", s.name), s.forward})
	}
	for _, a := range forwardersOf(attachmentsOf(n, ovsdb.UUID(id))) {
		all = append(all, ForwardRow{fmt.Sprintf("router %.80q", a.routerName), a.forward})
	}
	return all
}
