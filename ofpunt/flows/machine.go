// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Memory is the state of a bridge that outlives a connection, zero for a new bridge. One machine uses it at a time.
type Memory struct {
	ownership ownership
	limits    limits
	// swept counts the tables searched for flows of dead processes.
	swept int
	// openings are nil before the first connection. A restarted switch has lost them.
	openings *openings
}

type limits uint8

const (
	limitsEnforced limits = iota
	limitsRefused         // the switch takes no meter
	limitsShort           // too few meters
)

// machine decides for one bridge and connection. It is not safe for concurrent use.
type machine struct {
	memory *Memory
	random *rand.Rand

	// now and out belong to the current step.
	now time.Time
	out []command
	// outstanding has no reply yet. reading is the purpose of a readFlows, adding are the flows that an apply adds.
	outstanding request
	reading     reading
	adding      []*flow
	// deferred came during an apply. The first stale of them precede the change.
	deferred []openflow.FlowUpdate
	stale    int

	want     *Want
	observed observed
	// leased is the last installation or renewal of the lease flow, probed the last return of a probe; zero for
	// never.
	leased, probed time.Time
	meters         meters
	stage          stageFinder
	lease          lease
	plan           plan
	openings       *openings
	connections    connections

	monitored map[uint8]bool
	// traced are generations whose flows were read in all tables.
	traced map[uint64]bool
	// dirty is set while more updates of a change may come: decisions wait for a barrier.
	dirty bool
	// fresh is set in the step of a barrier's reply, unless a flow update follows. Only then the switch is changed.
	fresh bool
	// paused lasts from a refusal of meters to the next event.
	paused bool
	// countDue requests the meters' counters. tablesDue is how many tables to search until the next heartbeat.
	countDue  bool
	tablesDue int
	// distributed and distribution (meters.version) are of the last assignment of meters.
	distributed  []Guest
	distribution uint64

	// todo is the next change at the versions todoAt, nil for none. placed are the last versions without a change.
	todo           request
	todoAt, placed versions
	// lostFlows counts losses since the last change, for Installed.
	lostFlows int

	// releasedLease is set once the lease flow has releasedGeneration, ended after withdrawal or failure.
	withdrawing, keep, releasedLease, ended bool

	// Last reports: placedBefore is set once flows were in place on this connection, reportedExpired until the lease
	// flow returns. reason is valid in status waiting.
	placedBefore, reportedExpired bool
	status                        status
	reason                        string
	guests, flows                 int
}

// versions identify the inputs of a comparison, and so its result.
type versions struct {
	plan, observed, meters uint64
	lease, settled, valid  bool
}

type reading struct {
	purpose    purpose
	generation uint64
	stage      Stage
	guest      placement.Key
}

type purpose uint8

const (
	forTrace purpose = iota
	forStage
	forSweep
	forOpenings
	forGuest
	forLapses
)

type status uint8

const (
	unreported status = iota
	waiting
	yielding
	serving
	leaseMissing
)

// newMachine returns the machine of a new connection, which waits for the first Desired.
func newMachine(memory *Memory, random *rand.Rand) *machine {
	return &machine{
		memory: memory, random: random,
		observed: newObserved(), meters: newMeters(random.Uint32()),
		monitored: map[uint8]bool{}, traced: map[uint64]bool{}, openings: memory.reuseOpenings(),
	}
}

// Yielding reports whether another process owns the flows.
func (m *machine) Yielding() bool { return m.memory.ownership.yielding }

func (m *machine) generation() uint64 { return m.memory.ownership.generation }

// step returns an event's commands, a request last. now must not go back.
func (m *machine) step(now time.Time, e Event) []command {
	m.now, m.out = now, nil
	if _, ok := e.(reply); !ok {
		m.paused = false
	}
	m.fresh = false
	switch e := e.(type) {
	case Desired:
		m.want = e.Want
	case flowUpdates:
		m.flowUpdates(e.Updates)
	case reply:
		m.replied(e)
	case Heartbeat:
		m.heartbeat()
	case probeBack:
		m.probeBack(e.Token)
	case retry:
		m.stage.again()
	case open:
		m.open(e.Requests)
	case Withdraw:
		m.withdrawing, m.keep = true, e.Keep
	}
	if m.outstanding == nil && !m.ended {
		if r := m.next(); r != nil {
			m.outstanding = r
			m.do(r)
		}
	}
	return m.out
}

func (m *machine) do(c command) { m.out = append(m.out, c) }

// flowUpdates defers updates during an apply until the reply shows whether the change was made.
func (m *machine) flowUpdates(updates []openflow.FlowUpdate) {
	if _, applying := m.outstanding.(apply); !applying {
		m.observe(updates)
		return
	}
	for i := range updates {
		if updates[i].Event == openflow.FlowOwn {
			m.stale = len(m.deferred)
		} else {
			m.deferred = append(m.deferred, updates[i])
		}
	}
}

func (m *machine) observe(updates []openflow.FlowUpdate) {
	for i := range updates {
		u := &updates[i]
		if o, ok := m.readOpening(u.Table, u.Priority, u.Match); ok {
			m.openingUpdate(o, u)
			continue
		}
		if u.Event != openflow.FlowRemoved && m.connections.found(u.Cookie) {
			continue
		}
		if m.observed.update(&updates[i], m.generation()) {
			m.dirty, m.fresh = true, false
		}
	}
}

// next returns the first thing to do, nil to wait for an event.
func (m *machine) next() request {
	switch {
	case m.want == nil && !m.withdrawing:
		return nil
	case !m.monitored[placement.PrivateTable]:
		return monitor{placement.PrivateTable}
	case m.dirty:
		// The updates of one command come one by one. Deciding by half of them would undo what another process has
		// just begun.
		return barrier{}
	}
	if m.withdrawing {
		return m.withdraw()
	}
	if !m.owns() {
		return nil
	}
	if r := m.trace(); r != nil {
		return r
	}
	if m.countDue {
		m.countDue = false
		return readMeterStats{}
	}
	if m.want.Unready != "" {
		m.reportWaiting(m.want.Unready)
		return nil
	}
	if m.paused {
		return nil
	}
	if !m.meters.known {
		return readMeters{}
	}
	if m.meters.last == 0 && m.want.Limited && !m.meters.refused {
		m.refuseMeters(errors.New("its datapath has no meters"))
	}
	of, r, ok := m.pipeline()
	if r != nil || !ok {
		return r
	}
	if !m.want.Settled && !m.placedBefore {
		// The private table may belong to another process, whose guests are not known yet.
		m.reportWaiting(cmp.Or(m.want.Unsettled, "the databases have not sent all guests of this node yet"))
		return nil
	}
	m.distribute()
	m.plan.update(of, m.want.Guests, &m.meters)
	if r := m.change(); r != nil {
		return r
	}
	if r := m.changeOpenings(); r != nil {
		return r
	}
	if r := m.changeConnections(); r != nil {
		return r
	}
	m.inPlace()
	return m.sweep()
}

func (m *machine) reportWaiting(reason string) {
	if m.status == waiting && m.reason == reason {
		return
	}
	m.status, m.reason = waiting, reason
	m.do(Waiting{reason})
}
