// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/puntdns/puntdns/ofpunt/openflow"

// Drop flows of closed guests and the entry flows that lead to them have no timeout, and outlive the process.

// ClosedGuest returns the guest whose packets a flow drops while there is no lease, if the flow is such a drop.
func ClosedGuest(f *openflow.FlowMod) (guest Key, ok bool) {
	role, guest := read(f)
	return guest, role == RoleClosed
}

// OfClosed reports whether a flow drops the packets of these closed guests, or leads to the drop.
func OfClosed(f *openflow.FlowMod, guests map[Key]bool) bool {
	switch role, guest := read(f); role {
	case RoleClosed, RoleQuery, RoleNeighbor:
		return guests[guest]
	default:
		// Entry flows for IPv6 lead to AddressTable for any address.
		return f.Table == AddressTable && len(guests) > 0
	}
}

func read(f *openflow.FlowMod) (role Role, guest Key) {
	kind := Table // Read treats Neutron alike
	if _, ok := f.Match.Value(openflow.Metadata(0)); ok {
		kind = OVN
	}
	role, guest, _ = Read(kind, &openflow.FlowStats{Table: f.Table, Priority: f.Priority, Match: f.Match})
	return role, guest
}
