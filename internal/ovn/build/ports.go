// SPDX-License-Identifier: Apache-2.0

package build

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

type portRows struct {
	*Inputs
	ovn.PortsData
	domain  string
	old     []*ovn.Port
	servers map[topology.DHCPRows][]netip.Addr
	bad     func(text string)
}

// A large network may be built often.
var portBuffers = sync.Pool{New: func() any { return new([]ovn.PortData) }}

func (in *Inputs) ports(d *ovn.NetworkData, old *ovn.Network, bad func(text string)) *ovn.Ports {
	uses := in.Coverage.Uses
	to := portRows{
		Inputs: in, domain: d.Domain, bad: bad,
		PortsData: ovn.PortsData{Network: d.ID, Switch: d.Name, Machines: uses.DNSServers},
	}
	if uses.DNSServers {
		to.servers = make(map[topology.DHCPRows][]netip.Addr)
	}
	var attachments []topology.Attachment
	if uses.Attachments() {
		attachments = topology.AttachmentsOfNetwork(in.View, d.ID)
	}
	if uses.RouterNames {
		to.Routers = topology.RouterNamesOf(attachments)
	}
	if uses.Gateways {
		to.Gateways = topology.GatewaysOf(attachments)
	}
	if old != nil {
		to.old = old.Ports().Guests()
	}
	buffer := portBuffers.Get().(*[]ovn.PortData)
	to.Ports = *buffer
	if in.Southbound != nil {
		to.addSouthbound()
	} else {
		to.addNorthbound()
	}
	ports, problems := ovn.NewPorts(to.PortsData)
	clear(to.Ports)
	*buffer = to.Ports[:0]
	portBuffers.Put(buffer)
	for _, text := range problems {
		bad(topology.NorthboundName + ": " + text)
	}
	return ports.WithRetained(in.Retained.Of(d.ID))
}

// Ports with the same options share the slice.
func (to *portRows) dnsServers(of topology.DHCPRows) []netip.Addr {
	if to.servers == nil || of == (topology.DHCPRows{}) {
		return nil
	}
	all, ok := to.servers[of]
	if !ok {
		all = to.Northbound.DNSServers(of, to.bad)
		to.servers[of] = all
	}
	return all
}

func (to *portRows) addSouthbound() {
	for id, d := range to.Southbound.Networks[to.PortsData.Network] {
		to.Keys = append(to.Keys, d.Key)
		to.Ports = slices.Grow(to.Ports, len(to.Southbound.PortsOf[id]))
		for row, p := range to.Southbound.PortsOf[id] {
			to.Ports = append(to.Ports, ovn.PortData{
				LogicalPort: &p.LogicalPort, DatapathKey: d.Key, ServiceTag: p.HasServiceTag(), Domain: to.domain,
				Local: to.Retained.Serves(to.Guests, row, p, d.Key), Arriving: to.Southbound.IsArriving(p), ExternalIDs: p.ExternalIDs(),
			})
			if to.Northbound != nil {
				to.addNorthboundColumns(&to.Ports[len(to.Ports)-1])
			}
			to.addGroups(&to.Ports[len(to.Ports)-1])
		}
	}
}

func (to *portRows) addNorthbound() {
	s := to.Northbound.Switches.Get(ovsdb.UUID(to.PortsData.Network))
	to.Ports = slices.Grow(to.Ports, len(s.Ports))
	for _, id := range s.Ports {
		p := to.Northbound.Ports.Get(id)
		if p == nil {
			continue
		}
		_, isPlugged := slices.BinarySearch(to.Plugged, p.Name)
		to.Ports = append(to.Ports, ovn.PortData{
			LogicalPort: &p.LogicalPort, Domain: to.domain, Local: isPlugged, ExternalIDs: p.ExternalIDs(),
		})
		to.addNorthboundColumns(&to.Ports[len(to.Ports)-1])
		to.addGroups(&to.Ports[len(to.Ports)-1])
	}
}

// addGroups adds the groups of a guest, and its egress policies. A new guest whose groups have not come is no guest yet:
// a view or an egress policy by group would miss its first queries. A guest of the previous version stays, since a
// reload that asks for groups must not stop it. For egress policies a guest needs its row of Northbound.
func (to *portRows) addGroups(d *ovn.PortData) {
	uses := to.Coverage.Uses
	if !uses.GroupNames && !uses.Egress || !d.Local || !ovn.IsGuestType(d.PortType()) {
		return
	}
	if uses.Egress && to.northboundRow(d.Name) == nil {
		d.Local = false
		return
	}
	if to.Coverage.Groups(d.Name) {
		if uses.GroupNames {
			d.Groups = to.View.GroupsOf(d.Name)
		}
		if uses.Egress {
			d.Egress = to.Northbound.EgressOf(d.Name)
		}
		return
	}
	to.AwaitingGroups[to.PortsData.Network] = struct{}{}
	i := slices.IndexFunc(to.old, func(p *ovn.Port) bool { return p.Name == d.Name })
	if d.Local = i >= 0; d.Local {
		d.Groups, d.Egress = to.old[i].Groups(), to.old[i].Egress()
	}
}

// northboundRow returns the row of a port in Northbound. It is nil until northd has moved the port to this switch.
func (to *portRows) northboundRow(name string) *topology.SwitchPort {
	p := to.Northbound.PortNamed[name]
	if p == nil || to.Northbound.SwitchOf[p.ID] != ovsdb.UUID(to.PortsData.Network) {
		return nil
	}
	return p
}

// addNorthboundColumns adds what only Northbound has: dynamic addresses, the domain and DNS servers of DHCP options, and
// whether the port is disabled.
func (to *portRows) addNorthboundColumns(d *ovn.PortData) {
	n, p := to.Northbound, to.northboundRow(d.Name)
	if p == nil {
		return
	}
	if !slices.Equal(d.Addresses, p.Addresses) || !slices.Equal(d.MACs, p.MACs) {
		other := *d.LogicalPort
		other.Addresses, other.MACs = p.Addresses, p.MACs
		d.LogicalPort = &other
	}
	d.Disabled = p.Disabled
	if ovn.IsGuestType(d.PortType()) {
		d.DNSServers = to.dnsServers(p.DHCP)
	}
	if o := n.DHCP.Get(p.DHCP.V4); o != nil && o.Domain != "" {
		d.Domain = o.Domain
	}
}
