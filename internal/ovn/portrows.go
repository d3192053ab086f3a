// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// portRows collects the ports of one network from the rows of both databases.
type portRows struct {
	*networkInputs
	PortsData
	domain string // of the network
	// servers has the DNS servers by the rows of DHCP options, nil unless a request asks for them.
	servers map[dhcpRows][]netip.Addr
	bad     func(text string)
}

// portBuffers has buffers for PortsData.Ports: a large network may be built often.
var portBuffers = sync.Pool{New: func() any { return new([]PortData) }}

// ports returns the ports of a network.
func (in *networkInputs) ports(d *NetworkData, bad func(text string)) *Ports {
	uses := in.covered.uses
	to := portRows{
		networkInputs: in, domain: d.Domain, bad: bad,
		PortsData: PortsData{Network: d.ID, Switch: d.Name, Machines: uses.dnsServers},
	}
	if uses.dnsServers {
		to.servers = make(map[dhcpRows][]netip.Addr)
	}
	var attachments []attachment
	if uses.attachments() {
		attachments = attachmentsOfNetwork(in.topology, d.ID)
	}
	if uses.routerNames {
		to.Routers = routerNamesOf(attachments)
	}
	if uses.gateways {
		to.Gateways = gatewaysOf(attachments)
	}
	buffer := portBuffers.Get().(*[]PortData)
	to.Ports = *buffer
	if in.sb != nil {
		to.addSouthbound()
	} else {
		to.addNorthbound()
	}
	ports, problems := NewPorts(to.PortsData)
	clear(to.Ports)
	*buffer = to.Ports[:0]
	portBuffers.Put(buffer)
	for _, text := range problems {
		bad(southboundName + ": " + text)
	}
	return ports.WithRetained(in.retained.of(d.ID))
}

// dnsServers returns the DNS servers of ports with those DHCP options. Ports with the same options share
// the slice.
func (to *portRows) dnsServers(of dhcpRows) []netip.Addr {
	if to.servers == nil || of == (dhcpRows{}) {
		return nil
	}
	all, ok := to.servers[of]
	if !ok {
		all = to.nb.dnsServers(of, to.bad)
		to.servers[of] = all
	}
	return all
}

// addSouthbound adds the ports and the tunnel keys of Southbound, completed by Northbound.
func (to *portRows) addSouthbound() {
	for id, d := range to.sb.networks[to.Network] {
		to.Keys = append(to.Keys, d.key)
		to.Ports = slices.Grow(to.Ports, len(to.sb.portsOf[id]))
		for row, p := range to.sb.portsOf[id] {
			to.Ports = append(to.Ports, PortData{
				Name: p.name, Type: p.effectiveKind(), DatapathKey: d.key, Key: p.key, Parent: p.parent, Tag: p.tag,
				ServiceTag: p.etherType == "802.11ad", Hostname: p.canonical, Domain: to.domain, Addresses: p.addresses.static, MACs: p.addresses.macs,
				Local: to.retained.serves(to.guests, row, p, d.key), ExternalIDs: p.ids,
			})
			if to.nb != nil {
				to.complete(&to.Ports[len(to.Ports)-1])
			}
		}
	}
}

// addNorthbound adds the ports where Northbound is read alone.
func (to *portRows) addNorthbound() {
	s := to.nb.switches.Get(ovsdb.UUID(to.Network))
	to.Ports = slices.Grow(to.Ports, len(s.ports))
	for _, id := range s.ports {
		p := to.nb.ports.Get(id)
		if p == nil {
			continue
		}
		_, isPlugged := slices.BinarySearch(to.plugged, p.name)
		to.Ports = append(to.Ports, PortData{
			Name: p.name, Type: effectiveKind(p.kind, p.owner, p.function), Parent: p.parent, Tag: p.tag,
			Hostname: p.canonical, Domain: to.domain, Local: isPlugged, ExternalIDs: p.ids,
		})
		to.complete(&to.Ports[len(to.Ports)-1])
	}
}

// complete sets what only Northbound has of a port: the addresses that northd chose, the domain and
// the DNS servers of its DHCP options, and whether it is disabled. A row of that name on another switch
// does not count: northd has not moved the port yet.
func (to *portRows) complete(d *PortData) {
	n := to.nb
	p := n.portNamed[d.Name]
	if p == nil || n.switchOf[p.id] != ovsdb.UUID(to.Network) {
		return
	}
	d.Addresses, d.MACs = p.allAddresses(), p.allMACs()
	d.Disabled = p.disabled
	if isGuest(d.Type) {
		d.DNSServers = to.dnsServers(p.dhcp)
	}
	if o := n.dhcp.Get(p.dhcp.v4); o != nil && o.domain != "" {
		d.Domain = o.domain
	}
}
