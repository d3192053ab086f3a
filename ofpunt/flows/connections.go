// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// The switch adopts connections of a guest that arrives by live migration (placement.Service.Arrival). Each flow has
// a timeout, so it needs no process. Its cookie hashes the guest and its policies: a cookie that no guest has is
// stale.

// connectionMark is the upper 24 bits ("pdo"); searchMask matches cookieMark too.
const (
	connectionMark = uint64(0x70646f) << 40
	searchMask     = cookieMask &^ (1 << 40)
)

func isConnection(cookie uint64) bool { return cookie&cookieMask == connectionMark }

func connectionCookie(g *Guest, bit uint8) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(append(g.MAC[:], bit)) // a hash has no errors
	_ = binary.Write(h, binary.BigEndian, [3]uint64{uint64(g.Datapath), uint64(g.Port), g.Egress.Sum()})
	return connectionMark | h.Sum64()&^cookieMask
}

// connections are empty for a new connection to the switch.
type connections struct {
	// current are the cookies of guests in list with a policy. bit is their bit of pkt_mark.
	current map[placement.Key]uint64
	list    []Guest
	bit     uint8
	// arriving are guests of list that arrive, due guests whose adoption time begins now.
	arriving, due map[placement.Key]struct{}
	// standing are cookies of flows in the switch. A guest's cookie stays after a timeout.
	standing map[uint64]struct{}
	// compared is set once every standing cookie has a guest.
	compared bool
}

// found records a flow's cookie and reports whether the flow is for adopted connections.
func (c *connections) found(cookie uint64) bool {
	if !isConnection(cookie) {
		return false
	}
	if _, known := c.standing[cookie]; !known {
		if c.standing == nil {
			c.standing = map[uint64]struct{}{}
		}
		c.standing[cookie], c.compared = struct{}{}, false
	}
	return true
}

// judge begins a guest's adoption time when it begins to arrive, and again when it has arrived.
func (c *connections) judge(guests []Guest, bit uint8) {
	if c.current != nil && c.bit == bit && sameGuests(c.list, guests) {
		return
	}
	before, due := c.arriving, c.due
	c.current, c.list, c.bit, c.compared = map[placement.Key]uint64{}, guests, bit, false
	c.arriving, c.due = map[placement.Key]struct{}{}, map[placement.Key]struct{}{}
	for i := range guests {
		g := &guests[i]
		if _, known := c.current[g.Key]; known || g.Egress == nil || bit == 0 {
			continue
		}
		c.current[g.Key] = connectionCookie(g, bit)
		if g.Arriving {
			c.arriving[g.Key] = struct{}{}
		}
		_, was := before[g.Key]
		if _, isDue := due[g.Key]; isDue || was != g.Arriving {
			c.due[g.Key] = struct{}{}
		}
	}
}

// again restarts the adoption time of arriving guests.
func (c *connections) again() {
	for key := range c.arriving {
		c.due[key] = struct{}{}
	}
}

// removals removes flows whose cookie is not in current.
func (c *connections) removals(current map[placement.Key]uint64) (mods []openflow.FlowMod) {
	has := make(map[uint64]struct{}, len(current))
	for _, cookie := range current {
		has[cookie] = struct{}{}
	}
	for _, cookie := range slices.Sorted(maps.Keys(c.standing)) {
		if _, ok := has[cookie]; !ok {
			mods = append(mods, openflow.FlowMod{Command: openflow.Delete, Table: placement.EgressTable, Cookie: cookie, CookieMask: exactMask})
		}
	}
	return mods
}

func (m *machine) changeConnections() request {
	c, of := &m.connections, m.plan.of.service
	if of.EgressBit != 0 && !of.HasEgress(m.plan.of.Pipeline) {
		return nil
	}
	c.judge(m.want.Guests, of.EgressBit)
	if len(c.due) == 0 && (c.compared || !m.want.Settled) {
		return nil
	}
	var mods []openflow.FlowMod
	if m.want.Settled {
		mods = c.removals(c.current)
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.due), placement.Key.Compare) {
		of.Cookie = c.current[key]
		mods = append(mods, of.Arrival(key, m.want.MaxOpenings, uint16(m.want.OpeningGrace/time.Second))...)
	}
	if len(mods) == 0 {
		c.compared = true
		return nil
	}
	return m.applyConnections(mods)
}

func (m *machine) applyConnections(mods []openflow.FlowMod) request {
	if !m.fresh {
		return barrier{}
	}
	clear(m.connections.due)
	for i := range mods {
		if mods[i].Command == openflow.Delete {
			delete(m.connections.standing, mods[i].Cookie)
		} else {
			m.connections.found(mods[i].Cookie)
		}
	}
	m.adding = nil
	return apply{mods}
}
