// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// plan is the flows that should stand for one server and one picture of its
// guests. It is immutable.
type plan struct {
	planned
	private, entry []flow
	punt           flow
	// settled is set if every guest of this node is known; guests is how many are.
	settled bool
	guests  int
	// rate and burst are of each guest's meter.
	rate, burst uint32
}

// planned is what a plan is made of.
type planned struct {
	server   *server
	snapshot *ovn.Snapshot
	view     *localView
	// table is that of OVN's DNS stage, 0 while it has none, or else the one of
	// the Corefile.
	table uint8
	// meters is how often the switch's meters were read.
	meters int
}

// makePlan is the plan for srv now. It is the last one if nothing has changed.
func (s *session) makePlan(ctx context.Context, srv *server) (*plan, error) {
	if err := s.meters.look(ctx, srv.options.Rate > 0); err != nil {
		return nil, err
	}
	of := planned{server: srv, meters: s.meters.looks}
	settled := false
	if srv.source != nil {
		of.snapshot = srv.source.Snapshot()
		settled = of.snapshot.Settled
	}
	if srv.options.Placement == placement.OVN {
		table, err := s.confirmStage(ctx, of.snapshot)
		switch {
		case errors.Is(err, errStageUnknown) && settled && !hasGuest(of.snapshot):
			// A chassis without a guest has none of OVN's logical pipeline.
		case errors.Is(err, errStageUnknown) && !srv.synced():
			return nil, fmt.Errorf("%w: the databases have not been read so far", errStageUnknown)
		case err != nil:
			return nil, err
		default:
			of.table = table
			if err := s.keeper.watch(ctx, table-1); err != nil {
				return nil, err
			}
		}
	} else {
		of.table, of.view = srv.options.Table, s.bridge.view.Load()
		if err := s.keeper.watch(ctx, of.table); err != nil {
			return nil, err
		}
		settled = of.view != nil && (of.snapshot == nil || settled)
	}
	if s.plan != nil && s.plan.planned == of {
		return s.plan, nil
	}

	service := srv.service(s.keeper.cookie(), s.controllerID)
	meter := func(guestKey) uint32 { return 0 }
	if give := s.meters.assign(); srv.options.Rate > 0 {
		meter = give
	}
	var p placement.Plan
	guests := 0
	switch {
	case srv.options.Placement != placement.OVN:
		p = placement.PlanLocal(&service, of.table, srv.options.Priority, counted(localGuests(srv.options.Placement, of.view, of.snapshot, meter), &guests))
	case of.table != 0:
		p = placement.PlanOVN(&service, of.table, counted(guestsOf(of.snapshot, meter), &guests))
	}
	s.plan = &plan{
		planned: of, settled: settled, guests: guests, rate: srv.options.Rate, burst: srv.options.Burst,
		private: newFlows(p.Private), punt: newFlow(p.Punt), entry: newFlows(p.Entry),
	}
	return s.plan, nil
}

// counted is seq, with n told how many were taken.
func counted[G any](seq iter.Seq[G], n *int) iter.Seq[G] {
	return func(yield func(G) bool) {
		for g := range seq {
			*n++
			if !yield(g) {
				return
			}
		}
	}
}

func hasGuest(snapshot *ovn.Snapshot) bool {
	for range snapshot.Guests() {
		return true
	}
	return false
}

// guestsOf are the guests that the snapshot has on this chassis.
func guestsOf(snapshot *ovn.Snapshot, meter func(guestKey) uint32) iter.Seq[placement.Guest] {
	return func(yield func(placement.Guest) bool) {
		for p := range snapshot.Guests() {
			if !yield(placement.Guest{
				Datapath: p.DatapathKey, Port: p.Key, Meter: meter(guestKey{p.DatapathKey, p.Key}),
				Owned: ownedBy(snapshot.Network(p.Network)),
			}) {
				return
			}
		}
	}
}

// metadataAddress is that of the metadata service of clouds, which a localport
// of ML2/OVN answers for without any row saying so.
var metadataAddress = netip.AddrFrom4([4]byte{169, 254, 169, 254})

// service is what the flows of this server should do.
func (srv *server) service(cookie uint64, controllerID uint16) placement.Service {
	return placement.Service{
		Addresses:    srv.options.Addresses,
		Neighbors:    srv.options.ARP,
		Pause:        srv.pause,
		ControllerID: controllerID,
		UserData:     userData,
		Lease:        uint16(srv.options.Lease / time.Second),
		Cookie:       cookie,
	}
}
