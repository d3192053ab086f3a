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

// Memory is the state of a bridge that outlives a connection. The zero value is for a process that is new to
// the bridge. One machine uses it at a time.
type Memory struct {
	ownership ownership
	// limits is what was reported last about the meters.
	limits limits
	// swept counts the tables that were searched for flows of dead processes.
	swept int
}

// limits is whether the switch enforces the limits of guests.
type limits uint8

const (
	limitsEnforced limits = iota
	limitsRefused         // it takes no meter
	limitsShort           // it has too few meters
)

// machine decides on the flows of one bridge, by one connection. It is not safe for concurrent use.
type machine struct {
	memory *Memory
	random *rand.Rand

	// now and out are of the step that is being made.
	now time.Time
	out []command
	// outstanding is the request without a reply so far. For a readFlows, reading is its purpose. For an
	// apply, adding are the flows that it adds.
	outstanding request
	reading     reading
	adding      []*flow
	// deferred are the flow updates that came during an apply. The first stale of them are
	// from before the change was made.
	deferred []openflow.FlowUpdate
	stale    int

	want     *Want
	observed observed
	// leased is when the lease flow was installed or renewed last, and probed when a probe has come
	// back last; zero for never.
	leased, probed time.Time
	meters         meters
	stage          stageFinder
	lease          lease
	plan           plan

	// monitored are the tables with a flow monitor.
	monitored map[uint8]bool
	// traced are the generations whose flows were asked for in all tables.
	traced map[uint64]bool
	// dirty is set while flow updates of the same change may still be to come. Decisions
	// wait for a barrier then.
	dirty bool
	// fresh is set in the step that takes the reply to a barrier, if no flow update has come
	// since: only then is anything changed in the switch.
	fresh bool
	// paused is set after the switch has refused a change because of meters, until the next
	// event.
	paused bool
	// countDue is set when the machine reads the counters of the meters, and tablesDue is how many tables it
	// searches, until the next heartbeat.
	countDue  bool
	tablesDue int
	// distributed are the guests, and distribution the meters' version, of the meters
	// that are assigned.
	distributed  []Guest
	distribution uint64

	// todo is the next change for the versions todoAt, nil for none; placed are the last versions without a
	// change to make.
	todo           request
	todoAt, placed versions
	// lostFlows is how many flows were lost since the last change that was made, 0 once
	// another process has taken over: they are not put back.
	lostFlows int

	// withdrawing is set once the machine withdraws the flows, keepClosed if Withdraw says so, releasedLease once the lease flow has the
	// releasedGeneration, and ended once the flows are withdrawn or the connection has failed.
	withdrawing, keepClosed, releasedLease, ended bool

	// What was reported: placedBefore once flows have been in place on this connection,
	// reportedExpired until the lease flow is installed again. reason is valid in the status
	// waiting; guests and flows are how many are installed.
	placedBefore, reportedExpired bool
	status                        status
	reason                        string
	guests, flows                 int
}

// versions identify what a comparison of wanted and observed flows is of: while they are
// the same, so is its result.
type versions struct {
	plan, observed, meters uint64
	lease, settled, valid  bool
}

// reading is what flows are read for.
type reading struct {
	purpose    purpose
	generation uint64
	stage      Stage
}

type purpose uint8

const (
	forTrace purpose = iota
	forStage
	forSweep
)

type status uint8

const (
	unreported status = iota
	waiting
	yielding
	serving
	leaseMissing
)

// newMachine returns the machine for a new connection. It makes no decision before the first Desired. random
// is for tokens, generations and delays.
func newMachine(memory *Memory, random *rand.Rand) *machine {
	return &machine{
		memory: memory, random: random,
		observed: newObserved(), meters: newMeters(random.Uint32()),
		monitored: map[uint8]bool{}, traced: map[uint64]bool{},
	}
}

// Yielding reports whether another process owns the flows.
func (m *machine) Yielding() bool { return m.memory.ownership.yielding }

func (m *machine) generation() uint64 { return m.memory.ownership.generation }

// step takes an event and returns the commands that follow from it, in this order; a request comes last. now
// is the time of the event and must not go back.
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
	case Withdraw:
		m.withdrawing, m.keepClosed = true, e.KeepClosed
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

// flowUpdates takes the events of flow monitors. During an apply it defers them until the reply says whether
// the change was made.
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

// observe takes in flow updates. Those about flows of puntdns's call for a barrier.
func (m *machine) observe(updates []openflow.FlowUpdate) {
	for i := range updates {
		if m.observed.update(&updates[i], m.generation()) {
			m.dirty, m.fresh = true, false
		}
	}
}

// next is the first thing to be done, in the order in which one needs the other. It
// returns nil where there is nothing to do but to wait for an event.
func (m *machine) next() request {
	switch {
	case m.want == nil && !m.withdrawing:
		return nil
	case !m.monitored[placement.PrivateTable]:
		return monitor{placement.PrivateTable}
	case m.dirty:
		// The updates of one command come one by one. A decision by half of them would
		// undo what another process has just begun.
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
		// The private table may be another process's still, whose guests are not known
		// here yet.
		m.reportWaiting(cmp.Or(m.want.Unsettled, "the databases have not sent all guests of this node yet"))
		return nil
	}
	m.distribute()
	m.plan.update(of, m.want.Guests, &m.meters)
	if r := m.change(); r != nil {
		return r
	}
	m.inPlace()
	return m.sweep()
}

// reportWaiting reports why nothing can be placed, once.
func (m *machine) reportWaiting(reason string) {
	if m.status == waiting && m.reason == reason {
		return
	}
	m.status, m.reason = waiting, reason
	m.do(Waiting{reason})
}
