// SPDX-License-Identifier: Apache-2.0

package topology

import "github.com/puntdns/puntdns/internal/origin"

// View is the database that says which networks there are: Southbound where that
// is read, else Northbound.
type View interface {
	Graph
	attached
	// NetworkIDs yields the networks that have rows, complete or not. networksNamed returns
	// those of a name, in any order, some perhaps more than once.
	NetworkIDs(yield func(origin.Network) bool)
	NetworksNamed(name string) []origin.Network
}
