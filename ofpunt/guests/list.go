// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// List has the guests with the data for their flows. It does not retain the snapshot.
type List struct {
	// Served are sorted by key.
	Served  []Served
	Without map[NetworkName]WithoutResolver
	// Left are default resolver addresses that workloads have.
	Left map[NetworkName][]netip.Addr
}

// NetworkName names a network in logs.
type NetworkName struct {
	ID origin.Network
	// Switch names are not unique.
	Switch string
}

func (n NetworkName) String() string { return fmt.Sprintf("%q (%s)", n.Switch, n.ID) }

// Served is a guest with a resolver address.
type Served struct {
	placement.Guest
	Network  NetworkName
	Localnet *ovn.Localnet
	Rate     Rate
	// Limit gives Rate, nil if no limit does.
	Limit *Limit
}

// WithoutResolver are a network's guests without a resolver address.
type WithoutResolver struct {
	// Guests counts logical ports.
	Guests int
	// Machines are tenants' machines among DHCP's DNS servers, sorted.
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
	slices.SortStableFunc(l.Served, func(a, b Served) int { return a.Key.Compare(b.Key) })
	return &l.List
}

type lister struct {
	List
	book   Book
	origin origin.Origin
	// an external port may be several guests
	without map[*ovn.Port]struct{}
	// cached by leftTo
	left map[*ovn.Network][]netip.Addr
	// cached by ownResolvers
	own map[ownKey][]netip.AddrPort
}

// servers is the first element of a list, nil for none.
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
	l.origin = g.OriginHere()
	s.Network = NetworkName{l.origin.Network, l.origin.Switch}
	s.Rate = r.rateOf(network)
	by := r.LimitOf(&l.origin)
	if by != nil && by.RateGiven {
		s.Rate, s.Limit = by.Rate, by
	}
	s.Closed = r.FailsClosed(by)
	if r.Egress != nil {
		s.Egress = r.Egress.Of(&l.origin)
		s.Arriving = s.Egress != nil && g.Port != nil && g.Port.Arriving()
	}
	l.Served = append(l.Served, s)
}

// ownResolvers are beyond those of the Config. Guests share the list.
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

// leftTo returns default resolver addresses of workloads, such as a tenant's DNS server. Guests share the list.
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

// JoinAddresses formats addresses for logs.
func JoinAddresses(all []netip.Addr) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
