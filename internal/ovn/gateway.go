// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// maxGateways bounds the routers of a switch, and their addresses. Where the routers of many
// tenants meet, they are no gateways of the guests.
const maxGateways = 32

// ownerExternal is the device_owner of a router's port on the external network of Neutron
// (neutron-lib, DEVICE_OWNER_ROUTER_GW). The guests there have another gateway.
const ownerExternal = ownerNetwork + "router_gateway"

// parseNetworks parses Port_Binding.mac or Logical_Router_Port.networks of a router's port:
// addresses with prefix lengths (northd/northd.c, ovn_port_update_sbrec). The port of a switch
// has none with a prefix length. What can't be read no router has.
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
