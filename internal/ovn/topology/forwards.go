// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

func (n *Northbound) ForwardRows(id origin.Network) (all []ovn.ForwardRow) {
	s := n.Switches.Get(ovsdb.UUID(id))
	if s == nil {
		return nil
	}
	if s.forward != "" {
		all = append(all, ovn.ForwardRow{NamedBy: fmt.Sprintf("switch %.80q", s.Name), Text: s.forward})
	}
	for _, a := range forwardersOf(AttachmentsOf(n, ovsdb.UUID(id))) {
		all = append(all, ovn.ForwardRow{NamedBy: fmt.Sprintf("router %.80q", a.routerName), Text: a.forward})
	}
	return all
}
