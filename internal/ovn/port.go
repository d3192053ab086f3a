// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/origin"
)

// Port is a guest's logical port: a VIF, a container in a VM, a virtual or an external port.
// It is immutable.
type Port struct {
	// Name is the unique Port_Binding.logical_port.
	Name string
	// Type is "", "virtual" or "external".
	Type string
	// Network and SwitchName are the ID and the name of the logical switch.
	Network    origin.Network
	SwitchName string
	// DatapathKey is the tunnel key of the switch (metadata in the pipeline), and Key the tunnel key
	// of the port (register 14). Both are 0 without Southbound.
	DatapathKey, Key uint32
	// Parent is the name of the VM's port, and Tag the VLAN id, of a container.
	Parent string
	Tag    uint16
	// Hostname is options:hostname as a domain name, "" without one.
	Hostname string
	// Domain is the domain of the port in OVN, fully qualified and in lower case, "" for none.
	Domain string
	// Local is set for a guest of the local chassis. Only these guests may ask here.
	Local bool
	// Addresses are sorted, IPv4 first.
	Addresses []netip.Addr
	// MACs are the hardware addresses that the port has in OVN.
	MACs []origin.MAC
	// Localnets are the ports of the switch that packets of an external port enter by, in
	// the order of their names. It is nil for other ports, and unless the port is Local.
	Localnets []Localnet
	// DNSServers are the servers that OVN's DHCP gives the guest (options:dns_server of its
	// DHCP_Options rows), IPv4 first, each once. Ports with the same rows share the slice.
	// It is nil without Northbound, and unless Requests.DNSServers asks for it.
	DNSServers []netip.Addr
	// labels is for Routers and ExternalID, nil if the port has neither.
	labels *portLabels
}

// ExternalID is a key of external_ids with its value.
type ExternalID = struct{ Key, Value string }

// portLabels is the labels of a port for metadata. It is immutable.
type portLabels struct {
	routers string
	ids     []ExternalID
}

// Routers implements origin.Attributes. It needs Requests.RouterNames.
func (p *Port) Routers() string {
	if p.labels == nil {
		return ""
	}
	return p.labels.routers
}

// ExternalID implements origin.Attributes. It needs the key in Requests.ExternalIDs.
func (p *Port) ExternalID(key string) string {
	if p.labels == nil {
		return ""
	}
	for i := range p.labels.ids {
		if id := &p.labels.ids[i]; id.Key == key {
			return id.Value
		}
	}
	return ""
}

// IsContainer reports whether the port is that of a container in a VM.
func (p *Port) IsContainer() bool { return isContainer(p.Parent, p.Tag) }

func isContainer(parent string, tag uint16) bool { return parent != "" && tag != 0 }

// Interface returns the logical port whose interface the guest has: for a container its VM's.
func (p *Port) Interface() string { return InterfaceOf(p.Name, p.Parent, p.Tag) }

func InterfaceOf(name, parent string, tag uint16) string {
	if isContainer(parent, tag) {
		return parent
	}
	return name
}
