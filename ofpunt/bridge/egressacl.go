// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// closedByACL asks the switch which guests ACLs close. It returns nil if OVN's stages are unknown.
func closedByACL(ctx context.Context, sw flows.Switch, srv *Server, at placement.Pipeline) (placement.ClosedByACL, error) {
	if at.EgressTable == 0 {
		return nil, nil
	}
	all, err := sw.FlowStats(ctx, openflow.FlowStatsRequest{Table: openflow.TableAll, Match: placement.MatchUnmarked(srv.ExpectedBit())})
	if err != nil {
		return nil, err
	}
	return placement.ReadClosed(at, all), nil
}

// CountOpen counts guests with an egress policy whose IPv4 or IPv6 no ACL closes.
func CountOpen(list *guests.List, closed placement.ClosedByACL) (n int) {
	for i := range list.Served {
		if g := &list.Served[i]; g.Egress != nil && closed.Of(g.Key) != (placement.Families{IPv4: true, IPv6: true}) {
			n++
		}
	}
	return n
}

const (
	minOpenInterval = 10 * time.Second
	openFactor      = 100
	openTimeout     = 2 * time.Second
)

func openInterval(took time.Duration) time.Duration { return max(minOpenInterval, openFactor*took) }

func (s *session) reportOpen(ctx context.Context, srv *Server) {
	gauge, state := metric.EgressOpen.WithLabelValues(s.bridge.name), s.flows.State()
	if srv.ACLBit == 0 || state.Pipeline.EgressTable == 0 || state.Yielding {
		gauge.Set(0)
		return
	}
	begun := time.Now()
	if begun.Before(s.nextOpen) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	closed, err := closedByACL(ctx, s.conn, srv, state.Pipeline)
	s.nextOpen = begun.Add(openInterval(time.Since(begun)))
	if err == nil { // a busy switch leaves the previous count
		gauge.Set(float64(CountOpen(s.desired.list, closed)))
	}
}
