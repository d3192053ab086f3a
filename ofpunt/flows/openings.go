// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// An opening is a flow that an answer has called for: a guest may send to a destination. Openings are in no plan, so
// an answer costs only its own flows. The flow contains the names that opened it, and its cookie is the same for all
// processes, so openings outlive a process. Only removing and adding a flow, in one bundle, restarts the idle
// timeout: in Open vSwitch a flow that replaces another inherits the time of the last packet.

const openingGeneration = 1

const (
	// maxNames and maxNamesLength bound the recorded names of an opening. The last name may exceed the length.
	maxNames, maxNamesLength = 16, 1024
	// maxOpenings bounds the openings of a bridge. Open vSwitch's datapath cache has three times as many entries
	// (flow-limit in ovs-vswitchd.conf.db(5)).
	maxOpenings = 65536
	// leastIdle is the least idle time of an opening that makes room.
	leastIdle = time.Minute
	// looksEvery limits reads of a full guest's openings, and reads after lapses. Each read makes room for
	// MaxOpenings/roomParts openings if so many are idle. Reads for a trial make no room and do not count.
	looksEvery = time.Second
	roomParts  = 16
	// maxRequests bounds waiting requests, like max_concurrent of ofpunt. Their callers may have gone.
	maxRequests = 65536
	// keptFor is how long after its last answer an opening lasts while only siblings, destinations of the same name,
	// are used.
	keptFor = 24 * time.Hour
)

type openRequest struct {
	token  uint64
	guest  placement.Key
	answer opening.Answer
}

// opened answers a request: err is nil once the switch has confirmed.
type opened struct {
	token uint64
	err   error
}

var (
	errClosed    = errors.New("the destination was closed meanwhile")
	errReplaced  = errors.New("another process serves the bridge")
	errNotServed = errors.New("the bridge is not served any more")
)

// standing reports until when an opening stands at least, zero if it does not.
type standing struct {
	of       placement.Opening
	names    []string // immutable
	until    time.Time
	answered *atomic.Int64 // of openingState
}

type openings struct {
	// known is set once the openings were read, until another program adds or changes one.
	known bool
	all   map[placement.Opening]*openingState
	of    map[placement.Key]map[*openingState]struct{}
	// perNetwork counts openings by the logical switch's tunnel key.
	perNetwork map[uint32]int
	// changed are to be compared with the switch, writing are in the outstanding apply.
	changed map[*openingState]struct{}
	writing []*openingState
	// bit is the openings' bit of pkt_mark, 0 before the first.
	bit uint8
	// policies belong to guests in list. settled is set if list is complete.
	policies map[placement.Key]opening.Policy
	list     []Guest
	settled  bool
	// queued are requests that came during an apply.
	queued []openRequest
	// missing counts the openings that each request waits for.
	missing map[uint64]int
	// crowded are requests of guests without room. looks are guests whose openings must be read; lookedAt has the
	// last reads.
	crowded  []openRequest
	looks    map[placement.Key]struct{}
	lookedAt map[placement.Key]time.Time
	// lapses are guests with lapsed openings, last read at lapsesAt.
	lapses   map[placement.Key]struct{}
	lapsesAt time.Time
}

type openingState struct {
	placement.Opening
	names []string
	// idle is the idle timeout and since its start. next is the idle timeout of the next flow.
	idle, next time.Duration
	since      time.Time
	// answered is when the last answer came, by answerTime. Answers that need no change set it without the machine.
	answered atomic.Int64
	// lapsed is set after an idle timeout, while siblings may be in use.
	wanted, installed, lapsed bool
	// reported is set while the last standing says that the opening stands.
	reported bool
	// renamed is set after a change of names or bit, restart if the idle timeout must restart.
	renamed, restart bool
	requests         []uint64
}

// reuseOpenings returns the openings for a new connection, without requests.
func (m *Memory) reuseOpenings() *openings {
	s := &openings{
		all: map[placement.Opening]*openingState{}, of: map[placement.Key]map[*openingState]struct{}{}, perNetwork: map[uint32]int{},
		changed: map[*openingState]struct{}{}, missing: map[uint64]int{},
		looks: map[placement.Key]struct{}{}, lookedAt: map[placement.Key]time.Time{}, lapses: map[placement.Key]struct{}{},
	}
	if m.openings != nil {
		s.all, s.of, s.perNetwork, s.bit = m.openings.all, m.openings.of, m.openings.perNetwork, m.openings.bit
	}
	for _, e := range s.all {
		e.requests, e.next, e.restart, e.renamed, e.reported = nil, e.idle, false, false, false
		if !e.wanted || !e.installed {
			s.forget(e)
		}
	}
	m.openings = s
	return s
}

func (s *openings) add(o placement.Opening) *openingState {
	e := &openingState{Opening: o}
	s.all[o] = e
	if s.of[o.Guest] == nil {
		s.of[o.Guest] = map[*openingState]struct{}{}
	}
	s.of[o.Guest][e] = struct{}{}
	s.perNetwork[o.Guest.Datapath]++
	return e
}

func (s *openings) forget(e *openingState) {
	delete(s.all, e.Opening)
	delete(s.changed, e)
	delete(s.of[e.Guest], e)
	if s.perNetwork[e.Guest.Datapath]--; s.perNetwork[e.Guest.Datapath] == 0 {
		delete(s.perNetwork, e.Guest.Datapath)
	}
	if len(s.of[e.Guest]) == 0 {
		delete(s.of, e.Guest)
		delete(s.lookedAt, e.Guest)
		delete(s.lapses, e.Guest)
	}
}

func (e *openingState) until() time.Time { return e.since.Add(e.idle - time.Second) }

var processStart = time.Now()

// answerTime is monotonic, in nanoseconds since the start of the process.
func answerTime(now time.Time) int64 { return int64(now.Sub(processStart)) }

func (e *openingState) sinceAnswer(now time.Time) time.Duration {
	return time.Duration(answerTime(now) - e.answered.Load())
}

// isFull reports whether further names are not recorded.
func isFull(names []string) bool {
	length := 0
	for _, name := range names {
		length += len(name)
	}
	return len(names) >= maxNames || length >= maxNamesLength
}

func (s *openings) count(guest placement.Key) (n int) {
	for e := range s.of[guest] {
		if e.wanted {
			n++
		}
	}
	return n
}

// notOpen counts the destinations of a request that it would open.
func (s *openings) notOpen(r *openRequest) (n int) {
	for _, to := range r.answer.To {
		if e := s.all[placement.Opening{Guest: r.guest, To: to}]; e == nil || !e.wanted {
			n++
		}
	}
	return n
}

func (m *machine) open(requests []openRequest) {
	if m.openings.writing != nil {
		m.openings.queued = append(m.openings.queued, requests...)
		return
	}
	for i := range requests {
		m.openOne(&requests[i])
	}
}

func (m *machine) openOne(r *openRequest) {
	s := m.openings
	if err := m.refuseOpening(r); err != nil {
		m.do(opened{r.token, err})
		return
	}
	switch {
	case m.over(r) <= 0:
		m.grant(r)
	case m.now.Sub(s.lookedAt[r.guest]) < looksEvery:
		m.do(opened{r.token, m.guestFull(r.guest)})
	default:
		s.crowded = append(s.crowded, *r)
		s.looks[r.guest] = struct{}{}
	}
}

// over returns how many openings of the guest must close for a request.
func (m *machine) over(r *openRequest) int {
	s, more := m.openings, m.openings.notOpen(r)
	if more == 0 || len(s.of[r.guest])+more <= m.want.MaxOpenings { // cheaper than to count
		return 0
	}
	return s.count(r.guest) + more - m.want.MaxOpenings
}

func (m *machine) guestFull(guest placement.Key) error {
	return fmt.Errorf("the guest has %d, and too few of them are unused for a minute: %w", m.openings.count(guest), opening.ErrFull)
}

func (m *machine) refuseOpening(r *openRequest) error {
	if m.want == nil || m.withdrawing {
		return errNotServed
	}
	if m.Yielding() {
		return errReplaced
	}
	// Cheap checks first: a guest may choose a server that answers with thousands of addresses.
	switch n := len(m.openings.missing) + len(m.openings.crowded); {
	case len(r.answer.To) > m.want.MaxOpenings:
		return fmt.Errorf("the answer has %d: %w", len(r.answer.To), opening.ErrFull)
	case n >= maxRequests:
		return fmt.Errorf("%d answers wait for the switch", n)
	}
	m.judge()
	policy := m.openings.policies[r.guest]
	switch {
	case policy == nil:
		return errors.New("the guest has no egress policy")
	case slices.ContainsFunc(r.answer.To, func(to opening.Destination) bool { return !policy.Allows(r.answer.Name, to) }):
		return errors.New("the guest's egress policies do not allow it any more")
	case r.answer.Trial && (m.status == unreported || m.status == waiting): // others wait
		return errors.New("the flows of puntdns are not in place")
	case m.want.Stage.StatefulID == 0:
		return errors.New("the Southbound database has no logical flow of ls_in_pre_stateful")
	}
	s := m.openings
	switch more := s.notOpen(r); {
	case more > 0 && len(s.all)+more > maxOpenings:
		return fmt.Errorf("the bridge has %d: %w", len(s.all), opening.ErrFull)
	case more > 0 && s.perNetwork[r.guest.Datapath]+more > m.want.MaxNetworkOpenings:
		return fmt.Errorf("the guest's logical switch has %d: %w", s.perNetwork[r.guest.Datapath], opening.ErrFull)
	}
	return nil
}

// grant opens the destinations of a request that has room.
func (m *machine) grant(r *openRequest) {
	if r.answer.Trial {
		m.do(opened{token: r.token})
		return
	}
	for _, to := range r.answer.To {
		m.extend(placement.Opening{Guest: r.guest, To: to}, r)
	}
	if m.openings.missing[r.token] == 0 {
		m.do(opened{token: r.token})
	}
}

// extend makes an opening last as an answer asks, and records the request if the switch must change.
func (m *machine) extend(o placement.Opening, r *openRequest) {
	s := m.openings
	e := s.all[o]
	if e == nil {
		e = s.add(o)
	}
	e.answered.Store(answerTime(m.now))
	e.lapsed = false
	if !slices.Contains(e.names, r.answer.Name) && !isFull(e.names) {
		e.names = append(slices.Clone(e.names), r.answer.Name)
		e.renamed = true
	}
	if e.installed && m.now.Add(r.answer.Lasts).After(e.until()) {
		e.restart = true
	}
	if !e.installed || e.restart {
		e.next = max(e.next, min(r.answer.Lasts+m.want.OpeningGrace, math.MaxUint16*time.Second)).Truncate(time.Second)
	}
	e.wanted = true
	if e.installed && !e.restart && !e.renamed {
		return
	}
	s.changed[e] = struct{}{}
	if n := len(e.requests); n == 0 || e.requests[n-1] != r.token {
		e.requests = append(e.requests, r.token)
		s.missing[r.token]++
	}
}

// judge closes what the guests' policies no longer allow.
func (m *machine) judge() {
	s := m.openings
	if s.policies != nil && s.settled == m.want.Settled && sameGuests(s.list, m.want.Guests) {
		return
	}
	before, settled := s.policies, s.settled
	s.policies, s.list, s.settled = map[placement.Key]opening.Policy{}, m.want.Guests, m.want.Settled
	for i := range m.want.Guests {
		// Of two ports with one key the first counts, as in plan.
		if g := &m.want.Guests[i]; s.policies[g.Key] == nil && g.Egress != nil {
			s.policies[g.Key] = g.Egress
		}
	}
	for guest, of := range s.of {
		if p := s.policies[guest]; before == nil || p != before[guest] || settled != m.want.Settled {
			for e := range of {
				m.judgeOne(e, p)
			}
		}
	}
}

func (m *machine) judgeOne(e *openingState, p opening.Policy) {
	if p == nil {
		if m.want.Settled {
			m.closeOpening(e)
		}
		return
	}
	names := slices.DeleteFunc(slices.Clone(e.names), func(name string) bool { return !p.Allows(name, e.To) })
	if len(names) == len(e.names) && len(names) > 0 {
		return
	}
	e.names, e.renamed = names, true
	m.openings.changed[e] = struct{}{}
	if len(names) == 0 {
		m.closeOpening(e)
	}
}

// closeOpening makes waiting requests fail. No answer relies on the opening from now on, although the switch has it until
// the next change.
func (m *machine) closeOpening(e *openingState) {
	m.goes(e)
	e.wanted, e.lapsed = false, false
	m.openings.changed[e] = struct{}{}
}

func (m *machine) changeOpenings() request {
	s, at := m.openings, &m.plan.of
	switch {
	case at.service.EgressBit == 0 && len(s.all) == 0:
		clear(s.looks)
		m.endCrowded(errNotServed)
		return nil
	case at.service.EgressBit == 0:
		for _, e := range s.all {
			m.closeOpening(e)
		}
	case !at.service.HasEgress(at.Pipeline):
		return nil
	default:
		m.setBit(at.service.EgressBit)
		m.judge()
		if r := m.lookAtOpenings(); r != nil {
			return r
		}
	}
	return m.writeOpenings(at.service)
}

func (m *machine) setBit(bit uint8) {
	s := m.openings
	if s.bit == bit {
		return
	}
	s.bit = bit
	for _, e := range s.all {
		e.renamed = true
		s.changed[e] = struct{}{}
	}
}

func (m *machine) lookAtOpenings() request {
	s := m.openings
	r := readFlows{Table: placement.EgressTable, Cookie: cookieOf(openingGeneration), Mask: exactMask}
	switch {
	case !s.known:
		m.reading = reading{purpose: forOpenings}
		return r
	case len(s.looks) > 0:
		guest := slices.MinFunc(slices.Collect(maps.Keys(s.looks)), placement.Key.Compare)
		m.reading, r.Guest = reading{purpose: forGuest, guest: guest}, &guest
		return r
	case len(s.lapses) == 0:
		return nil
	case m.now.Before(s.lapsesAt.Add(looksEvery)):
		m.do(retrySoon{})
		return nil
	}
	for guest := range s.lapses {
		m.endLapses(guest, func(e *openingState) bool { return e.installed }, false)
	}
	guests := slices.Collect(maps.Keys(s.lapses))
	switch len(guests) {
	case 0:
		return nil
	case 1:
		m.reading, r.Guest = reading{purpose: forGuest, guest: guests[0]}, &guests[0]
	default: // costs less than a read for each guest
		m.reading = reading{purpose: forLapses}
	}
	s.lapsesAt = m.now
	return r
}

func (m *machine) writeOpenings(of placement.Service) request {
	s := m.openings
	var mods []openflow.FlowMod
	s.writing = nil
	of.Cookie = cookieOf(openingGeneration)
	for _, e := range slices.SortedFunc(maps.Keys(s.changed), func(a, b *openingState) int { return a.Opening.Compare(b.Opening) }) {
		add := of.Flow(&e.Opening, e.names, uint16(e.next/time.Second))
		remove := removalOf(add)
		if !e.wanted {
			m.endRequests(e, errClosed)
		}
		switch {
		case e.installed && !e.wanted:
			mods = append(mods, remove)
		case e.installed && e.restart:
			mods = append(mods, remove, add)
		case e.wanted && (!e.installed || e.renamed):
			mods = append(mods, add)
		default:
			m.finish(e, nil)
			continue
		}
		s.writing = append(s.writing, e)
	}
	if len(mods) == 0 {
		return nil
	}
	m.adding = nil
	return apply{mods}
}

func (m *machine) wrote(err error) {
	s := m.openings
	for _, e := range s.writing {
		switch {
		case err != nil && !e.wanted:
			continue // the next apply removes it, and adds nothing that the switch refuses
		case err != nil:
			e.wanted, e.restart, e.next = e.installed, false, e.idle
		case e.wanted:
			if !e.installed || e.restart {
				e.since, e.idle = m.now, e.next
			}
			e.installed, e.restart, e.renamed = true, false, false
		default:
			e.installed = false
		}
		m.finish(e, err)
	}
	queued := s.queued
	s.writing, s.queued = nil, nil
	m.open(queued)
}

func (m *machine) finish(e *openingState, err error) {
	m.settle(e)
	m.endRequests(e, err)
}

func (m *machine) endRequests(e *openingState, err error) {
	s := m.openings
	for _, token := range e.requests {
		left, waits := s.missing[token]
		switch {
		case !waits:
		case err != nil:
			delete(s.missing, token)
			m.do(opened{token, err})
		case left > 1:
			s.missing[token] = left - 1
		default:
			delete(s.missing, token)
			m.do(opened{token: token})
		}
	}
	e.requests = nil
}

// settle records that the switch has an opening as wanted.
func (m *machine) settle(e *openingState) {
	delete(m.openings.changed, e)
	if e.installed {
		e.reported = true
		m.do(standing{e.Opening, e.names, e.until(), &e.answered})
		return
	}
	m.goes(e)
	if !e.wanted && !e.lapsed {
		m.openings.forget(e)
	}
}

// goes reports that an opening is, or will be, removed: no further answer may rely on it.
func (m *machine) goes(e *openingState) {
	if e.reported {
		e.reported = false
		m.do(standing{of: e.Opening})
	}
}

func (m *machine) abandonOpenings() {
	s := m.openings
	for _, token := range slices.Sorted(maps.Keys(s.missing)) {
		m.do(opened{token, errReplaced})
	}
	m.endCrowded(errReplaced)
	for _, e := range slices.SortedFunc(maps.Values(s.all), func(a, b *openingState) int { return a.Opening.Compare(b.Opening) }) {
		m.goes(e)
	}
	m.memory.openings = nil
	m.openings = m.memory.reuseOpenings()
}

func (m *machine) endCrowded(err error) {
	for i := range m.openings.crowded {
		m.do(opened{m.openings.crowded[i].token, err})
	}
	m.openings.crowded = nil
}

// readOpening treats openings like other flows of earlier processes while egress is off.
func (m *machine) readOpening(table uint8, priority uint16, match openflow.Match) (o placement.Opening, ok bool) {
	if m.want == nil || m.want.Service.EgressBit == 0 {
		return o, false
	}
	return placement.ReadOpening(table, priority, match)
}

func (m *machine) openingUpdate(o placement.Opening, u *openflow.FlowUpdate) {
	s := m.openings
	e := s.all[o]
	switch {
	case u.Event != openflow.FlowRemoved:
		// Another process, or a restored flow: only the flow has the names.
		s.known = false
	case e == nil:
	case wentIdle(u):
		m.goes(e)
		e.installed = false
		if e.wanted && len(e.requests) == 0 {
			e.wanted, e.lapsed = false, true
			s.lapses[e.Guest] = struct{}{}
		}
		s.changed[e] = struct{}{}
	default:
		m.goes(e)
		e.installed = false
		s.changed[e] = struct{}{}
		m.observed.lost++
	}
}

func wentIdle(u *openflow.FlowUpdate) bool {
	const idleTimeout = 0 // OFPRR_IDLE_TIMEOUT
	return u.Reason == idleTimeout
}

// siblings divides a guest's lapsed openings: kept share a name with an opening in use. inUse is called once for each
// other opening.
func (s *openings) siblings(guest placement.Key, inUse func(*openingState) bool) (kept, gone []*openingState) {
	names := map[string]struct{}{}
	for e := range s.of[guest] {
		if e.lapsed || !inUse(e) {
			continue
		}
		for _, name := range e.names {
			names[name] = struct{}{}
		}
	}
	for e := range s.of[guest] {
		switch {
		case !e.lapsed:
		case slices.ContainsFunc(e.names, func(name string) bool { _, has := names[name]; return has }):
			kept = append(kept, e)
		default:
			gone = append(gone, e)
		}
	}
	return kept, gone
}

// endLapses closes a guest's lapsed openings that share no name with an opening in use. restore
// reinstalls the others, the last answered first, as many as have room: a client tries a name's other addresses without
// resolving again.
func (m *machine) endLapses(guest placement.Key, inUse func(*openingState) bool, restore bool) {
	s := m.openings
	kept, gone := s.siblings(guest, inUse)
	for _, e := range gone {
		m.closeOpening(e)
	}
	if len(kept) > 0 && !restore {
		return
	}
	delete(s.lapses, guest)
	slices.SortFunc(kept, func(a, b *openingState) int {
		return cmp.Or(cmp.Compare(b.answered.Load(), a.answered.Load()), a.Opening.Compare(b.Opening))
	})
	room := m.want.MaxOpenings - s.count(guest)
	for i, e := range kept {
		e.wanted, e.lapsed = i < room && e.sinceAnswer(m.now) < keptFor, false
		s.changed[e] = struct{}{}
	}
}

func (m *machine) readOpenings(flows []openflow.FlowStats) {
	s := m.openings
	s.known = true
	found := map[*openingState]struct{}{}
	for i := range flows {
		f := &flows[i]
		o, ok := placement.ReadOpening(f.Table, f.Priority, f.Match)
		if !ok {
			continue
		}
		e := s.all[o]
		if e == nil {
			e = s.add(o)
			e.wanted = true
			e.answered.Store(answerTime(m.now.Add(-f.Duration)))
		}
		names := placement.NamesOf(f.Instructions)
		if !e.installed {
			unused := f.Idle
			if unused < 0 {
				unused = f.Duration // OpenFlow 1.3 does not report Idle; Duration is its maximum
			}
			e.idle, e.since = time.Duration(f.IdleTimeout)*time.Second, m.now.Add(-unused)
			e.next = max(e.next, e.idle)
		}
		for _, name := range names {
			if !slices.Contains(e.names, name) && !isFull(e.names) {
				e.names = append(slices.Clone(e.names), name)
			}
		}
		e.installed, e.renamed = true, len(names) != len(e.names)
		found[e] = struct{}{}
		s.changed[e] = struct{}{}
		m.judgeOne(e, s.policies[o.Guest])
	}
	for _, e := range s.all {
		if _, ok := found[e]; !ok && e.installed {
			e.installed = false
			s.changed[e] = struct{}{}
		}
	}
}

func (s *openings) unused(flows []openflow.FlowStats) map[*openingState]time.Duration {
	all := map[*openingState]time.Duration{}
	for i := range flows {
		f := &flows[i]
		if o, ok := placement.ReadOpening(f.Table, f.Priority, f.Match); ok && s.all[o] != nil && f.Idle >= 0 {
			all[s.all[o]] = f.Idle
		}
	}
	return all
}

func (m *machine) looked(guest placement.Key, flows []openflow.FlowStats) {
	s := m.openings
	delete(s.looks, guest)
	unused := s.unused(flows)
	// Without a MAC, the match also covers guests that have one.
	maps.DeleteFunc(unused, func(e *openingState, _ time.Duration) bool { return e.Guest != guest })
	m.makeRoom(guest, unused)
	m.endLapses(guest, m.used(unused), true) // takes the room that is left
}

func (m *machine) lookedAtAll(flows []openflow.FlowStats) {
	s := m.openings
	s.lapsesAt = m.now // reads a slow switch less often
	used := m.used(s.unused(flows))
	for guest := range s.lapses {
		m.endLapses(guest, used, true)
	}
}

// used reports whether an opening had a packet within half its idle timeout.
func (m *machine) used(unused map[*openingState]time.Duration) func(*openingState) bool {
	return func(e *openingState) bool {
		idle, known := unused[e]
		return known && e.installed && idle*2 < e.idle && e.since.Before(m.now.Add(-idle))
	}
}

// makeRoom ends the guest's crowded requests. It closes the longest idle openings for them.
func (m *machine) makeRoom(guest placement.Key, unused map[*openingState]time.Duration) {
	s := m.openings
	oldest := slices.SortedFunc(maps.Keys(unused), func(a, b *openingState) int {
		return cmp.Or(cmp.Compare(unused[b], unused[a]), a.Opening.Compare(b.Opening))
	})
	oldest = slices.DeleteFunc(oldest, func(e *openingState) bool { return unused[e] < leastIdle })
	crowded := s.crowded
	s.crowded = nil
	for i := range crowded {
		r := &crowded[i]
		if r.guest != guest {
			s.crowded = append(s.crowded, *r)
			continue
		}
		if err := m.refuseOpening(r); err != nil { // the policies may have changed since the first time
			m.do(opened{r.token, err})
			continue
		}
		if s.of[guest] != nil && !r.answer.Trial {
			s.lookedAt[guest] = m.now // until forget
		}
		over := m.over(r)
		if over <= 0 {
			m.grant(r)
			continue
		}
		idle, full := m.spare(r, oldest), m.guestFull(guest)
		if !r.answer.Trial {
			for _, e := range idle[:min(over+m.want.MaxOpenings/roomParts, len(idle))] {
				m.closeOpening(e)
			}
		}
		if over > len(idle) {
			m.do(opened{r.token, full})
			continue
		}
		m.grant(r)
	}
}

// spare returns which of a guest's idle openings may make room for a request.
func (m *machine) spare(r *openRequest, idle []*openingState) []*openingState {
	own := map[*openingState]struct{}{}
	for _, to := range r.answer.To {
		own[m.openings.all[placement.Opening{Guest: r.guest, To: to}]] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(idle), func(e *openingState) bool {
		_, is := own[e]
		return is || !e.wanted || e.sinceAnswer(m.now) < leastIdle
	})
}
