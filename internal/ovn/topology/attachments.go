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

// ownerExternal is the device_owner of a router's port on Neutron's external network (neutron-lib,
// DEVICE_OWNER_ROUTER_GW). Guests of this network have another gateway.
const ownerExternal = ovn.OwnerNetwork + "router_gateway"

// Attachment is a switch port that leads to a router, with the router's properties.
type Attachment struct {
	// RouterPort is the name of the router's port, "" if the switch port names none.
	RouterPort string
	external   bool
	// Known is set if the row of the router's port has come, and leads back to the switch. The fields below are
	// empty otherwise.
	Known bool
	// networks are the addresses of the router's port, see parseNetworks.
	networks []string
	// Router is the row of Datapath_Binding or Logical_Router, zero if it is unknown.
	Router     ovsdb.UUID
	routerName string
	// forward is the value of ovn.ForwardKey, in Northbound only.
	forward string
}

type attached interface {
	// Attachments yields all attachments of a node of the graph, in any order.
	Attachments(node ovsdb.UUID) iter.Seq[Attachment]
}

// AttachmentsOf returns the attachments by which guests of a node reach their routers: all except external
// ones, and none for more than ovn.MaxGateways attachments.
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

// RouterNamesOf returns the names of the routers, sorted, separated by commas.
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

// forwardersOf returns one attachment for each router with zones, in their order of precedence.
func forwardersOf(attachments []Attachment) []Attachment {
	all := slices.DeleteFunc(slices.Clone(attachments), func(a Attachment) bool { return a.forward == "" })
	slices.SortFunc(all, func(a, b Attachment) int {
		return cmp.Or(cmp.Compare(a.routerName, b.routerName), a.Router.Compare(b.Router))
	})
	return slices.CompactFunc(all, func(a, b Attachment) bool { return a.Router == b.Router })
}

// parseNetworks parses Port_Binding.mac or Logical_Router_Port.networks of a router's port: addresses with
// prefix lengths (northd/northd.c, ovn_port_update_sbrec). It skips other words; switch ports have no prefix
// lengths.
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
