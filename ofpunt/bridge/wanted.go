// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// desired makes package flows' Want. It lists guests again only for a new version: a changed DNS record changes no
// flow. Only the session's goroutine uses it.
type desired struct {
	controllerID uint16
	// list has version's guests, none at first; guests has what their flows need.
	version   guests.Version
	list      *guests.List
	guests    []flows.Guest
	functions map[string]string
	// networks is nil unless metrics count by network.
	networks map[metric.Network]struct{}
}

func newDesired(controllerID uint16) desired {
	return desired{controllerID: controllerID, list: new(guests.List)}
}

// want's view is nil before the local database was read.
func (d *desired) want(srv *Server, view *ports.View) *flows.Want {
	o := &srv.Options
	w := &flows.Want{
		Kind: o.Placement, Table: o.Table, Priority: o.Priority,
		Service:     srv.service(d.controllerID),
		MaxOpenings: srv.Openings.Most, MaxNetworkOpenings: srv.Openings.MostOfNetwork, OpeningGrace: srv.Openings.Grace,
		Limited: o.Metered(), Heartbeat: Heartbeat(o.Lease),
		Settled: true, Unsynced: !srv.synced(),
	}
	snapshot := srv.Snapshot()
	if snapshot != nil {
		w.Settled = snapshot.Settled
	}
	if !w.Settled {
		w.Unsettled = srv.whyUnsettled()
	}
	switch {
	case view == nil:
		// The databases may know guests before the local database has the bridge.
		w.Unready = "the local Open_vSwitch database has not been read"
		return w
	case view.Absent():
		w.Unready = "the local Open_vSwitch database has no bridge of this name"
		return w
	}
	if err := srv.Conflict(); err != nil {
		w.Unready = err.Error()
		return w
	}
	if o.Placement == placement.OVN {
		if tableID, cookies, ok := snapshot.DNSStage(); ok {
			w.Stage = flows.Stage{TableID: tableID, Cookies: cookies, StatefulID: snapshot.StatefulTable()}
		}
	}
	book := guests.At(srv.guests, snapshot, view)
	if v, _ := book.Version(); d.version != v {
		d.version = v
		srv.logLoops(snapshot)
		d.list = book.List()
		d.guests, d.networks, d.functions = flowsOf(d.list), nil, nil
		if o.NetworkMetrics {
			d.networks = networksOf(d.list)
		}
		if o.Placement == placement.OVN {
			d.functions = functionPorts(snapshot)
		}
	}
	w.Guests = d.guests
	return w
}

func flowsOf(l *guests.List) []flows.Guest {
	all := make([]flows.Guest, len(l.Served))
	for i := range l.Served {
		g := &l.Served[i]
		all[i] = flows.Guest{Guest: g.Guest, Limit: flows.Limit{Rate: g.Rate.PerSecond, Burst: g.Rate.Burst}}
		if g.Limit != nil {
			all[i].Limit.Name = g.Limit.Name
		}
	}
	return all
}

func networksOf(l *guests.List) map[metric.Network]struct{} {
	all := make(map[metric.Network]struct{})
	for i := range l.Served {
		n := l.Served[i].Network
		all[metric.Network{ID: n.ID, Switch: n.Switch}] = struct{}{}
	}
	return all
}

func (srv *Server) service(controllerID uint16) placement.Service {
	return placement.Service{
		Addresses:    srv.Options.Resolvers,
		Hijack:       srv.Options.Hijack(),
		Neighbors:    srv.Options.ARP,
		Resumable:    srv.chains.Resumes(),
		ControllerID: controllerID,
		Lease:        uint16(srv.Options.Lease / time.Second),
		EgressBit:    srv.Openings.Bit,
	}
}

// Heartbeat returns the time between heartbeats. Lifetime 0, without an end, has the default's.
func Heartbeat(lifetime time.Duration) time.Duration {
	if lifetime == 0 {
		lifetime = config.DefaultLease
	}
	return lifetime / 3
}
