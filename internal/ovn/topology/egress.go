// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/policy"
)

// egress is ovn.EgressKey of external_ids. Versions of a row share the policy until the text, or the
// name of the row, changes.
type egress struct {
	text string
	// policy is nil without a text, and empty if puntdns can't parse any entry of the text.
	policy *policy.Policy
}

// columnEgress names the key in texts about bad values.
const columnEgress = columnIDs + ":" + ovn.EgressKey

func (e *egress) parse(table, name string, bad names.Report) {
	if e.policy = nil; e.text != "" {
		e.policy = policy.ParseText(e.text, func(word string, err error) { bad(columnEgress, word, err) })
		e.policy.At = table + " " + name
	}
}

// EgressOf returns the egress policies of a port: the policy of its switch, its own, and the policies of its groups in the
// order of their names. A policy stays the same by == until its text, or the name of its row, changes.
func (n *Northbound) EgressOf(port string) (all []*policy.Policy) {
	p := n.PortNamed[port]
	if p == nil {
		return nil
	}
	if s := n.Switches.Get(n.SwitchOf[p.ID]); s != nil && s.egress.policy != nil {
		all = append(all, s.egress.policy)
	}
	if own := p.rare().egress.policy; own != nil {
		all = append(all, own)
	}
	return append(all, n.PortGroups.of(p.ID).egress...)
}
