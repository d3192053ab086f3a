// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/puntdns/puntdns/internal/origin"

// View is the database that has the networks: Southbound, or Northbound alone.
type View interface {
	Graph
	attached
	// NetworkIDs includes networks that are not covered. NetworksNamed may repeat networks, in any order.
	NetworkIDs(yield func(origin.Network) bool)
	NetworksNamed(name string) []origin.Network
	GroupsOf(port string) string
}
