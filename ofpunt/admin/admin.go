// SPDX-License-Identifier: Apache-2.0

// Package admin answers an operator's requests about bridges by the control socket: status, guests, queries as they
// come, and why a guest gets its answer. It only reads snapshots. Each request has a goroutine of the control socket.
//
// An explanation takes a query of a guest through the chain of its bridge:
//
//	answers.explain          parse the request, list the guests  explain.go, guests.go
//	findGuest                find the guest of a word            select.go
//	explainedQuery.choose    choose its address and server       explain.go
//	guestLister.showFlows    show its flows in the switch        select.go
//	explainedQuery.run       bridge.Bridge.Ask                   explain.go
//	explainedQuery.show      show labels, views and plugins      explain.go
//	explainedQuery.diagnose  find causes, not their effects      diagnose.go
package admin

import (
	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Register adds the answers about bridges, and about the queries of feed, to a control socket.
func Register(s *control.Server, bridges *bridge.Registry, feed *watch.Feed) {
	a := newAnswers(bridges)
	s.AddStatus(a.showStatus)
	s.Answer(api.PathGuests, a.listGuests)
	s.Answer(api.PathEgress, a.listOpenings)
	s.Answer(api.PathEgressPolicies, a.listPolicies)
	s.Answer(api.PathExplain, a.explain)
	s.Answer(api.PathLogicalFlow, a.logicalFlow)
	s.Stream(api.PathWatch, Queries(feed))
	s.Stream(api.PathTop, Top(feed))
}

type answers struct {
	bridges *bridge.Registry
	// semaphore has one mark while no request explains. The mark returns with the chain, so at most one query of
	// operators is in the chains.
	semaphore chan struct{}
}

func newAnswers(bridges *bridge.Registry) *answers {
	a := &answers{bridges: bridges, semaphore: make(chan struct{}, 1)}
	a.semaphore <- struct{}{}
	return a
}
