// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// A cookie marks a flow as puntdns's in its upper 24 bits ("pdn") and tells the
// generation in the others.
const (
	cookieMark = uint64(0x70646e) << 40
	cookieMask = uint64(0xffffff) << 40
)

func ours(cookie uint64) bool           { return cookie&cookieMask == cookieMark }
func generationOf(cookie uint64) uint64 { return cookie &^ cookieMask }

// epoch is where generations count from, in milliseconds: 40 bits last for 34
// years.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// generationAt is that of a process that starts at t.
func generationAt(t time.Time) uint64 {
	return max(1, uint64(max(0, t.Sub(epoch).Milliseconds()))&^cookieMask)
}

// keeper holds the flows of one connection: as they should stand, and as they
// do by what the switch has said. Its methods are called from the session's one
// goroutine, but for told.
type keeper struct {
	conn       *openflow.Conn
	generation uint64

	// have are the flows of any generation that stand in the switch.
	have map[flowKey]flowState
	// lapsed is set once our punt has expired, until it stands again.
	lapsed bool
	// watched are the tables with a flow monitor.
	watched map[uint8]bool

	mu      sync.Mutex
	updates []openflow.FlowUpdate
	// signal has a mark when the switch has told of changed flows.
	signal chan struct{}
}

// flowKey is what makes two flows one to the switch.
type flowKey struct {
	table    uint8
	priority uint16
	match    string
}

type flowState struct {
	cookie uint64
	mod    openflow.FlowMod
	// text is of the actions and the timeout, empty if they are not known.
	text string
}

// flow is one that should stand, in the form in which it is compared.
type flow struct {
	key   flowKey
	state flowState
}

func newFlow(f openflow.FlowMod) flow {
	return flow{keyOf(&f), flowState{cookie: f.Cookie, mod: f, text: f.String()}}
}

func newFlows(mods []openflow.FlowMod) []flow {
	flows := make([]flow, len(mods))
	for i := range mods {
		flows[i] = newFlow(mods[i])
	}
	return flows
}

func keyOf(f *openflow.FlowMod) flowKey { return flowKey{f.Table, f.Priority, f.Match.Key()} }

// change is what one reconciliation did.
type change struct{ added, removed int }

func (c change) any() bool { return c.added+c.removed > 0 }

func newKeeper(conn *openflow.Conn) *keeper {
	return &keeper{
		conn: conn, have: map[flowKey]flowState{}, watched: map[uint8]bool{},
		signal: make(chan struct{}, 1),
	}
}

// learn asks what stands of any generation. The generation of a process that is
// new to the bridge (0) becomes now, or higher than all that it finds.
func (k *keeper) learn(ctx context.Context, generation uint64, now time.Time) error {
	if err := k.watch(ctx, placement.PrivateTable); err != nil {
		return err
	}
	stats, err := k.conn.FlowStats(ctx, openflow.FlowStatsRequest{
		Table: openflow.TableAll, Cookie: cookieMark, CookieMask: cookieMask,
	})
	if err != nil {
		return fmt.Errorf("reading the flows of earlier processes: %w", err)
	}
	highest := generationAt(now)
	for _, s := range stats {
		f := openflow.FlowMod{Table: s.Table, Priority: s.Priority, Match: s.Match, Cookie: s.Cookie}
		k.have[keyOf(&f)] = flowState{cookie: s.Cookie, mod: f}
		highest = max(highest, generationOf(s.Cookie)+1)
	}
	if k.generation = generation; generation == 0 {
		k.generation = highest
	}
	return nil
}

// cookie is that of our flows.
func (k *keeper) cookie() uint64 { return cookieMark | k.generation }

// told takes an event of the flow monitors, on the reader's goroutine.
func (k *keeper) told(u openflow.FlowUpdate) {
	if u.Event == openflow.FlowOwn {
		return
	}
	k.mu.Lock()
	k.updates = append(k.updates, u)
	k.mu.Unlock()
	poke(k.signal)
}

// poke leaves a mark in a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch has the switch tell of changes in a table from now on.
func (k *keeper) watch(ctx context.Context, table uint8) error {
	if k.watched[table] {
		return nil
	}
	if err := k.conn.MonitorFlows(ctx, uint32(table)+1, table); err != nil {
		return fmt.Errorf("monitoring the flows of table %d: %w", table, err)
	}
	k.watched[table] = true
	return nil
}

// catchUp takes in what the switch has told, if anything, and returns how many of
// our flows somebody else removed or overwrote. An event may be older than what we did
// since: then a flow is installed once more, which is harmless, and none is ever
// missed.
func (k *keeper) catchUp() (lost int, told bool) {
	k.mu.Lock()
	updates := k.updates
	k.updates = nil
	k.mu.Unlock()
	for i := range updates {
		u := &updates[i]
		f := openflow.FlowMod{Table: u.Table, Priority: u.Priority, Match: u.Match, Cookie: u.Cookie}
		key := keyOf(&f)
		had, known := k.have[key]
		mine := known && had.cookie == k.cookie()
		switch u.Event {
		case openflow.FlowRemoved:
			if known {
				delete(k.have, key)
			}
			switch {
			case mine && !expired(u):
				lost++
			case mine && key == puntKey:
				k.lapsed = true
			}
		case openflow.FlowInitial, openflow.FlowAdded, openflow.FlowModified:
			switch {
			case ours(u.Cookie) && !(mine && u.Cookie == had.cookie):
				k.have[key] = flowState{cookie: u.Cookie, mod: f}
			case !ours(u.Cookie) && known:
				delete(k.have, key)
			}
			switch {
			case mine && u.Cookie != had.cookie && u.Event != openflow.FlowInitial:
				// One that stood before the monitor did is an earlier process's.
				lost++
			case mine && u.Event == openflow.FlowModified:
				// By somebody else: what we change ourselves comes as FlowOwn.
				had.text = ""
				k.have[key] = had
				lost++
			}
		}
	}
	return lost, len(updates) > 0
}

// expired reports whether the flow went by its hard timeout.
func expired(u *openflow.FlowUpdate) bool {
	const hardTimeout = 1 // OFPRR_HARD_TIMEOUT
	return u.Reason == hardTimeout
}

// puntKey is the key of the leased flow.
var puntKey = flowKey{placement.PrivateTable, placement.PriorityPunt, openflow.NewMatch().Key()}

// superseded reports whether a process that came later punts here. An entry flow
// that a dead one left says nothing; its punt would have expired.
func (k *keeper) superseded() bool {
	s, ok := k.have[puntKey]
	return ok && generationOf(s.cookie) > k.generation
}

// hasPunt reports whether our leased flow stands.
func (k *keeper) hasPunt() bool {
	s, ok := k.have[puntKey]
	return ok && s.cookie == k.cookie()
}

// reconcile makes the switch have the flows of want, in this order, and of other
// generations none. What is superfluous goes after what is new has come, in the
// reverse order; all of it is one bundle. While want may be only a part of what is
// wanted, nothing goes.
func (k *keeper) reconcile(ctx context.Context, want []flow, partial bool) (change, error) {
	var c change
	var mods []openflow.FlowMod
	wanted := make(map[flowKey]flowState, len(want))
	for _, f := range want {
		wanted[f.key] = f.state
		if had, ok := k.have[f.key]; ok && had.cookie == f.state.cookie && had.text == f.state.text {
			continue
		}
		mods = append(mods, f.state.mod)
		c.added++
	}
	var superfluous []openflow.FlowMod
	for key, s := range k.have {
		if _, ok := wanted[key]; !ok && partial {
			wanted[key] = s
		} else if !ok {
			f := s.mod
			f.Command, f.Cookie, f.CookieMask, f.Actions = openflow.DeleteStrict, s.cookie, ^uint64(0), nil
			superfluous = append(superfluous, f)
			c.removed++
		}
	}
	slices.SortFunc(superfluous, func(a, b openflow.FlowMod) int {
		// The private table is the highest, and its flows go last.
		if a.Table != b.Table {
			return int(a.Table) - int(b.Table)
		}
		return int(b.Priority) - int(a.Priority)
	})
	mods = append(mods, superfluous...)
	if len(mods) == 0 {
		return c, nil
	}
	if err := k.conn.Apply(ctx, mods); err != nil {
		return change{}, fmt.Errorf("installing flows: %w", err)
	}
	k.have = wanted
	return c, nil
}
