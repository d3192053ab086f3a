// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/puntdns/puntdns/internal/origin"

// View is the database that has the networks: Southbound, or Northbound alone.
type View interface {
	Graph
	attached
	// NetworkIDs yields the networks that have rows, covered or not. NetworksNamed returns the networks with a
	// name, in any order, possibly repeated.
	NetworkIDs(yield func(origin.Network) bool)
	NetworksNamed(name string) []origin.Network
}
