// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// ownerExternal is the device_owner of a router's port on the external network of Neutron
// (neutron-lib, DEVICE_OWNER_ROUTER_GW). Guests of that network have another gateway.
const ownerExternal = ovn.OwnerNetwork + "router_gateway"

// Attachment is a port of a switch that leads to a router, with what the rows say of that router.
type Attachment struct {
	// RouterPort is the name of the router's port, "" if the switch's port names none.
	RouterPort string
	// external is set for a port with ownerExternal.
	external bool
	// Known is set if the row of the router's port is read, and leads back to the switch.
	// All fields below are empty otherwise.
	Known bool
	// networks are the addresses of the router's port, see parseNetworks.
	networks []string
	// Router is the row of Datapath_Binding or Logical_Router, zero if it is not known.
	Router     ovsdb.UUID
	routerName string
	// forward is the value of forwardKey, in Northbound only.
	forward string
}

// attached is a database with the ports that lead from switches to routers.
type attached interface {
	// Attachments yields all attachments of a node of the graph, in any order.
	Attachments(node ovsdb.UUID) iter.Seq[Attachment]
}

// AttachmentsOf returns the attachments of a node by which guests there reach their routers: all
// but external ones, and none on a switch with more than maxGateways attachments.
func AttachmentsOf(db attached, node ovsdb.UUID) (all []Attachment) {
	count := 0
	for a := range db.Attachments(node) {
		if count++; count > ovn.MaxGateways {
			return nil
		}
		if !a.external {
			all = append(all, a)
		}
	}
	return all
}

// AttachmentsOfNetwork is attachmentsOf for all nodes of a network.
func AttachmentsOfNetwork(t View, id origin.Network) (all []Attachment) {
	for node := range t.NodesOf(id) {
		all = append(all, AttachmentsOf(t, node)...)
	}
	return all
}

// GatewaysOf returns the addresses of the routers, in any order.
func GatewaysOf(attachments []Attachment) (all []netip.Addr) {
	for _, a := range attachments {
		all = append(all, parseNetworks(a.networks)...)
	}
	return all
}

// RouterNamesOf returns the names of the routers: sorted, each once, separated by commas.
func RouterNamesOf(attachments []Attachment) string {
	var all []string
	for _, a := range attachments {
		if a.routerName != "" {
			all = append(all, a.routerName)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// forwardersOf returns the attachments to routers with forwardKey, one for each router, in the
// order in which the zones of the routers count.
func forwardersOf(attachments []Attachment) []Attachment {
	all := slices.DeleteFunc(slices.Clone(attachments), func(a Attachment) bool { return a.forward == "" })
	slices.SortFunc(all, func(a, b Attachment) int {
		return cmp.Or(cmp.Compare(a.routerName, b.routerName), a.Router.Compare(b.Router))
	})
	return slices.CompactFunc(all, func(a, b Attachment) bool { return a.Router == b.Router })
}

// parseNetworks parses Port_Binding.mac or Logical_Router_Port.networks of a router's port:
// addresses with prefix lengths (northd/northd.c, ovn_port_update_sbrec). The port of a switch
// has no prefix lengths. Words that are no such address are left out.
func parseNetworks(elements []string) (all []netip.Addr) {
	for _, element := range elements {
		for _, word := range names.Words(element) {
			host, _, isNetwork := strings.Cut(word, "/")
			if a, err := names.ParseAddress(host); isNetwork && err == nil {
				all = append(all, a)
			}
		}
	}
	return all
}
