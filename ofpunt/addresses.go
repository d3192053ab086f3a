// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
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

// isAddressless reports whether a guest with that logical port has no resolver address.
func (o *bridgeOptions) isAddressless(snapshot *ovn.Snapshot, p *ovn.Port) bool {
	return o.perGuest() && len(o.Addresses)+len(o.ownAddresses(snapshot, p)) == 0
}

// guestList collects the guests of a snapshot.
type guestList struct {
	options  *bridgeOptions
	limits   limitIndex
	snapshot *ovn.Snapshot // nil without databases
	// numbers are the OpenFlow ports by the logical ports, localnet ports among them. They are
	// nil unless a limit is by in-port, and with placements whose guests are interfaces.
	numbers map[string]uint32
	guests  []flows.Guest
	// withoutAddress has, by network, the guests that are not in guests, as they have no
	// resolver address.
	withoutAddress map[string]addressless
	// addressless are the logical ports in withoutAddress: an external one may be several
	// guests to the switch, one for each of its MAC addresses and localnet ports.
	addressless map[*ovn.Port]struct{}
	// left has, by network, the addresses of all guests that a workload has.
	left map[*ovn.Network][]netip.Addr
	// networks are those of guests, if the metrics are to be by network; else nil.
	networks map[metric.Network]struct{}
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
	l := &guestList{
		options: o, limits: newLimitIndex(o.Limits), snapshot: snapshot,
		withoutAddress: map[string]addressless{}, addressless: map[*ovn.Port]struct{}{},
		shared: map[sharedAddresses][]netip.AddrPort{}, left: map[*ovn.Network][]netip.Addr{},
	}
	if o.NetworkMetrics {
		l.networks = make(map[metric.Network]struct{})
	}
	return l
}

// add adds a guest that lacks what depends on its addresses. of is its origin, and p its logical
// port, nil if that is not known. isOwned reports whether a port of its network has an address;
// nil is for none.
func (l *guestList) add(g flows.Guest, of *origin.Origin, p *ovn.Port, isOwned func(netip.Addr) bool) {
	o := l.options
	if o.perGuest() && p != nil {
		g.Addresses = l.addresses(p)
	}
	if o.perGuest() && len(o.Addresses)+len(g.Addresses) == 0 {
		if _, counted := l.addressless[p]; p != nil && !counted {
			l.addressless[p] = struct{}{}
			l.addAddressless(p)
		}
		return
	}
	if p != nil {
		g.Left = l.leftTo(l.snapshot.Network(p.Network))
	}
	g.Owned = o.owned(g.Addresses, isOwned)
	l.guests = append(l.guests, g)
	if l.networks != nil {
		l.networks[metric.Network{ID: of.Network, Switch: of.Switch}] = struct{}{}
	}
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

// leftTo returns the default resolver addresses that a workload of a network has, in a list that
// guests share: the workload may be a tenant's own DNS server.
func (l *guestList) leftTo(n *ovn.Network) []netip.Addr {
	left, known := l.left[n]
	if !known && n != nil && !l.options.AddressGiven {
		for _, a := range l.options.Addresses {
			if n.HasWorkload(a.Addr()) && !slices.Contains(left, a.Addr()) {
				left = append(left, a.Addr())
			}
		}
		l.left[n] = left
	}
	return left
}

// addressless are the guests of one network that have no resolver address.
type addressless struct {
	guests int
	// machines are DNS servers that DHCP announces to them and that are left to the machines
	// which have their addresses, sorted.
	machines []netip.Addr
}

// maxMachines bounds the addresses of a line of the log.
const maxMachines = 4

// nameOf names a network in the log.
func nameOf(network origin.Network, name string) string { return fmt.Sprintf("%q (%s)", name, network) }

// leftByNetwork returns the addresses that are left to workloads, by network.
func (l *guestList) leftByNetwork() map[string]string {
	all := map[string]string{}
	for n, left := range l.left {
		if len(left) > 0 {
			all[nameOf(n.ID, n.Name)] = joinAddresses(left)
		}
	}
	return all
}

// addAddressless counts a guest that has no resolver address.
func (l *guestList) addAddressless(p *ovn.Port) {
	network := nameOf(p.Network, p.SwitchName)
	of := l.withoutAddress[network]
	of.guests++
	if n := l.snapshot.Network(p.Network); n != nil && l.options.DHCP {
		for _, a := range p.DNSServers {
			if l.snapshot.HasMachine(n, a) {
				of.addMachine(a)
			}
		}
	}
	l.withoutAddress[network] = of
}

func (a *addressless) addMachine(m netip.Addr) {
	if at, known := slices.BinarySearchFunc(a.machines, m, netip.Addr.Compare); !known {
		a.machines = slices.Insert(a.machines, at, m)
	}
}

// perGuestWords returns the words of address that give guests resolver addresses of their own.
func (o *bridgeOptions) perGuestWords() string {
	switch {
	case o.DHCP && o.Gateways:
		return "dhcp and gateway"
	case o.DHCP:
		return "dhcp"
	}
	return "gateway"
}

// perGuestGive begins a sentence about what they give to guests.
func (o *bridgeOptions) perGuestGive() string {
	verb := "gives"
	if o.DHCP && o.Gateways {
		verb = "give"
	}
	return o.perGuestWords() + " of address " + verb
}

// why says why the guests are not served.
func (a addressless) why(o *bridgeOptions) string {
	text := o.perGuestGive() + " them no resolver address"
	if len(a.machines) > 0 {
		text += fmt.Sprintf(" (DHCP announces %s, left to the port that has the address)", joinAddresses(a.machines[:min(maxMachines, len(a.machines))]))
	}
	return text
}

func joinAddresses(all []netip.Addr) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}

// networkLog has the last text logged about each network. The goroutine of the session uses it.
type networkLog map[string]string

// update takes the present text of each network. It returns the networks whose text differs from
// the logged one, and the networks that have none any more, both sorted.
func (l *networkLog) update(now map[string]string) (begun, ended []string) {
	for _, network := range slices.Sorted(maps.Keys(now)) {
		if text, logged := (*l)[network]; !logged || text != now[network] {
			begun = append(begun, network)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(*l)) {
		if _, still := now[network]; !still {
			ended = append(ended, network)
		}
	}
	*l = now
	return begun, ended
}

// reportAddressless logs and counts the guests that have no resolver address.
func (s *session) reportAddressless(o *bridgeOptions) {
	if s.flows.Yielding() {
		return
	}
	now, why := s.desired.withoutAddress, map[string]string{}
	for network, of := range now {
		why[network] = of.why(o)
	}
	begun, ended := s.bridge.addressless.update(why)
	for _, network := range begun {
		log.Warningf("Bridge %s: switch %s: its guests are not served, as %s; guests: %d", s.bridge.name, network, why[network], now[network].guests)
	}
	for _, network := range ended {
		log.Infof("Bridge %s: switch %s: no guest is without a resolver address any more", s.bridge.name, network)
	}
	metric.WithoutAddress.WithLabelValues(s.bridge.name).Set(float64(countAddressless(now)))
}

// reportLeft logs the resolver addresses that are left to workloads.
func (s *session) reportLeft() {
	if s.flows.Yielding() {
		return
	}
	begun, ended := s.bridge.left.update(s.desired.left)
	for _, network := range begun {
		log.Infof("Bridge %s: switch %s: a port of the network has %s, so what guests ask there is not punted", s.bridge.name, network, s.desired.left[network])
	}
	for _, network := range ended {
		log.Infof("Bridge %s: switch %s: no resolver address is left to a port any more", s.bridge.name, network)
	}
}

// countAddressless returns how many guests of all networks have no resolver address.
func countAddressless(of map[string]addressless) (guests int) {
	for _, a := range of {
		guests += a.guests
	}
	return guests
}
