// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// desired makes what should stand in the switch from what the Corefile and the databases
// say. A record that has changed changes nothing of that, so the guests are listed anew only
// where the networks' ports or the bridge's have changed. The goroutine of the session has
// it.
type desired struct {
	controllerID uint16
	of           guestsOf
	guests       []flows.Guest
}

// guestsOf is what a list of guests is made of.
type guestsOf struct {
	server *server
	view   *ports.View // nil with OVN, where the database alone tells
	ports  uint64      // ovn.Snapshot.PortsVersion
}

// want is what should stand for srv now; view is nil as long as the local database has not
// told.
func (d *desired) want(srv *server, view *ports.View) *flows.Want {
	o := &srv.options
	w := &flows.Want{
		Kind: o.Placement, Table: o.Table, Priority: o.Priority,
		Service: srv.service(d.controllerID),
		Limited: o.limits(), Beat: leaseBeat(o.Lease),
		Settled: true, Unsynced: !srv.synced(),
	}
	of := guestsOf{server: srv}
	var snapshot *ovn.Snapshot
	if srv.source != nil {
		snapshot = srv.source.Snapshot()
		of.ports, w.Settled = snapshot.PortsVersion, snapshot.Settled
	}
	if !w.Settled {
		w.Unsettled = srv.unsettled()
	}
	switch {
	case view == nil:
		// The databases may know the guests a moment before the bridge is known to be
		// there.
		w.Unready = "the local Open_vSwitch database has not been read"
		return w
	case view.Absent():
		w.Unready = "the local Open_vSwitch database has no bridge of this name"
		return w
	}
	if srv.rival.Load() != nil {
		srv.learn(view) // the rival may have gone
		if err := srv.rival.Load(); err != nil {
			w.Unready = (*err).Error()
			return w
		}
	}
	if o.Placement == placement.OVN {
		if tableID, cookies, ok := snapshot.DNSStage(); ok {
			w.Stage = flows.Stage{TableID: tableID, Cookies: cookies}
		}
	} else {
		of.view = view
	}
	if d.of != of {
		d.of = of
		srv.tellLoops(snapshot)
		d.guests = listGuests(o, view, snapshot)
	}
	w.Guests = d.guests
	return w
}

// listGuests lists the guests in an order of their own.
func listGuests(o *Options, view *ports.View, snapshot *ovn.Snapshot) (guests []flows.Guest) {
	if o.Placement == placement.OVN {
		guests = ovnGuests(o, snapshot)
	} else {
		guests = localGuests(o, view, snapshot)
	}
	slices.SortStableFunc(guests, func(a, b flows.Guest) int {
		return cmp.Or(cmp.Compare(a.Datapath, b.Datapath), cmp.Compare(a.Port, b.Port))
	})
	return guests
}

// service is what the flows of this server should do.
func (srv *server) service(controllerID uint16) placement.Service {
	return placement.Service{
		Addresses:    srv.options.Addresses,
		Neighbors:    srv.options.ARP,
		Pause:        srv.pause,
		ControllerID: controllerID,
		UserData:     userData,
		Lease:        uint16(srv.options.Lease / time.Second),
	}
}

// leaseBeat is the time between two beats for a punt of that lifetime; one that lasts for
// good (0) is probed as often as the default.
func leaseBeat(lifetime time.Duration) time.Duration {
	if lifetime == 0 {
		lifetime = defaultLease
	}
	return lifetime / 3
}
