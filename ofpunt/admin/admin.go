// SPDX-License-Identifier: Apache-2.0

// Package admin answers what an operator asks of the bridges by the control socket: their status, their
// guests, the queries while they come, and why a guest gets the answer that it gets. It reads snapshots, and
// knows nothing of how their state comes about.
//
// An explanation takes a query of a guest through the chain of its bridge:
//
//	answers.explain        parse the request, list the guests     explain.go, guests.go
//	findGuest              the one guest that a word means        select.go
//	explainedQuery.choose  its address and its server             explain.go
//	guestLister.showFlows  its flows in the switch                select.go
//	explainedQuery.run     bridge.Bridge.Ask                      explain.go
//	explainedQuery.show    labels, views and plugins              explain.go
//	explainedQuery.diagnose   findings, without those that follow from others   diagnose.go
//
// Each request has a goroutine of the control socket.
package admin

import (
	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Register adds the answers about bridges, and about their queries of feed, to a control socket.
func Register(s *control.Server, bridges *bridge.Registry, feed *watch.Feed) {
	a := newAnswers(bridges)
	s.AddStatus(a.showStatus)
	s.Answer(api.PathGuests, a.listGuests)
	s.Answer(api.PathExplain, a.explain)
	s.Answer(api.PathLogicalFlow, a.logicalFlow)
	s.Stream(api.PathWatch, Queries(feed))
	s.Stream(api.PathTop, Top(feed))
}

// answers answers requests about bridges.
type answers struct {
	bridges *bridge.Registry
	// semaphore has one mark while no request explains. The request that has taken the mark gives it back
	// once the chain has returned, so that no operator has more than one query in the chains.
	semaphore chan struct{}
}

func newAnswers(bridges *bridge.Registry) *answers {
	a := &answers{bridges: bridges, semaphore: make(chan struct{}, 1)}
	a.semaphore <- struct{}{}
	return a
}
