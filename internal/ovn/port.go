// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
)

// Port is a guest's logical port: a VIF, a container in a VM, a virtual or an external port. It is immutable.
//
// A Port owns little memory: it shares the LogicalPort with the row of the database, and the PortContext
// with other ports.
type Port struct {
	*LogicalPort
	*PortContext
	// Local is set for a guest of the local chassis. Only these guests may ask here.
	Local bool
	// rare is nil if all its fields are empty.
	rare *rarePort
}

// LogicalPort is a logical port as its row describes it. It is immutable once the row is stored.
type LogicalPort struct {
	// Name is the unique Port_Binding.logical_port.
	Name string
	// Type is the type by ovn-sb(5) or ovn-nb(5): "", "virtual" or "external" for a guest.
	Type string
	// Parent is the name of the VM's port of a container.
	Parent string
	// Hostname is options:hostname as a domain name, "" without one.
	Hostname string
	// Addresses are sorted, IPv4 first.
	Addresses []netip.Addr
	// MACs are the hardware addresses that the port has in OVN.
	MACs []origin.MAC
	// Key is the tunnel key of the port (register 14), 0 without Southbound.
	Key uint32
	// Tag is the VLAN id of a container or of a localnet port.
	Tag uint16
	// Service is set if the owner of the port serves a network, see IsServiceOwner. Function is set for a port
	// of a network function (options:is-nf).
	Service, Function bool
}

// PortContext is what a port has from its switch and from its DHCP options. It is immutable.
type PortContext struct {
	// Network and SwitchName are the ID and the name of the logical switch.
	Network    origin.Network
	SwitchName string
	// DatapathKey is the tunnel key of the switch (metadata in the pipeline), 0 without Southbound.
	DatapathKey uint32
	// Domain is the domain of the port in OVN, fully qualified and in lower case, "" for none.
	Domain string
	// DNSServers are the servers that OVN's DHCP gives the guest (options:dns_server of its
	// DHCP_Options rows), IPv4 first, each once. Ports with the same rows share the slice.
	// It is nil without Northbound, and unless Requests.DNSServers asks for it.
	DNSServers []netip.Addr
	// routers is Port.Routers.
	routers string
}

// rarePort is the fields of a Port that are empty for most ports.
type rarePort struct {
	localnets []Localnet
	ids       []ExternalID
}

// ExternalID is a key of external_ids with its value.
type ExternalID = struct{ Key, Value string }

// Localnets returns the ports of the switch through which the packets of an external port enter, sorted by
// name. It is nil for other ports, and unless the port is Local.
func (p *Port) Localnets() []Localnet {
	if p.rare == nil {
		return nil
	}
	return p.rare.localnets
}

// setLocalnets sets Localnets, before p is shared.
func (p *Port) setLocalnets(all []Localnet) {
	if p.rare == nil {
		p.rare = new(rarePort)
	}
	p.rare.localnets = all
}

// Routers implements origin.Attributes. It needs Requests.RouterNames.
func (p *Port) Routers() string { return p.routers }

// ExternalID implements origin.Attributes. It needs the key in Requests.ExternalIDs.
func (p *Port) ExternalID(key string) string {
	if p.rare == nil {
		return ""
	}
	for i := range p.rare.ids {
		if id := &p.rare.ids[i]; id.Key == key {
			return id.Value
		}
	}
	return ""
}

// PortType returns the type by OVN, or TypeService or TypeFunction.
func (p *LogicalPort) PortType() string {
	switch {
	case !IsGuestType(p.Type):
	case p.Service:
		return TypeService
	case p.Function:
		return TypeFunction
	}
	return p.Type
}

// IsServiceOwner reports whether the owner of a port (external_ids:neutron:device_owner) serves a network.
func IsServiceOwner(owner string) bool { return strings.HasPrefix(owner, OwnerNetwork) }

// IsTrue reports whether Open vSwitch reads the text of an option as true (smap_get_bool).
func IsTrue(text string) bool { return strings.EqualFold(text, "true") }

// IsContainer reports whether the port belongs to a container in a VM.
func (p *LogicalPort) IsContainer() bool { return p.Parent != "" && p.Tag != 0 }

// Interface returns the logical port whose interface the guest has: the VM's port for a container.
func (p *LogicalPort) Interface() string {
	if p.IsContainer() {
		return p.Parent
	}
	return p.Name
}
