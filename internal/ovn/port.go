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
	// Network and SwitchName say which logical switch it is on.
	Network    origin.Network
	SwitchName string
	// DatapathKey is the tunnel key of the switch (metadata in the pipeline)
	// and Key that of the port (register 14). Both are 0 if the Southbound
	// database is not read.
	DatapathKey, Key uint32
	// Parent is the name of the VM's port and Tag its VLAN id, for a container.
	Parent string
	Tag    uint16
	// Hostname is options:hostname as a domain name, "" without one.
	Hostname string
	// Domain is the domain of the port in OVN, fully qualified and in lower case, "" if
	// it has none.
	Domain string
	// Local is set for a guest of the local chassis, which alone may ask here.
	Local bool
	// Addresses are the port's, IPv4 first, sorted.
	Addresses []netip.Addr
	// MACs are the hardware addresses that the port has in OVN.
	MACs []origin.MAC
	// Localnets are the ports of the switch that packets of an external port enter by, in
	// the order of their names. It is nil for others, and where the port is not Local.
	Localnets []Localnet
	// DNSServers are what OVN's DHCP tells the guest to ask (options:dns_server of its
	// DHCP_Options rows), IPv4 first, each once. Ports with the same rows share the slice.
	// It is nil without Northbound, and unless Requests.DNSServers asks for it.
	DNSServers []netip.Addr
	// labels is for Routers and ExternalID, nil if they have nothing.
	labels *portLabels
}

// IsContainer reports whether the port is that of a container in a VM.
func (p *Port) IsContainer() bool { return isContainer(p.Parent, p.Tag) }

func isContainer(parent string, tag uint16) bool { return parent != "" && tag != 0 }

// iface returns the logical port whose interface the guest has: for a container its VM's.
func (p *Port) iface() string { return ifaceOf(p.Name, p.Parent, p.Tag) }

func ifaceOf(name, parent string, tag uint16) string {
	if isContainer(parent, tag) {
		return parent
	}
	return name
}
