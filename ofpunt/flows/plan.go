// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// plan is what should be installed. A guest's flows depend only on the guest, its meter and the pipeline, so an
// update costs only the changed guests.
type plan struct {
	of      pipeline
	private []*flow
	lease   *flow
	guests  map[placement.Key]*guestFlows
	order   []placement.Key
	list    []Guest
	// flows are all flows except lease.
	flows  map[flowKey]*flow
	meters uint64
	// planned counts planned guests, for tests.
	version uint64
	planned int
}

type pipeline struct {
	// Table is 0 with OVN while this chassis has no DNS stage.
	placement.Pipeline
	service placement.Service
}

func (p *pipeline) equal(o *pipeline) bool {
	return p.Pipeline == o.Pipeline && sameService(&p.service, &o.service)
}

// tables omits the private table.
func (p *pipeline) tables() []uint8 {
	switch {
	case p.empty():
		return nil
	case p.Kind == placement.OVN:
		tables := []uint8{placement.PuntTable, p.Table - 1}
		if p.service.HasEgress(p.Pipeline) {
			tables = append(tables, placement.EgressTable, p.EgressTable-1, p.EgressTable)
		}
		return tables
	default:
		return []uint8{placement.PuntTable, placement.AddressTable, p.Table}
	}
}

func (p *pipeline) empty() bool { return p.Kind == placement.OVN && p.Table == 0 }

type guestFlows struct {
	guest Guest
	meter uint32
	// flows begin with the flow that names the meter, unless meter is 0.
	flows []*flow
}

func (p *plan) update(of pipeline, guests []Guest, m *meters) {
	samePipeline := p.version > 0 && p.of.equal(&of)
	if samePipeline && p.meters == m.version && sameGuests(p.list, guests) {
		return
	}
	p.version++
	if !samePipeline {
		of.service.Addresses = slices.Clone(of.service.Addresses)
		*p = plan{of: of, version: p.version, planned: p.planned, guests: map[placement.Key]*guestFlows{}, flows: map[flowKey]*flow{}}
		p.planPrivate()
	}
	p.meters, p.list = m.version, guests
	if of.empty() {
		guests = nil
	}
	before, fresh := p.guests, []*guestFlows(nil)
	p.guests, p.order = make(map[placement.Key]*guestFlows, len(guests)), make([]placement.Key, 0, len(guests))
	for i := range guests {
		g := &guests[i]
		if p.guests[g.Key] != nil {
			continue // two ports with one key, one of which is about to go
		}
		planned, meter := before[g.Key], m.assigned[g.Key]
		if planned == nil || planned.meter != meter || !planned.guest.equal(g) {
			planned = &guestFlows{*g, meter, p.of.guest(g, meter)}
			fresh = append(fresh, planned)
		}
		p.guests[g.Key] = planned
		p.order = append(p.order, g.Key)
	}
	for key, had := range before {
		if had == p.guests[key] {
			continue
		}
		for _, f := range had.flows {
			delete(p.flows, f.key)
		}
	}
	// Last: a flow may pass from one guest to another.
	for _, g := range fresh {
		for _, f := range g.flows {
			p.flows[f.key] = f
		}
	}
	p.planned += len(fresh)
}

func (p *plan) planPrivate() {
	if p.of.empty() {
		return
	}
	private, lease := p.of.service.Private(p.of.Pipeline)
	for i := range private {
		f := newFlow(private[i])
		p.private = append(p.private, f)
		p.flows[f.key] = f
	}
	p.lease = newFlow(lease)
}

func (p *pipeline) guest(g *Guest, meter uint32) []*flow {
	mods := p.service.OfGuest(p.Pipeline, &g.Guest, meter)
	flows := make([]*flow, len(mods))
	for i := range mods {
		flows[i] = newFlow(mods[i])
	}
	return flows
}

// metered returns the flows whose meter mods add.
func (p *plan) metered(mods []openflow.MeterMod) (flows []*flow) {
	added := make(map[uint32]bool, len(mods))
	for i := range mods {
		added[mods[i].ID] = mods[i].Command == openflow.Add
	}
	for _, g := range p.guests {
		if added[g.meter] {
			flows = append(flows, g.flows[0])
		}
	}
	return flows
}

func (p *plan) wants(key flowKey, lease bool) bool {
	return p.flows[key] != nil || lease && key == leaseKey
}

// missing returns flows that differ in the switch. Each leads only to earlier flows.
func (p *plan) missing(s *observed, lease bool) []*flow {
	var all []*flow
	add := func(f *flow) {
		if had := s.flows[f.key]; had == nil || !had.same(f) {
			all = append(all, f)
		}
	}
	for _, f := range p.private {
		add(f)
	}
	if lease {
		add(p.lease)
	}
	for _, key := range p.order {
		for _, f := range p.guests[key].flows {
			add(f)
		}
	}
	return all
}
