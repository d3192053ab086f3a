// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/puntdns/puntdns/ofpunt/openflow"

// A flow that drops the packets of a closed guest has no timeout. It outlives the process that has installed it,
// and so do the entry flows that lead to it.

// ClosedGuest returns the guest whose packets a flow of a plan drops while there is no lease. It reports whether
// the flow is such a flow.
func ClosedGuest(f *openflow.FlowMod) (guest Key, ok bool) {
	role, guest := read(f)
	return guest, role == RoleClosed
}

// OfClosed reports whether the packets of these closed guests are dropped by a flow of a plan, or get to the drop by
// it.
func OfClosed(f *openflow.FlowMod, guests map[Key]bool) bool {
	switch role, guest := read(f); role {
	case RoleClosed, RoleQuery, RoleNeighbor:
		return guests[guest]
	default:
		// An entry flow over IPv6 takes packets to all addresses to AddressTable.
		return f.Table == AddressTable && len(guests) > 0
	}
}

// read is Read without the kind of the pipeline, which the match shows.
func read(f *openflow.FlowMod) (role Role, guest Key) {
	kind := Table // Read does not distinguish it from Neutron
	if _, ok := f.Match.Value(openflow.Metadata(0)); ok {
		kind = OVN
	}
	role, guest, _ = Read(kind, &openflow.FlowStats{Table: f.Table, Priority: f.Priority, Match: f.Match})
	return role, guest
}
