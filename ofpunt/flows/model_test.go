// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// After random events and some quiet, the switch has exactly one process's flows and meters, and other programs'
// flows still.
func TestAnyInterleaving(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		m := newModel(t, seed)
		for range 600 {
			m.disturb()
		}
		m.quiet()
		m.check()
		if t.Failed() {
			t.Fatalf("seed %d; the end of what happened:\n%s", seed, m.history())
		}
	}
}

const (
	modelBeat = 5 * time.Second
	others    = 0xeeee // cookie of another program's flow
)

type model struct {
	t         *testing.T
	r         *rand.Rand
	sw        *fakeSwitch
	processes []*process
	beats     map[*process]time.Time // when the next is due
	stalled   map[*process]time.Time // until when the process does nothing
	want      Want
	log       []string
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), sw: newFakeSwitch(epoch.Add(time.Hour)),
		beats: map[*process]time.Time{}, stalled: map[*process]time.Time{},
		want: Want{
			Kind: placement.OVN, Settled: true, Limited: true, Heartbeat: modelBeat,
			Service: placement.Service{
				Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53")},
				Neighbors: true, ControllerID: 77, Lease: 15, EgressBit: 31,
			},
			MaxOpenings: 3, MaxNetworkOpenings: 8, OpeningGrace: 5 * time.Second,
		},
	}
	m.moveStage(22)
	m.sw.change(nil, openflow.FlowMod{Table: placement.PrivateTable, Priority: 7, Cookie: others, Match: openflow.NewMatch(openflow.InPort(9))})
	m.begin()
	return m
}

func (m *model) note(format string, args ...any) {
	m.log = append(m.log, m.sw.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (m *model) history() (text string) {
	for _, l := range m.log[max(0, len(m.log)-200):] {
		text += l + "\n"
	}
	return text
}

func (m *model) begin() {
	p := &process{name: string(rune('a' + len(m.beats))), random: rand.New(rand.NewPCG(m.r.Uint64(), 1))}
	p.did = func(c command) {
		if r, ok := c.(readFlows); !ok || r.Mask == exactMask {
			m.note("%s: %T%+v", p.name, c, c)
		}
		switch c := c.(type) {
		case apply, modMeters:
			if a, ok := c.(apply); ok && isOpening(&a.Mods[0]) {
				break // whoever owns the flows reads it
			}
			if _, ok := p.last.(barrier); !ok {
				m.t.Errorf("%s changes the switch after a %T, not a barrier", p.name, p.last)
			}
		case fail:
			m.t.Errorf("%s fails: %+v", p.name, c)
		}
	}
	p.connect(m.sw)
	m.processes = append(m.processes, p)
	m.beats[p] = m.sw.now.Add(modelBeat)
	m.desire(p)
}

func (m *model) desire(p *process) {
	w := m.want
	p.step(Desired{&w})
}

// moveStage changes the table of OVN's DNS stage, in the switch and in the database.
func (m *model) moveStage(id int) {
	m.sw.remove(func(f *openflow.FlowMod) bool {
		return len(m.want.Stage.Cookies) > 0 && f.Cookie == uint64(m.want.Stage.Cookies[0])
	})
	m.want.Stage = Stage{TableID: id, Cookies: []uint32{0xa0 + uint32(id)}, StatefulID: 6}
	m.restoreStage()
}

func (m *model) restoreStage() {
	m.sw.change(nil, openflow.FlowMod{Table: uint8(8 + m.want.Stage.TableID), Cookie: uint64(m.want.Stage.Cookies[0]), Match: openflow.NewMatch(openflow.Metadata(5))})
}

func (m *model) disturb() {
	p := m.processes[m.r.IntN(len(m.processes))]
	switch n := m.r.IntN(1000); {
	case n < 850:
		m.live(p)
	case n < 900:
		m.open(p)
	case n < 930:
		m.pass(time.Duration(m.r.Int64N(int64(2 * time.Second))))
	case n < 950:
		m.changeGuests()
	case n < 960:
		m.harm()
	case n < 965:
		m.moveStage(22 + m.r.IntN(3))
		m.note("the stage is %d", m.want.Stage.TableID)
	case n < 968:
		m.want.Settled = !m.want.Settled
	case n < 970:
		m.restoreStage()
	case n < 978 && len(m.processes) < 3:
		m.begin()
	case n < 984 && len(m.processes) > 1:
		m.note("%s is killed", p.name)
		m.sw.disconnect(p.conn)
		m.forget(p)
	case n < 988:
		m.note("%s has lost its connection", p.name)
		m.sw.disconnect(p.conn)
		p.connect(m.sw)
		m.desire(p)
	case n < 994 && len(m.processes) > 1:
		m.note("%s leaves", p.name)
		p.step(Withdraw{Keep: m.r.IntN(2) == 0})
		p.rest()
		m.sw.disconnect(p.conn)
		m.forget(p)
	default:
		m.stalled[p] = m.sw.now.Add(time.Duration(m.r.Int64N(int64(30 * time.Second))))
	}
}

func (m *model) forget(p *process) {
	m.processes = slices.DeleteFunc(m.processes, func(o *process) bool { return o == p })
}

// live makes a process do one thing that is due, unless stalled. The switch may serve the process's request anyway.
func (m *model) live(p *process) {
	if m.r.IntN(3) == 0 && p.serve() {
		return
	}
	if m.sw.now.Before(m.stalled[p]) {
		return
	}
	if m.r.IntN(4) == 0 {
		p.late()
	}
	switch {
	case p.hear():
	case p.probes:
		p.probes = false
		p.step(probeBack{p.token})
	case p.retry:
		p.step(retry{})
	case !m.sw.now.Before(m.beats[p]):
		m.beats[p] = m.sw.now.Add(modelBeat)
		p.step(Heartbeat{})
	case m.r.IntN(2) == 0:
		m.desire(p)
	}
}

func (m *model) isDue(p *process) bool {
	return len(p.conn.queue) > 0 || p.request != nil || p.probes || p.retry || !m.sw.now.Before(m.beats[p])
}

func (m *model) pass(d time.Duration) { m.sw.pass(d) }

var modelPolicies = []*namesAllowed{{[]string{"x."}}, {[]string{"x.", "y."}}}

func isOpening(f *openflow.FlowMod) bool {
	_, is := placement.ReadOpening(f.Table, f.Priority, f.Match)
	return is && f.Cookie == cookieOf(openingGeneration)
}

func (m *model) open(p *process) {
	if len(m.want.Guests) == 0 {
		return
	}
	guest, to := m.want.Guests[m.r.IntN(len(m.want.Guests))].Key, netip.AddrFrom4([4]byte{192, 0, 2, byte(m.r.IntN(5))})
	switch m.r.IntN(4) {
	case 0:
		m.sw.packet(guest, to)
		return
	case 1:
		m.sw.segment(guest, to, 0)
		return
	}
	a := opening.Answer{Name: []string{"x.", "y."}[m.r.IntN(2)], To: []opening.Destination{{Address: to}}, Lasts: time.Duration(m.r.IntN(600)) * time.Second, Trial: m.r.IntN(8) == 0}
	p.step(open{[]openRequest{{token: m.r.Uint64(), guest: guest, answer: a}}})
}

func (m *model) changeGuests() {
	g := Guest{Guest: placement.Guest{Key: placement.Key{Datapath: 5, Port: uint32(1 + m.r.IntN(5))}}, Limit: Limit{Rate: uint32(m.r.IntN(3)), Burst: 10}}
	g.Closed = m.r.IntN(2) == 0
	if n := m.r.IntN(3); n > 0 {
		g.Egress, g.Arriving = modelPolicies[n-1], m.r.IntN(2) == 0
	}
	if m.r.IntN(3) == 0 {
		g.Owned = []netip.Addr{m.want.Service.Addresses[0].Addr()}
	}
	guests := slices.DeleteFunc(slices.Clone(m.want.Guests), func(o Guest) bool { return o.Key == g.Key })
	if m.r.IntN(3) > 0 {
		guests = append(guests, g)
	}
	m.want.Guests = guests
	m.note("guests are %+v", guests)
}

// harm is done by another program.
func (m *model) harm() {
	half := func(*openflow.FlowMod) bool { return m.r.IntN(2) == 0 }
	switch m.r.IntN(6) {
	case 0:
		m.note("some of our flows are deleted")
		m.sw.remove(func(f *openflow.FlowMod) bool { return ours(f.Cookie) && half(f) })
	case 1:
		m.note("all of our flows are deleted")
		m.sw.remove(func(f *openflow.FlowMod) bool { return ours(f.Cookie) })
	case 2:
		m.note("all meters are deleted")
		m.sw.removeMeters(func(uint32) bool { return true })
	case 3:
		m.note("flows are modified")
		for _, key := range m.sw.keys() {
			if f := m.sw.flows[key].mod; ours(f.Cookie) && half(&f) {
				f.Actions, f.Command, f.CookieMask = nil, openflow.ModifyStrict, 0
				m.sw.change(nil, f)
			}
		}
	case 5:
		m.note("all flows of OVN and puntdns are deleted, for a while")
		m.sw.remove(func(f *openflow.FlowMod) bool { return f.Cookie != others })
	case 4:
		m.note("flows are overwritten")
		for _, key := range m.sw.keys() {
			if f := m.sw.flows[key].mod; ours(f.Cookie) && half(&f) {
				f.Actions, f.Cookie, f.HardTimeout = nil, 1, 0
				m.sw.change(nil, f)
			}
		}
	}
}

// quiet lasts longer than a takeover and the search of all tables.
func (m *model) quiet() {
	m.note("quiet")
	m.want.Settled = true
	m.restoreStage()
	clear(m.stalled)
	for range 400 {
		for range 20 {
			for _, p := range m.processes {
				p.rest()
				// Desired below repeats itself without effect.
				if m.isDue(p) {
					m.live(p)
					p.rest()
				}
			}
		}
		for _, p := range m.processes {
			m.desire(p)
		}
		m.pass(250 * time.Millisecond)
	}
}

func (m *model) check() {
	var owner *process
	for _, p := range m.processes {
		if p.machine.Yielding() {
			continue
		}
		if owner != nil {
			m.t.Errorf("both %s and %s own the flows", owner.name, p.name)
		}
		owner = p
	}
	if owner == nil {
		m.t.Error("nobody owns the flows")
		return
	}
	// A new plan shows what the switch should have.
	var fresh plan
	of := pipeline{placement.Pipeline{Kind: m.want.Kind, Table: uint8(8 + m.want.Stage.TableID), EgressTable: 8 + 6}, m.want.Service}
	if len(m.want.Guests) == 0 {
		of = owner.machine.plan.of // it may have no pipeline, or have it still
	}
	of.service.Cookie = cookieOf(owner.machine.generation())
	fresh.update(of, m.want.Guests, &owner.machine.meters)
	want := maps.Clone(fresh.flows)
	if fresh.lease != nil {
		want[leaseKey] = fresh.lease
	}
	for _, e := range owner.machine.openings.all {
		if e.wanted && !e.installed {
			m.t.Errorf("does not stand: the opening %+v", e)
		}
	}
	for _, p := range m.processes {
		m.checkRequests(p)
	}
	foreign := false
	for _, key := range m.sw.keys() {
		standing := m.sw.flows[key]
		f := standing.mod
		if meterOf(&f) != 0 && !m.sw.isMetered(&standing) {
			m.t.Errorf("stands, and its meter does not limit it: %v", f)
		}
		foreign = foreign || f.Cookie == others
		if isConnection(f.Cookie) && !m.has(&f) {
			m.t.Errorf("stands, and no guest has it: %v", f)
		}
		if !ours(f.Cookie) {
			continue
		}
		if isOpening(&f) {
			m.checkOpening(owner, &f)
			continue
		}
		if w := want[key]; w == nil || !newFlow(f).same(w) {
			m.t.Errorf("stands, and should not: %v", f)
		}
		delete(want, key)
	}
	for _, f := range want {
		m.t.Errorf("does not stand: %v", f.mod)
	}
	if !foreign {
		m.t.Error("somebody else's flow is gone")
	}
	limited := 0
	for _, g := range m.want.Guests {
		if g.Limit.Rate > 0 {
			limited++
			if id := owner.machine.meters.assigned[g.Key]; m.sw.meters[id].Rate != g.Limit.Rate {
				m.t.Errorf("guest %v has meter %d: %v, want %v", g.Key, id, m.sw.meters[id], g.Limit)
			}
		}
	}
	if len(m.sw.meters) != limited {
		m.t.Errorf("%d meters for %d guests with a limit", len(m.sw.meters), limited)
	}
}

func (m *model) has(f *openflow.FlowMod) bool {
	return slices.ContainsFunc(m.want.Guests, func(g Guest) bool {
		return g.Egress != nil && (g.Arriving || f.HardTimeout == 0) && f.Cookie == connectionCookie(&g, m.want.Service.EgressBit)
	})
}

func (m *model) checkRequests(p *process) {
	s := p.machine.openings
	if len(s.missing)+len(s.crowded)+len(s.queued)+len(s.looks)+len(s.lapses)+len(s.changed) > 0 {
		m.t.Errorf("%s has requests that do not end: %+v", p.name, s)
	}
	for guest := range s.lookedAt {
		if s.of[guest] == nil {
			m.t.Errorf("%s remembers the guest %v, which has no openings", p.name, guest)
		}
	}
	for guest := range s.of {
		if n := s.count(guest); n > m.want.MaxOpenings {
			m.t.Errorf("%s has %d openings of the guest %v", p.name, n, guest)
		}
	}
	for _, e := range s.all {
		if e.reported != e.installed || len(e.requests) > 0 {
			m.t.Errorf("%s: %+v", p.name, e)
		}
	}
}

// checkOpening checks that the owner knows an opening by the same names, and the guest's policy allows it.
func (m *model) checkOpening(owner *process, f *openflow.FlowMod) {
	o, _ := placement.ReadOpening(f.Table, f.Priority, f.Match)
	names := placement.NamesOf(instructionsOf(f))
	e := owner.machine.openings.all[o]
	if e == nil || !e.wanted || !e.installed || !slices.Equal(e.names, names) {
		m.t.Errorf("stands by %q, and its owner has %+v: %v", names, e, f)
	}
	policy := func(g Guest) bool { return g.Key == o.Guest && g.Egress != nil && g.Egress.Allows(names[0], o.To) }
	if len(names) == 0 || !slices.ContainsFunc(m.want.Guests, policy) {
		m.t.Errorf("stands by %q, and the guest's policy does not allow it: %v", names, f)
	}
}
