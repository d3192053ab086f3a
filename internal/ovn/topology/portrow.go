// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// PortRow is what rows of Port_Binding and of Logical_Switch_Port have in common. A large cloud has 100,000
// rows of each, so a PortRow does not store a text beside its parsed form.
type PortRow struct {
	problem.Set
	ovn.LogicalPort
	// Rare is nil if all its fields are empty. It is immutable: versions of a row share it.
	Rare *RareColumns
}

// RareColumns is the columns that are empty for most ports.
type RareColumns struct {
	// Peer is the other end of a patch port, or the router's port of a port of type router.
	Peer        string
	Additional  []ovsdb.UUID // additional_chassis: they have the port too while it migrates
	ExternalIDs []rows.Pair  // external_ids, of the keys that labels are asked for
	etherType   string       // options:ethtype, of the tags of a localnet port
	owner       string       // external_ids:neutron:device_owner that serves a network
	function    string       // options:is-nf
	dynamic     string       // dynamic_addresses
	egress      egress       // in Northbound only
	// hostname is options:hostname, unless LogicalPort.Hostname is the same with a dot.
	hostname string
	// elements is the column of the addresses, unless elementsOf returns the same.
	elements []string
}

var noRareColumns RareColumns

func (p *PortRow) rare() *RareColumns {
	if p.Rare == nil {
		return &noRareColumns
	}
	return p.Rare
}

func (p *PortRow) Peer() string { return p.rare().Peer }

func (p *PortRow) ExternalIDs() []rows.Pair { return p.rare().ExternalIDs }

func (p *PortRow) elements() []string {
	if all := p.rare().elements; all != nil {
		return all
	}
	return elementsOf(p.MACs, p.Addresses)
}

// elementsOf returns the usual column of addresses: one element, "MAC IP...".
func elementsOf(macs []origin.MAC, addresses []netip.Addr) []string {
	if len(macs) == 0 {
		return nil
	}
	var buffer [64]byte
	text := hex.AppendEncode(buffer[:0], macs[0][:1])
	for i := 1; i < len(macs[0]); i++ {
		text = hex.AppendEncode(append(text, ':'), macs[0][i:i+1])
	}
	for _, a := range addresses {
		text = a.AppendTo(append(text, ' '))
	}
	return []string{string(text)}
}

func (p *PortRow) setElements(elements []string) {
	if slices.Equal(elements, elementsOf(p.MACs, p.Addresses)) {
		elements = nil
	}
	if !slices.Equal(elements, p.rare().elements) {
		p.editRare(func(r *RareColumns) { r.elements = elements })
	}
}

func (p *PortRow) editRare(edit func(*RareColumns)) {
	next := *p.rare()
	edit(&next)
	p.Rare = &next
}

func self[T any](value *T) *T { return value }

func rareColumn(c rows.Column[RareColumns]) rows.Column[PortRow] {
	return rows.Shared(c, func(p *PortRow) **RareColumns { return &p.Rare })
}

// ovn-nbctl takes a portName in the place of a UUID.
type portName string

func (n portName) String() string { return fmt.Sprintf("%.200q", string(n)) } // a tenant may have written it

// report names the row that an operator edits: ovn-northd makes a Port_Binding of each Logical_Switch_Port.
func (p *PortRow) report(id ovsdb.UUID, column string) names.Report {
	switch p.Type {
	case ovn.TypePatch, ovn.TypeGateway, typeRedirect:
		return p.Report(SouthboundName, TablePort, id, column)
	}
	return p.Report(NorthboundName, TableSwitchPort, portName(p.Name), column)
}

const typeRedirect = "chassisredirect"

// The columns of the name and the type stand before portColumns.
func portColumns(labelKeys func() []string) []rows.Column[PortRow] {
	hostname := func(p *PortRow) string {
		if text := p.rare().hostname; text != "" {
			return text
		}
		return strings.TrimSuffix(p.Hostname, ".")
	}
	setHostname := func(id ovsdb.UUID, p *PortRow, text string) bool {
		p.Hostname = parseHostname(text, p.report(id, "options:hostname"))
		if text == strings.TrimSuffix(p.Hostname, ".") {
			text = ""
		}
		if text != p.rare().hostname {
			p.editRare(func(r *RareColumns) { r.hostname = text })
		}
		return true
	}
	setOwner := func(_ ovsdb.UUID, p *PortRow, owner string) bool {
		// Each guest has an owner. An owner that is not stored equals none.
		if !ovn.IsServiceOwner(owner) {
			owner = ""
		}
		if owner == p.rare().owner {
			return false
		}
		p.Service = owner != ""
		p.editRare(func(r *RareColumns) { r.owner = owner })
		return true
	}
	return []rows.Column[PortRow]{
		rows.Stored(rows.Key("options", "hostname", self[string]), hostname, setHostname),
		rareColumn(rows.Key("options", ovn.FunctionKey, func(r *RareColumns) *string { return &r.function })).
			Then(func(_ ovsdb.UUID, p *PortRow) { p.Function = ovn.IsTrue(p.rare().function) }),
		rows.Stored(rows.Key("external_ids", ovn.OwnerKey, self[string]), func(p *PortRow) string { return p.rare().owner }, setOwner),
		rareColumn(rows.Keys("external_ids", labelKeys, func(r *RareColumns) *[]rows.Pair { return &r.ExternalIDs })),
	}
}

func portAddresses(name string, parse func(id ovsdb.UUID, p *PortRow, elements []string)) rows.Column[PortRow] {
	return rows.Stored(rows.Strings(name, self[[]string]), (*PortRow).elements, func(id ovsdb.UUID, p *PortRow, elements []string) bool {
		parse(id, p, elements)
		p.setElements(elements)
		return true
	})
}
