// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"hash/fnv"
	"io"
	"iter"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// localView is the local database's picture of a bridge. It is immutable, but for
// settled.
type localView struct {
	vswitch.View
	byNumber map[uint32]*vswitch.Interface
	// kept are the numbers whose ports were there in the view before. Of others a
	// packet may still be on its way that the port before them has sent, until
	// settled is set.
	kept    map[uint32]bool
	settled atomic.Bool
}

func newLocalView(v vswitch.View, before *localView) *localView {
	l := &localView{View: v, byNumber: make(map[uint32]*vswitch.Interface, len(v.Interfaces)), kept: make(map[uint32]bool)}
	for i := range v.Interfaces {
		p := &v.Interfaces[i]
		if p.OFPort == 0 {
			continue
		}
		l.byNumber[p.OFPort] = p
		if before == nil {
			// No flow of ours has stood yet.
			l.kept[p.OFPort] = true
		} else {
			was := before.byNumber[p.OFPort]
			l.kept[p.OFPort] = was != nil && was.UUID == p.UUID && before.isSettled(p.OFPort)
		}
	}
	return l
}

func (l *localView) isSettled(number uint32) bool { return l.settled.Load() || l.kept[number] }

// settle waits until the switch has handed over all packets that it had before the
// view came.
func (b *bridge) settle(ctx context.Context, view *localView) {
	if c := b.conn.Load(); c != nil {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		_ = c.Barrier(ctx) // a connection that is gone brings nothing more
	}
	view.settled.Store(true)
}

// absent tells whether the database has no such bridge: each has an interface of its
// own name.
func (l *localView) absent() bool { return len(l.Interfaces) == 0 }

// ifaceIDs are the logical ports that have an interface here.
func (l *localView) ifaceIDs() []string {
	var ids []string
	for i := range l.Interfaces {
		if id := l.Interfaces[i].IfaceID; id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// tombstone stands at the number of a port that the switch has deleted, until
// the local database tells of that too.
type tombstone struct {
	uuid string // of the Interface row that no longer counts
	end  time.Time
}

// tombstoneTime is far more than the local database lags behind the switch while
// it is read. A tombstone may stand on the wrong row, that of a port of the same
// name that has come since, so it must not stand for good.
const tombstoneTime = 3 * time.Second

// portStatus takes the coming and going of ports, on a reader's goroutine.
// Numbers are reused: a punt from one may come before the local database has told
// whose it is now.
func (b *bridge) portStatus(p openflow.PortStatus) {
	view := b.view.Load()
	if view == nil || !p.Gone {
		return
	}
	b.goneMu.Lock()
	defer b.goneMu.Unlock()
	i := view.byNumber[p.Port.Number]
	// The switch cuts names to 15 bytes.
	if i != nil && i.Name[:min(len(i.Name), 15)] == p.Port.Name {
		b.gone[p.Port.Number] = tombstone{i.UUID, time.Now().Add(tombstoneTime)}
	}
}

// localPort is the interface that a packet came in by, nil if that is not known,
// on a reader's goroutine.
func (b *bridge) localPort(number uint32) *vswitch.Interface {
	view := b.view.Load()
	if view == nil || !view.isSettled(number) {
		return nil
	}
	return b.portAt(view, number)
}

// portAt is the interface that has the number, nil if there is none, or that is
// not known.
func (b *bridge) portAt(view *localView, number uint32) *vswitch.Interface {
	if view == nil {
		return nil
	}
	i := view.byNumber[number]
	if i == nil {
		return nil
	}
	b.goneMu.Lock()
	defer b.goneMu.Unlock()
	if t, ok := b.gone[number]; ok {
		if t.uuid == i.UUID && (time.Now().Before(t.end) || !b.localRead.Load()) {
			return nil
		}
		delete(b.gone, number)
	}
	return i
}

// networkOf is a number for the network of an interface, which stands for the tunnel
// key of OVN's; that of one without a network is its own. Two networks may share one,
// and then share their part of the limit in all.
func networkOf(i *vswitch.Interface) uint32 {
	if i == nil {
		return 0
	}
	of := i.NetworkID
	if of == "" {
		of = i.IfaceID
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, of) // never fails, package hash
	return h.Sum32()
}

// Tags of Neutron's agent: it gives each port that it has bound the VLAN of its
// network on this node, and those that it has not, or that are to be cut off, the
// dead one (neutron-lib, DEAD_VLAN_TAG).
const deadVLAN = 4095

// localGuests are the ports of the bridge that are to be served: those that have
// the name of a logical port, with Neutron's agent those that it has bound. With
// a snapshot, they must be in it.
func localGuests(kind placement.Kind, view *localView, snapshot *ovn.Snapshot, meter func(guestKey) uint32) iter.Seq[placement.LocalGuest] {
	return func(yield func(placement.LocalGuest) bool) {
		if view == nil {
			return
		}
		for i := range view.Interfaces {
			g, ok := localGuest(kind, &view.Interfaces[i], snapshot)
			if !ok {
				continue
			}
			g.Meter = meter(guestKey{port: g.InPort})
			if !yield(g) {
				return
			}
		}
	}
}

func localGuest(kind placement.Kind, i *vswitch.Interface, snapshot *ovn.Snapshot) (g placement.LocalGuest, ok bool) {
	if i.OFPort == 0 || i.IfaceID == "" || i.Tag == deadVLAN {
		return g, false
	}
	g.InPort = i.OFPort
	if kind == placement.Neutron {
		mac, err := net.ParseMAC(i.AttachedMAC)
		if i.Tag == 0 || err != nil || len(mac) != len(g.MAC) {
			return g, false
		}
		g.MAC = [6]byte(mac)
	}
	if snapshot != nil {
		p := snapshot.PortByName(i.IfaceID)
		if p == nil {
			return g, false
		}
		g.Owned = ownedBy(snapshot.Network(p.Network))
	}
	return g, true
}

// ownedBy reports the addresses that ports of the network have.
func ownedBy(n *ovn.Network) func(netip.Addr) bool {
	if n == nil {
		return nil
	}
	return func(a netip.Addr) bool { return n.Owns(a) || n.HasLocalport && a == metadataAddress }
}
