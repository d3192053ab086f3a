// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// maxConnections returns how many TCP connections a guest with a limit, nil for none, may have open.
func maxConnections(l *guests.Limit) int {
	if l == nil || l.Connections == 0 {
		return tcp.MaxOfOwner
	}
	return l.Connections
}

// isConcurrent reports whether a limit, nil for none, is on queries in flight.
func isConcurrent(l *guests.Limit) bool { return l != nil && l.ConcurrentGuest > 0 }

// rejects reports whether the limit of the guest, nil for none, has rejected a query that was not admitted
// for that reason. A limit on queries in flight has both bounds, and replaces ConcurrentGuest of Config, so a
// refusal by port was the limit's.
func rejects(l *guests.Limit, reason string) bool {
	return isConcurrent(l) && (reason == metric.ReasonPortLimit || reason == metric.ReasonLimit)
}

// countLimit counts an exchange that was not admitted for that reason, if that is a limit of the
// guest's own.
func (x *Exchange) countLimit(reason string) {
	if l := x.from.limit; rejects(l, reason) {
		x.from.channel.intake.bridge.Tally.LimitRefused(l.Name, metric.PropertyConcurrent)
	}
}
