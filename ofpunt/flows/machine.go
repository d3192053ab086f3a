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

// Memory is what a process keeps of a bridge from one connection to the next. The zero
// value is that of a process which is new to the bridge. One machine uses it at a time.
type Memory struct {
	tenure tenure
	// unmetered is set while it was reported that limits are not enforced.
	unmetered bool
	// swept counts the tables that were searched for flows of dead processes.
	swept int
}

// machine decides what is to be done about the flows of one bridge, by one connection. It
// is not safe for concurrent use.
type machine struct {
	memory *Memory
	random *rand.Rand

	// now and out are of the step that is being made.
	now time.Time
	out []command
	// outstanding is the request that the switch has not answered yet. Of readFlows,
	// reading is what it is for; of apply, adding are the flows that it adds.
	outstanding request
	reading     reading
	adding      []*flow
	// meanwhile is what the switch has told during an apply; the first older of it came
	// before the change was made.
	meanwhile []openflow.FlowUpdate
	older     int

	want     *Want
	standing standing
	meters   meters
	stage    stageFinder
	lease    lease
	plan     plan

	// monitored are the tables with a flow monitor.
	monitored map[uint8]bool
	// traced are the generations whose flows were asked for in all tables.
	traced map[uint64]bool
	// dirty is set when the switch may have told a part only of what has happened.
	// Decisions wait for a barrier then.
	dirty bool
	// fresh is set in the step that takes the reply to a barrier, if nothing has been
	// told since: only then is anything changed in the switch.
	fresh bool
	// paused is set after the switch has refused something for its meters, until the
	// next event.
	paused bool
	// countDue is set when the meters' counters are to be read, and tablesDue is how many
	// tables are to be searched, until the next beat.
	countDue  bool
	tablesDue int
	// distributed are the guests, and distribution the meters' version, of the meters
	// that are assigned.
	distributed  []Guest
	distribution uint64

	// todo is the change that is to be made for the picture todoAt of wanted and standing
	// flows, nil for none; placed is the last picture for which there was none.
	todo           request
	todoAt, placed picture
	// restoring is how many flows were lost since the last change that was made.
	restoring int

	// leaving is set once the flows are to be withdrawn, saidFarewell once the punt has
	// been given the generation that nobody waits for, and ended once they are withdrawn,
	// or the connection has failed.
	leaving, saidFarewell, ended bool

	// What was reported: started once flows have been in place, short once there were
	// too few meters, toldLapsed until the punt stands again. Reason is of the status
	// waiting; guests and flows are those that stand.
	started, short, toldLapsed bool
	status                     status
	reason                     string
	guests, flows              int
}

// picture is what a comparison of wanted and standing flows is of.
type picture struct {
	plan, standing, meters uint64
	punt, settled, valid   bool
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
	puntMissing
)

// newMachine returns the machine for a new connection. It makes no decision before it is told
// what is Desired. Random is used for tokens, generations and patience.
func newMachine(memory *Memory, random *rand.Rand) *machine {
	return &machine{
		memory: memory, random: random,
		standing: newStanding(), meters: newMeters(),
		monitored: map[uint8]bool{}, traced: map[uint64]bool{},
	}
}

// Yielding reports whether another process owns the flows.
func (m *machine) Yielding() bool { return m.memory.tenure.yielding }

func (m *machine) generation() uint64 { return m.memory.tenure.generation }

// step takes an event and returns what is to be done about it, in this order; a request
// comes last. Time is that of the event and must not go back.
func (m *machine) step(now time.Time, e Event) []command {
	m.now, m.out = now, nil
	if _, reply := e.(done); !reply {
		m.paused = false
	}
	m.fresh = false
	switch e := e.(type) {
	case Desired:
		m.want = e.Want
	case told:
		m.told(e.Updates)
	case done:
		m.done(e)
	case Beat:
		m.beat()
	case probeBack:
		m.probeBack(e.Token)
	case retry:
		m.stage.again()
	case Leave:
		m.leaving = true
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

// told takes in what flow monitors say. What they say during an apply is taken in when it
// is known whether the change was made.
func (m *machine) told(updates []openflow.FlowUpdate) {
	if _, applying := m.outstanding.(apply); !applying {
		m.takeIn(updates)
		return
	}
	for i := range updates {
		if updates[i].Event == openflow.FlowOwn {
			m.older = len(m.meanwhile)
		} else {
			m.meanwhile = append(m.meanwhile, updates[i])
		}
	}
}

func (m *machine) takeIn(updates []openflow.FlowUpdate) {
	for i := range updates {
		if m.standing.told(&updates[i], m.generation()) {
			m.dirty, m.fresh = true, false
		}
	}
}

// next is the first thing to be done, in the order in which one needs the other. It
// returns nil where there is nothing to do but to wait for an event.
func (m *machine) next() request {
	switch {
	case m.want == nil && !m.leaving:
		return nil
	case !m.monitored[placement.PrivateTable]:
		return monitor{placement.PrivateTable}
	case m.dirty:
		// What one command of somebody else has done is told bit by bit. To decide by
		// half of it would undo what another process has just begun.
		return barrier{}
	}
	if m.leaving {
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
		m.wait(m.want.Unready)
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
	if !m.want.Settled && !m.started {
		// The private table may be another process's still, whose guests are not known
		// here yet.
		m.wait(cmp.Or(m.want.Unsettled, "the databases have not told all guests of this node"))
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

// wait reports why nothing can be placed, once.
func (m *machine) wait(reason string) {
	if m.status == waiting && m.reason == reason {
		return
	}
	m.status, m.reason = waiting, reason
	m.do(Waiting{reason})
}
