// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// List has the guests of a Book with what the switch needs for their flows. It has no reference to the snapshot
// of the databases, so it may be kept for long.
type List struct {
	// Served are the guests that have a resolver address, sorted by their keys.
	Served []Served
	// Without has the networks with guests that have no resolver address.
	Without map[NetworkName]WithoutResolver
	// Left has the resolver addresses of all guests that a workload has, by network.
	Left map[NetworkName][]netip.Addr
}

// NetworkName is how logs name a network.
type NetworkName struct {
	ID origin.Network
	// Switch is the name of the logical switch. Names are not unique.
	Switch string
}

func (n NetworkName) String() string { return fmt.Sprintf("%q (%s)", n.Switch, n.ID) }

// Served is a guest that has a resolver address.
type Served struct {
	// Guest is what its flows depend on.
	placement.Guest
	Network NetworkName
	// Localnet is where the packets of an external port enter, nil for other ports.
	Localnet *ovn.Localnet
	Rate     Rate
	// Limit is the limit that gives the Rate, nil for none.
	Limit *Limit
}

// WithoutResolver are the guests of one network that have no resolver address.
type WithoutResolver struct {
	// Guests counts logical ports.
	Guests int
	// Machines are DNS servers that DHCP announces to them and that are left to the machines
	// which have their addresses, sorted.
	Machines []netip.Addr
}

// List lists the guests.
func (b Book) List() *List {
	l := lister{
		List: List{Without: map[NetworkName]WithoutResolver{}, Left: map[NetworkName][]netip.Addr{}},
		book: b, without: map[*ovn.Port]struct{}{}, left: map[*ovn.Network][]netip.Addr{}, own: map[ownKey][]netip.AddrPort{},
	}
	for g := range b.All {
		l.add(g)
	}
	slices.SortStableFunc(l.Served, func(a, b Served) int {
		return cmp.Or(cmp.Compare(a.Key.Datapath, b.Key.Datapath), cmp.Compare(a.Key.Port, b.Key.Port), bytes.Compare(a.Key.MAC[:], b.Key.MAC[:]))
	})
	return &l.List
}

// lister makes a List.
type lister struct {
	List
	book Book
	// origin is who the guest is to limits, one after the other.
	origin origin.Origin
	// without are the logical ports that Without counts: an external port may be several guests.
	without map[*ovn.Port]struct{}
	// left has what leftTo has found, none included.
	left map[*ovn.Network][]netip.Addr
	// own has the own resolver addresses of guests that have the same.
	own map[ownKey][]netip.AddrPort
}

// ownKey is what the own resolver addresses of a guest depend on: its network, and the list of its DNS
// servers, nil for none.
type ownKey struct {
	network *ovn.Network
	servers *netip.Addr
}

func (l *lister) add(g Guest) {
	r, network := l.book.rules, g.Network()
	s := Served{Guest: placement.Guest{Key: g.Key, Addresses: l.ownResolvers(&g, network)}, Localnet: g.Localnet}
	if r.PerGuest() && len(r.Resolvers)+len(s.Addresses) == 0 {
		l.addWithout(&g, network)
		return
	}
	s.Left = l.leftTo(network)
	for _, list := range [][]netip.AddrPort{r.Resolvers, s.Addresses} {
		for _, a := range list {
			if g.IsOwned(a.Addr()) {
				s.Owned = append(s.Owned, a.Addr())
			}
		}
	}
	inPort := uint32(0)
	if g.Interface != nil {
		inPort = g.Interface.OFPort
	}
	l.origin = g.Origin(inPort)
	s.Network = NetworkName{l.origin.Network, l.origin.Switch}
	s.Rate = r.rateOf(network)
	by := r.LimitOf(&l.origin)
	if by != nil && by.RateGiven {
		s.Rate, s.Limit = by.Rate, by
	}
	s.Closed = r.FailsClosed(by)
	l.Served = append(l.Served, s)
}

// ownResolvers returns the resolver addresses that the databases give a guest and that not all guests have
// anyway, in a list that guests share.
func (l *lister) ownResolvers(g *Guest, network *ovn.Network) []netip.AddrPort {
	r := l.book.rules
	if !r.PerGuest() || g.Port == nil {
		return nil
	}
	key := ownKey{network: network}
	if len(g.Port.DNSServers) > 0 {
		key.servers = &g.Port.DNSServers[0]
	}
	all, known := l.own[key]
	if known {
		return all
	}
	add := func(list []netip.Addr) {
		for _, a := range list {
			if ap := netip.AddrPortFrom(a, placement.DNSPort); g.hasOwn(ap) && !slices.Contains(r.Resolvers, ap) && !slices.Contains(all, ap) {
				all = append(all, ap)
			}
		}
	}
	add(g.Port.DNSServers)
	if network != nil {
		add(network.Gateways())
	}
	l.own[key] = all
	return all
}

// leftTo returns the default resolver addresses that a workload of a network has, in a list that
// guests share: the workload may be a tenant's own DNS server.
func (l *lister) leftTo(n *ovn.Network) []netip.Addr {
	if n == nil || l.book.rules.ResolversGiven {
		return nil
	}
	left, known := l.left[n]
	if known {
		return left
	}
	for _, a := range l.book.rules.Resolvers {
		if n.HasWorkload(a.Addr()) && !slices.Contains(left, a.Addr()) {
			left = append(left, a.Addr())
		}
	}
	l.left[n] = left
	if len(left) > 0 {
		l.Left[NetworkName{n.ID, n.Name}] = left
	}
	return left
}

// addWithout counts a guest that has no resolver address.
func (l *lister) addWithout(g *Guest, network *ovn.Network) {
	if g.Port == nil {
		return
	}
	if _, counted := l.without[g.Port]; counted {
		return
	}
	l.without[g.Port] = struct{}{}
	name := NetworkName{g.Port.Network, g.Port.SwitchName}
	of := l.Without[name]
	of.Guests++
	if l.book.rules.DHCP && network != nil {
		for _, a := range g.Port.DNSServers {
			if l.book.snapshot.HasMachine(network, a) {
				of.addMachine(a)
			}
		}
	}
	l.Without[name] = of
}

func (w *WithoutResolver) addMachine(m netip.Addr) {
	if at, known := slices.BinarySearchFunc(w.Machines, m, netip.Addr.Compare); !known {
		w.Machines = slices.Insert(w.Machines, at, m)
	}
}

// JoinAddresses writes addresses for a log.
func JoinAddresses(all []netip.Addr) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
