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
// DEVICE_OWNER_ROUTER_GW), whose guests have another gateway.
const ownerExternal = ovn.OwnerNetwork + "router_gateway"

// Attachment is a switch port that leads to a router, with the router's properties.
type Attachment struct {
	RouterPort string
	external   bool
	// Known is set if the router port's row has come, and leads back to the switch. The fields below are
	// empty otherwise.
	Known      bool
	networks   []string
	Router     ovsdb.UUID
	routerName string
	forward    string
}

type attached interface {
	Attachments(node ovsdb.UUID) iter.Seq[Attachment]
}

// AttachmentsOf returns the attachments by which guests reach their routers, without external ones. More than
// ovn.MaxGateways count as none.
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

func GatewaysOf(attachments []Attachment) (all []netip.Addr) {
	for _, a := range attachments {
		all = append(all, parseNetworks(a.networks)...)
	}
	return all
}

// RouterNamesOf returns the names, sorted, separated by commas.
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

func forwardersOf(attachments []Attachment) []Attachment {
	all := slices.DeleteFunc(slices.Clone(attachments), func(a Attachment) bool { return a.forward == "" })
	slices.SortFunc(all, func(a, b Attachment) int {
		return cmp.Or(cmp.Compare(a.routerName, b.routerName), a.Router.Compare(b.Router))
	})
	return slices.CompactFunc(all, func(a, b Attachment) bool { return a.Router == b.Router })
}

// parseNetworks parses the addresses with prefix lengths in Port_Binding.mac or Logical_Router_Port.networks
// (northd/northd.c, ovn_port_update_sbrec). Switch ports have no prefix lengths.
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
