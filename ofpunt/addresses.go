// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// isOwnAddress reports whether an address is a resolver address that the databases give a
// guest: one of a router on its network, or a DNS server that DHCP tells it, unless a machine
// of the tenant has the address.
func (o *bridgeOptions) isOwnAddress(snapshot *ovn.Snapshot, p *ovn.Port, a netip.Addr) bool {
	n := snapshot.Network(p.Network)
	return n != nil && (o.Gateways && slices.Contains(n.Gateways(), a) ||
		o.DHCP && slices.Contains(p.DNSServers, a) && !snapshot.HasMachine(n, a))
}

// ownAddresses returns the addresses for which isOwnAddress holds and which not all guests have
// anyway.
func (o *bridgeOptions) ownAddresses(snapshot *ovn.Snapshot, p *ovn.Port) (all []netip.AddrPort) {
	add := func(list []netip.Addr) {
		for _, a := range list {
			ap := netip.AddrPortFrom(a, placement.DNSPort)
			if o.isOwnAddress(snapshot, p, a) && !slices.Contains(o.Addresses, ap) && !slices.Contains(all, ap) {
				all = append(all, ap)
			}
		}
	}
	add(p.DNSServers)
	if n := snapshot.Network(p.Network); n != nil {
		add(n.Gateways())
	}
	return all
}

// guestList collects the guests of a snapshot.
type guestList struct {
	options  *bridgeOptions
	snapshot *ovn.Snapshot // nil without databases
	guests   []flows.Guest
	// withoutAddress counts, by network, the guests that are not in guests, as they have no
	// resolver address.
	withoutAddress map[string]int
	// addressless are the logical ports in withoutAddress: an external one may be several
	// guests to the switch, one for each of its MAC addresses and localnet ports.
	addressless map[*ovn.Port]struct{}
	// shared has the own addresses of guests that have the same.
	shared map[sharedAddresses][]netip.AddrPort
}

// sharedAddresses is what the own addresses of guests depend on: their network, and the list of
// their DNS servers, nil for none.
type sharedAddresses struct {
	network *ovn.Network
	servers *netip.Addr
}

func newGuestList(o *bridgeOptions, snapshot *ovn.Snapshot) *guestList {
	return &guestList{
		options: o, snapshot: snapshot,
		withoutAddress: map[string]int{}, addressless: map[*ovn.Port]struct{}{},
		shared: map[sharedAddresses][]netip.AddrPort{},
	}
}

// add adds a guest that lacks what depends on its addresses. p is its logical port, nil if that
// is not known. isOwned reports whether a port of its network has an address; nil is for none.
func (l *guestList) add(g flows.Guest, p *ovn.Port, isOwned func(netip.Addr) bool) {
	o := l.options
	if o.perGuest() && p != nil {
		g.Addresses = l.addresses(p)
	}
	if o.perGuest() && len(o.Addresses)+len(g.Addresses) == 0 {
		if _, counted := l.addressless[p]; p != nil && !counted {
			l.addressless[p] = struct{}{}
			l.withoutAddress[fmt.Sprintf("%q (%s)", p.SwitchName, p.Network)]++
		}
		return
	}
	g.Owned = o.owned(g.Addresses, isOwned)
	l.guests = append(l.guests, g)
}

// addresses returns the own addresses of a guest, in a list that guests share.
func (l *guestList) addresses(p *ovn.Port) []netip.AddrPort {
	key := sharedAddresses{network: l.snapshot.Network(p.Network)}
	if len(p.DNSServers) > 0 {
		key.servers = &p.DNSServers[0]
	}
	all, known := l.shared[key]
	if !known {
		all = l.options.ownAddresses(l.snapshot, p)
		l.shared[key] = all
	}
	return all
}

// addresslessNetworks are the networks that have guests here without a resolver address, as
// they were logged. The goroutine of the session has them.
type addresslessNetworks map[string]int

// update takes the numbers of guests, by network, and returns the lines to log of the networks
// whose state has changed.
func (a *addresslessNetworks) update(now map[string]int) (lines []string) {
	for _, network := range slices.Sorted(maps.Keys(now)) {
		if _, logged := (*a)[network]; !logged {
			lines = append(lines, fmt.Sprintf("switch %s: its guests are not served, as dhcp and gateway of address give them no resolver address: %d", network, now[network]))
		}
	}
	for _, network := range slices.Sorted(maps.Keys(*a)) {
		if _, still := now[network]; !still {
			lines = append(lines, fmt.Sprintf("switch %s: no guest is without a resolver address any more", network))
		}
	}
	*a = now
	return lines
}

// reportAddressless logs and counts the guests that have no resolver address.
func (s *session) reportAddressless() {
	if s.flows.Yielding() {
		return
	}
	now := s.desired.withoutAddress
	for _, line := range s.bridge.addressless.update(now) {
		log.Warningf("Bridge %s: %s", s.bridge.name, line)
	}
	total := 0
	for _, n := range now {
		total += n
	}
	metric.WithoutAddress.WithLabelValues(s.bridge.name).Set(float64(total))
}
