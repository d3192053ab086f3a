// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// l is nil without a limit.
func maxConnections(l *guests.Limit) int {
	if l == nil || l.Connections == 0 {
		return tcp.MaxOfOwner
	}
	return l.Connections
}

func isConcurrent(l *guests.Limit) bool { return l != nil && l.ConcurrentGuest > 0 }

// rejects reports whether l, which may be nil, has rejected a query. l.ConcurrentGuest replaces
// Config.ConcurrentGuest, so ReasonPortLimit is by l.
func rejects(l *guests.Limit, reason string) bool {
	return isConcurrent(l) && (reason == metric.ReasonPortLimit || reason == metric.ReasonLimit)
}

func (x *Exchange) countLimit(reason string) {
	if l := x.from.limit; rejects(l, reason) {
		x.from.channel.intake.bridge.Tally.LimitRefused(l.Name, metric.PropertyConcurrent)
	}
}
