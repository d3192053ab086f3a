// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Errors about meters (openflow-1.5, OFPET_METER_MOD_FAILED), and others.
var (
	meterNotKnown = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 3}
	meterInvalid  = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 2}
	noMoreMeters  = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 10}
	noSuchTable   = &openflow.SwitchError{Version: openflow.V15, Type: 5, Code: 2}
	errEnded      = errors.New("the connection has ended")
)

// fakeSwitch treats flows, meters and flow monitors as Open vSwitch does.
type fakeSwitch struct {
	now    time.Time
	flows  map[flowKey]standingFlow
	meters map[uint32]openflow.MeterConfig
	// made has, by id, the value of added when the meter was added.
	added    int
	made     map[uint32]int
	maxMeter uint32
	dropped  uint64 // by each meter
	// refusesMeters answers changes of meters, nil to carry them out.
	refusesMeters error
	conns         []*fakeConn
	real          *realBridge
}

type standingFlow struct {
	mod   openflow.FlowMod
	until time.Time // zero without a timeout
	// A flow that replaces another inherits used.
	added, used time.Time
	meter       int // number of the added meter that it names, 0 for none
}

// fakeConn queues what the switch has sent and the process has not handled.
type fakeConn struct {
	monitored map[uint8]bool
	queue     []Event
	real      *realConn // nil without a real switch
}

func newFakeSwitch(now time.Time) *fakeSwitch {
	return &fakeSwitch{now: now, flows: map[flowKey]standingFlow{}, meters: map[uint32]openflow.MeterConfig{}, made: map[uint32]int{}, maxMeter: 1 << 18}
}

func (s *fakeSwitch) connect() *fakeConn {
	c := &fakeConn{monitored: map[uint8]bool{}}
	s.conns = append(s.conns, c)
	if s.real != nil {
		c.real = s.real.connect(c)
	}
	return c
}

func (s *fakeSwitch) disconnect(c *fakeConn) {
	s.conns = slices.DeleteFunc(s.conns, func(o *fakeConn) bool { return o == c })
	if s.real != nil {
		s.real.disconnect(c)
	}
}

func (c *fakeConn) tell(u openflow.FlowUpdate) {
	c.queue = append(c.queue, flowUpdates{[]openflow.FlowUpdate{u}})
	if c.real != nil {
		c.real.expected = append(c.real.expected, u)
	}
}

func (s *fakeSwitch) notify(by *fakeConn, event openflow.FlowEvent, f *openflow.FlowMod, reason uint16) {
	for _, c := range s.conns {
		switch {
		case !c.monitored[f.Table]:
		case c == by:
			c.tell(openflow.FlowUpdate{Event: openflow.FlowOwn})
		default:
			c.tell(openflow.FlowUpdate{Event: event, Table: f.Table, Priority: f.Priority, Match: f.Match, Cookie: f.Cookie, Reason: reason})
		}
	}
}

func (s *fakeSwitch) pass(d time.Duration) {
	s.now = s.now.Add(d)
	for _, key := range s.keys() {
		f := s.flows[key]
		if !f.until.IsZero() && !s.now.Before(f.until) {
			delete(s.flows, key)
			s.notify(nil, openflow.FlowRemoved, &f.mod, 1)
		} else if idle := time.Duration(f.mod.IdleTimeout) * time.Second; idle > 0 && !s.now.Before(f.used.Add(idle)) {
			delete(s.flows, key)
			s.notify(nil, openflow.FlowRemoved, &f.mod, 0)
		}
	}
	if s.real != nil {
		s.real.pass(s, d)
	}
}

func (s *fakeSwitch) keys() []flowKey {
	var keys []flowKey
	for key := range s.flows {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// change carries out by's flow mods; by is nil for another program.
func (s *fakeSwitch) change(by *fakeConn, mods ...openflow.FlowMod) {
	for _, f := range mods {
		s.changeOne(by, f)
	}
	if s.real != nil {
		s.real.apply(by, mods)
	}
}

func (s *fakeSwitch) changeOne(by *fakeConn, f openflow.FlowMod) {
	key := keyOf(&f)
	had, ok := s.flows[key]
	// A modification without a change restarts the timeout and sends monitors no event.
	set := func(event openflow.FlowEvent, changed bool) {
		now := standingFlow{mod: f, meter: s.made[meterOf(&f)], added: s.now, used: s.now}
		if ok {
			now.used = had.used
		}
		if f.HardTimeout > 0 {
			now.until = s.now.Add(time.Duration(f.HardTimeout) * time.Second)
		}
		now.mod.Command, now.mod.CookieMask = openflow.Add, 0
		s.flows[key] = now
		if changed {
			s.notify(by, event, &f, 0)
		}
	}
	switch f.Command {
	case openflow.Add:
		set(openflow.FlowAdded, true)
	case openflow.ModifyStrict:
		if ok && had.mod.Cookie&f.CookieMask == f.Cookie&f.CookieMask {
			set(openflow.FlowModified, !reflect.DeepEqual(had.mod.Actions, f.Actions))
		}
	case openflow.DeleteStrict:
		if ok && had.mod.Cookie&f.CookieMask == f.Cookie&f.CookieMask {
			delete(s.flows, key)
			s.notify(by, openflow.FlowRemoved, &had.mod, 2)
		}
	case openflow.Delete:
		for _, key := range s.keys() {
			if had := s.flows[key].mod; had.Table == f.Table && had.Cookie&f.CookieMask == f.Cookie&f.CookieMask {
				delete(s.flows, key)
				s.notify(by, openflow.FlowRemoved, &had, 2)
			}
		}
	}
}

// segment sends a TCP segment of a guest from port 1000 to port 443 over IPv4, and reports whether the switch allows
// it.
func (s *fakeSwitch) segment(guest placement.Key, to netip.Addr, flags uint16) (open bool) {
	has := map[openflow.Field]openflow.Field{ // by the field without its value
		openflow.IPv4Src(netip.IPv4Unspecified()): openflow.IPv4Src(segmentFrom), openflow.IPv4Dst(netip.IPv4Unspecified()): openflow.IPv4Dst(to),
		openflow.TCPSrc(0): openflow.TCPSrc(1000), openflow.TCPDst(0): openflow.TCPDst(443),
	}
	packet := openflow.NewMatch(append(slices.Collect(maps.Values(has)),
		openflow.Metadata(uint64(guest.Datapath)), openflow.Reg(placement.RegInPort, guest.Port), openflow.EthType(0x800), openflow.IPProto(6), openflow.TCPFlags(flags, 2))...).Fields()
	for _, key := range s.keys() { // by priority
		f := s.flows[key]
		if key.table != placement.EgressTable || slices.ContainsFunc(f.mod.Match.Fields(), func(want openflow.Field) bool { return !slices.Contains(packet, want) }) {
			continue
		}
		f.used, open = s.now, true
		s.flows[key] = f
		for _, a := range f.mod.Actions {
			if a, ok := a.(openflow.Learn); ok {
				s.learn(a, has)
			}
		}
		break
	}
	if s.real != nil {
		s.real.segment(guest, to, flags)
	}
	return open
}

var segmentFrom = netip.AddrFrom4([4]byte{10, 0, 0, 1})

func (s *fakeSwitch) learn(a openflow.Learn, packet map[openflow.Field]openflow.Field) {
	f := openflow.FlowMod{Table: a.Table, Priority: a.Priority, Cookie: a.Cookie, IdleTimeout: a.IdleTimeout, Actions: []openflow.Action{openflow.SetField{Field: a.Set}}}
	fields := slices.Clone(a.Match)
	for _, same := range a.Same {
		fields = append(fields, packet[same])
	}
	f.Match = openflow.NewMatch(fields...)
	n := 0
	for _, had := range s.flows {
		if had.mod.Table == a.Table && had.mod.Cookie == a.Cookie {
			n++
		}
	}
	if _, known := s.flows[keyOf(&f)]; !known && n < int(a.Limit) {
		s.changeOne(nil, f)
	}
}

func (s *fakeSwitch) packet(guest placement.Key, to netip.Addr) {
	for key, f := range s.flows {
		if o, ok := placement.ReadOpening(key.table, key.priority, f.mod.Match); ok && o.Guest == guest && o.To.Address == to {
			f.used = s.now
			s.flows[key] = f
		}
	}
	if s.real != nil {
		s.real.packet(guest, to)
	}
}

func (s *fakeSwitch) remove(which func(*openflow.FlowMod) bool) {
	var mods []openflow.FlowMod
	for _, key := range s.keys() {
		if f := s.flows[key].mod; which(&f) {
			f.Command = openflow.DeleteStrict
			mods = append(mods, f)
		}
	}
	s.change(nil, mods...)
}

// removeMeters leaves the flows that name the meters.
func (s *fakeSwitch) removeMeters(which func(id uint32) bool) {
	var mods []openflow.MeterMod
	for id := range s.meters {
		if which(id) {
			mods = append(mods, openflow.MeterMod{Command: openflow.Delete, ID: id})
		}
	}
	s.modMeters(nil, mods)
}

func meterOf(f *openflow.FlowMod) uint32 {
	for _, a := range f.Actions {
		if c, ok := a.(openflow.Controller2); ok {
			return c.Meter
		}
	}
	return 0
}

// isMetered reports whether the meter that a flow names still limits the flow.
func (s *fakeSwitch) isMetered(f *standingFlow) bool {
	return f.meter != 0 && f.meter == s.made[meterOf(&f.mod)]
}

func (s *fakeSwitch) serve(c *fakeConn, r request) {
	var d reply
	switch r := r.(type) {
	case monitor:
		for _, key := range s.keys() {
			if f := s.flows[key].mod; f.Table == r.Table {
				c.tell(openflow.FlowUpdate{Event: openflow.FlowInitial, Table: f.Table, Priority: f.Priority, Match: f.Match, Cookie: f.Cookie})
			}
		}
		c.monitored[r.Table] = true
		if s.real != nil {
			s.real.monitor(c, r.Table)
		}
	case readFlows:
		for _, key := range s.keys() {
			if f := s.flows[key].mod; (r.Table == openflow.TableAll || r.Table == f.Table) && f.Cookie&r.Mask == r.Cookie&r.Mask {
				o, isOpening := placement.ReadOpening(f.Table, f.Priority, f.Match)
				if r.Guest != nil && (!isOpening || o.Guest != *r.Guest) {
					continue
				}
				d.Flows = append(d.Flows, openflow.FlowStats{
					Table: f.Table, Priority: f.Priority, Match: f.Match, Cookie: f.Cookie, IdleTimeout: f.IdleTimeout,
					Idle: s.now.Sub(s.flows[key].used).Truncate(time.Second), Duration: s.now.Sub(s.flows[key].added),
					Instructions: instructionsOf(&f),
				})
			}
		}
	case apply:
		s.change(c, r.Mods...)
	case readMeters:
		d.MaxMeter = s.maxMeter
		for _, m := range s.meters {
			d.Meters = append(d.Meters, m)
		}
	case modMeters:
		if d.Err = s.refusesMeters; d.Err == nil {
			d.Err = s.modMeters(c, r.Mods)
		}
	case readMeterStats:
		for id := range s.meters {
			d.Stats = append(d.Stats, openflow.MeterStats{ID: id, Dropped: s.dropped})
		}
	}
	c.queue = append(c.queue, d)
}

func (s *fakeSwitch) modMeters(by *fakeConn, mods []openflow.MeterMod) (err error) {
	for _, m := range mods {
		_, ok := s.meters[m.ID]
		switch {
		case m.Command == openflow.Delete:
			delete(s.meters, m.ID)
			delete(s.made, m.ID)
		case m.Command == openflow.Modify && !ok:
			err = meterNotKnown
		case m.Command == openflow.Add && ok:
			err = &openflow.SwitchError{Version: openflow.V15, Type: 12, Code: 1}
		default:
			if m.Burst == 0 {
				m.Burst = m.Rate
			}
			s.meters[m.ID] = configOf(&m)
			if m.Command == openflow.Add {
				s.added++
				s.made[m.ID] = s.added
			}
		}
	}
	if s.real != nil {
		s.real.modMeters(by, mods, err)
	}
	return err
}

// process is a machine on a connection.
type process struct {
	name    string
	memory  Memory
	machine *machine
	conn    *fakeConn
	sw      *fakeSwitch
	random  *rand.Rand

	// request is what the machine wants, asked is set once the switch has seen it, and last is the request before.
	request, last request
	asked         bool
	token         uint64 // of the last probe
	probes        bool   // a probe will return
	retry         bool
	failed        error
	did           func(command)
}

func (p *process) connect(s *fakeSwitch) {
	p.sw, p.conn = s, s.connect()
	p.machine = newMachine(&p.memory, p.random)
	p.request, p.last, p.asked, p.token, p.probes, p.retry = nil, nil, false, 0, false, false
}

func (p *process) step(e Event) {
	if _, ok := e.(retry); ok {
		p.retry = false
	}
	for _, c := range p.machine.step(p.sw.now, e) {
		if p.did != nil {
			p.did(c)
		}
		switch c := c.(type) {
		case request:
			p.request = c
		case sendProbe:
			p.token, p.probes = c.Token, true
		case renew:
			p.sw.change(p.conn, c.Lease)
		case retrySoon:
			p.retry = true
		case fail:
			p.failed = c.Err
		}
	}
}

func (p *process) serve() bool {
	if p.request == nil || p.asked {
		return false
	}
	p.asked = true
	p.sw.serve(p.conn, p.request)
	return true
}

func (p *process) hear() bool {
	if len(p.conn.queue) == 0 {
		return false
	}
	e := p.conn.queue[0]
	p.conn.queue = p.conn.queue[1:]
	if _, ok := e.(reply); ok {
		p.last, p.request, p.asked = p.request, nil, false
	}
	p.step(e)
	return true
}

// late moves replies behind updates: the connection's reader is ahead of the goroutine that waits for the reply.
func (p *process) late() {
	slices.SortStableFunc(p.conn.queue, func(a, b Event) int {
		_, replyA := a.(reply)
		_, replyB := b.(reply)
		switch {
		case replyA == replyB:
			return 0
		case replyA:
			return 1
		}
		return -1
	})
}

func (p *process) rest() {
	for p.hear() || p.serve() {
	}
}
