// SPDX-License-Identifier: Apache-2.0

package ovn

import "github.com/puntdns/puntdns/internal/origin"

// topology is the database that says which networks there are: Southbound where that
// is read, else Northbound.
type topology interface {
	graph
	attached
	// networkIDs yields the networks that have rows, complete or not. networksNamed returns
	// those of a name, in any order, some perhaps more than once.
	networkIDs(yield func(origin.Network) bool)
	networksNamed(name string) []origin.Network
}
