// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/label"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// desired makes the Want of package flows from what the Corefile and the databases say. A
// changed record changes nothing there, so the guests are listed anew only if the ports of the
// networks or of the bridge have changed. The goroutine of the session has it.
type desired struct {
	controllerID uint16
	madeOf       guestInputs
	guests       []flows.Guest
	// withoutAddress has, by network, the guests that are left out of guests, as they have
	// no resolver address.
	withoutAddress map[string]addressless
	// left has, by network, the resolver addresses that are left to workloads, and functions the
	// ports of network functions.
	left, functions map[string]string
	// networks are those of guests, if metrics count by network; else nil.
	networks map[metric.Network]struct{}
}

// guestInputs is what a list of guests is made of.
type guestInputs struct {
	server *server
	// view is nil with OVN, where the databases alone tell the guests, unless a limit is by
	// the OpenFlow port.
	view  *ports.View
	ports uint64 // ovn.Snapshot.PortsVersion
	// externalIDs is the version of view.ExternalIDsVersion, 0 where no limit is by a key of
	// theirs.
	externalIDs uint64
}

// want returns what should be installed for srv now. view is nil as long as the local database has
// not been read.
func (d *desired) want(srv *server, view *ports.View) *flows.Want {
	o := &srv.options
	w := &flows.Want{
		Kind: o.Placement, Table: o.Table, Priority: o.Priority,
		Service: srv.service(d.controllerID),
		Limited: o.metered(), Beat: leaseBeat(o.Lease),
		Settled: true, Unsynced: !srv.synced(),
	}
	of := guestInputs{server: srv}
	var snapshot *ovn.Snapshot
	if srv.source != nil {
		snapshot = srv.source.Snapshot()
		of.ports, w.Settled = snapshot.PortsVersion, snapshot.Settled
	}
	if !w.Settled {
		w.Unsettled = srv.whyUnsettled()
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
	if err := srv.conflict(); err != nil {
		w.Unready = err.Error()
		return w
	}
	if o.Placement == placement.OVN {
		if tableID, cookies, ok := snapshot.DNSStage(); ok {
			w.Stage = flows.Stage{TableID: tableID, Cookies: cookies}
		}
	} else {
		of.view = view
	}
	if srv.limits.Has(label.InPort) {
		of.view = view
	}
	of.externalIDs, _ = srv.externalIDs(view)
	if d.madeOf != of {
		d.madeOf = of
		srv.logLoops(snapshot)
		l := listGuests(o, view, snapshot)
		d.guests, d.withoutAddress, d.networks, d.left = l.guests, l.withoutAddress, l.networks, l.leftByNetwork()
		d.functions = nil
		if o.Placement == placement.OVN {
			d.functions = functionPorts(snapshot)
		}
	}
	w.Guests = d.guests
	return w
}

// listGuests lists the guests that have a resolver address, sorted by their keys, and the
// others by network.
func listGuests(o *bridgeOptions, view *ports.View, snapshot *ovn.Snapshot) *guestList {
	l := newGuestList(o, snapshot)
	if o.Placement == placement.OVN {
		if l.limits.Has(label.InPort) {
			l.numbers = portNumbers(view)
		}
		ovnGuests(l, snapshot)
	} else {
		localGuests(l, view)
	}
	slices.SortStableFunc(l.guests, func(a, b flows.Guest) int {
		return cmp.Or(cmp.Compare(a.Datapath, b.Datapath), cmp.Compare(a.Port, b.Port), bytes.Compare(a.MAC[:], b.MAC[:]))
	})
	return l
}

// service says what the flows of this server should do.
func (srv *server) service(controllerID uint16) placement.Service {
	return placement.Service{
		Addresses:    srv.options.Addresses,
		Hijack:       srv.options.hijack(),
		Neighbors:    srv.options.ARP,
		Resumable:    srv.resumes,
		ControllerID: controllerID,
		Lease:        uint16(srv.options.Lease / time.Second),
	}
}

// leaseBeat returns the time between two beats for a punt of that lifetime. One that lasts for
// good (0) is probed as often as one of the default lifetime.
func leaseBeat(lifetime time.Duration) time.Duration {
	if lifetime == 0 {
		lifetime = defaultLease
	}
	return lifetime / 3
}
