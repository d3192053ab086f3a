// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/announce"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// announcer sends external ports' announcements. Only the session's goroutine uses it.
type announcer struct {
	schedule announce.Schedule
	// external is made of madeOf.
	external []announce.Served
	madeOf   externalInputs
	timer    *time.Timer
}

type externalInputs struct {
	guests guests.Version
	view   *ports.View
}

func newAnnouncer() announcer {
	a := announcer{timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

// announce loses announcements without room on the connection; the next follows.
func (s *session) announce(now time.Time, srv *Server) {
	a := &s.announcer
	due, next := a.schedule.Step(now, s.servedExternal(srv))
	for _, l := range due {
		if s.punts.Announce(l.Port, l.Tag) == nil {
			metric.Announcements.WithLabelValues(s.bridge.name).Inc()
		}
	}
	if next.IsZero() {
		a.timer.Stop()
	} else {
		a.timer.Reset(next.Sub(now))
	}
}

func (s *session) servedExternal(srv *Server) []announce.Served {
	view := s.bridge.ports.View()
	if s.bridge.readiness.reason() != "" || s.bridge.draining.Load() || srv.Options.Placement != placement.OVN || view == nil {
		return nil
	}
	a := &s.announcer
	if of := (externalInputs{s.desired.version, view}); a.madeOf != of {
		service := srv.service(s.desired.controllerID)
		a.madeOf, a.external = of, externalOf(s.desired.list, &service, view)
	}
	return a.external
}

// externalOf lists external ports that get answers to ARP or neighbour solicitations, with the OpenFlow port of their
// localnet port.
func externalOf(l *guests.List, service *placement.Service, view *ports.View) (all []announce.Served) {
	var numbers map[string]uint32
	for i := range l.Served {
		g := &l.Served[i]
		if g.Localnet == nil || len(service.NeighborAddresses(&g.Guest)) == 0 {
			continue
		}
		if numbers == nil {
			numbers = localnetNumbers(view)
		}
		if number := numbers[g.Localnet.Name]; number != 0 {
			all = append(all, announce.Served{Localnet: announce.Localnet{Port: number, Tag: g.Localnet.Tag}, MAC: g.MAC})
		}
	}
	return all
}

// localnetNumbers needs the current view: the list of guests may be of an earlier one.
func localnetNumbers(view *ports.View) map[string]uint32 {
	numbers := map[string]uint32{}
	for i := range view.Interfaces {
		if i := &view.Interfaces[i]; i.Localnet != "" && i.OFPort != 0 {
			numbers[i.Localnet] = i.OFPort
		}
	}
	return numbers
}
