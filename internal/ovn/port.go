// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/policy"
)

// Port is a guest's logical port: a VIF, a container in a VM, a virtual or an external port. It is immutable.
// Ports share LogicalPort and PortContext to save memory.
type Port struct {
	*LogicalPort
	*PortContext
	// Local is set for a guest of the local chassis. Only local guests may ask.
	Local bool
	rare  *rarePort
}

// LogicalPort is a logical port's row. It is immutable once the row is stored.
type LogicalPort struct {
	// Name is the unique Port_Binding.logical_port.
	Name string
	// Type is "", "virtual" or "external" for a guest (ovn-sb(5), ovn-nb(5)).
	Type   string
	Parent string
	// Hostname is canonical options:hostname, or "".
	Hostname string
	// Addresses are sorted, IPv4 first.
	Addresses []netip.Addr
	MACs      []origin.MAC
	// Key is register 14, 0 without Southbound.
	Key uint32
	// Tag is the VLAN ID of a container or of a localnet port.
	Tag uint16
	// Service is set by IsServiceOwner, Function by options:is-nf.
	Service, Function bool
}

// PortContext is what a port has from its switch and its DHCP options. It is immutable.
type PortContext struct {
	Network    origin.Network
	SwitchName string
	// DatapathKey is the metadata in the pipeline, 0 without Southbound.
	DatapathKey uint32
	Domain      string
	// DNSServers are OVN's DHCP dns_server options, IPv4 first. They need Northbound and Requests.DNSServers.
	DNSServers []netip.Addr
	routers    string
}

type rarePort struct {
	localnets []Localnet
	groups    string
	egress    []*policy.Policy
	ids       []ExternalID
	arriving  bool
}

type ExternalID = struct{ Key, Value string }

// Localnets returns the ports through which the packets of a local external port enter, by name.
func (p *Port) Localnets() []Localnet {
	if p.rare == nil {
		return nil
	}
	return p.rare.localnets
}

// setLocalnets must run before p is shared.
func (p *Port) setLocalnets(all []Localnet) {
	if p.rare == nil {
		p.rare = new(rarePort)
	}
	p.rare.localnets = all
}

// Routers needs Requests.RouterNames.
func (p *Port) Routers() string { return p.routers }

// Groups needs Requests.GroupNames and a local port.
func (p *Port) Groups() string {
	if p.rare == nil {
		return ""
	}
	return p.rare.groups
}

// Egress returns the egress policies by EgressKey of the port, its switch and its groups, nil for none. A policy stays
// the same by == until its text, or the name of its row, changes, and ports share the policies of their switch and groups. It needs
// Requests.Egress, and is empty unless the port is Local.
func (p *Port) Egress() []*policy.Policy {
	if p.rare == nil {
		return nil
	}
	return p.rare.egress
}

// Arriving reports whether the port is on its way to the local chassis by live migration.
func (p *Port) Arriving() bool { return p.rare != nil && p.rare.arriving }

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

// PortType returns the OVN type, TypeService or TypeFunction.
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

func IsServiceOwner(owner string) bool { return strings.HasPrefix(owner, OwnerNetwork) }

// IsTrue reads an option as Open vSwitch does (smap_get_bool).
func IsTrue(text string) bool { return strings.EqualFold(text, "true") }

func (p *LogicalPort) IsContainer() bool { return p.Parent != "" && p.Tag != 0 }

// Interface returns the logical port with the guest's interface: the VM's port for a container.
func (p *LogicalPort) Interface() string {
	if p.IsContainer() {
		return p.Parent
	}
	return p.Name
}
