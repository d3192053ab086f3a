// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

func (b Book) ovnSender(in *openflow.PacketIn, owner *vswitch.Interface) (g Guest, ok bool) {
	key, ok := placement.KeyOf(placement.OVN, in, owner.Localnet != "")
	if !ok {
		return g, false
	}
	if g, ok = b.ovnByKey(key); !ok {
		return g, false
	}
	g.Interface = owner
	if g.Localnet != nil {
		return g, g.Localnet.Name == owner.Localnet
	}
	// A reused port number may carry the previous port's registers, since ovn-controller lags.
	return g, owner.IfaceID == g.Port.Interface()
}

// ovnByKey does not set Interface.
func (b Book) ovnByKey(k placement.Key) (g Guest, ok bool) {
	g = Guest{Key: k, book: b}
	if k.MAC == ([6]byte{}) {
		g.Port = b.snapshot.Guest(k.Datapath, k.Port)
	} else {
		g.Port, g.Localnet = b.snapshot.External(k.Datapath, k.Port, k.MAC)
	}
	return g, g.Port != nil && g.Port.Local
}

func (b Book) allOVN(yield func(Guest) bool) {
	interfaces := b.interfacesByName()
	for p := range b.snapshot.Guests() {
		if !p.IsExternal() {
			g := Guest{Key: placement.Key{Datapath: p.DatapathKey, Port: p.Key}, Port: p, Interface: interfaces[p.Interface()], book: b}
			if !yield(g) {
				return
			}
			continue
		}
		for _, g := range b.externalGuests(p) {
			g.Interface = interfaces[g.Localnet.Name]
			if !yield(g) {
				return
			}
		}
	}
}

// An interface with an OpenFlow port wins.
func (b Book) interfacesByName() map[string]*vswitch.Interface {
	all := map[string]*vswitch.Interface{}
	if b.view == nil {
		return all
	}
	for i := range b.view.Interfaces {
		i := &b.view.Interfaces[i]
		name := cmp.Or(i.IfaceID, i.Localnet)
		if before := all[name]; before == nil || i.OFPort != 0 {
			all[name] = i
		}
	}
	return all
}

// externalGuests does not set Interface.
func (b Book) externalGuests(p *ovn.Port) (all []Guest) {
	localnets := p.Localnets()
	for i := range localnets {
		l := &localnets[i]
		for _, mac := range p.MACs {
			// Of two ports with one address only one is the sender.
			if sender, _ := b.snapshot.External(p.DatapathKey, l.Key, mac); sender == p {
				all = append(all, Guest{Key: placement.Key{Datapath: p.DatapathKey, Port: l.Key, MAC: mac}, Port: p, Localnet: l, book: b})
			}
		}
	}
	return all
}
