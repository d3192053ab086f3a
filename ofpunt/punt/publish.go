// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/ofpunt/watch"
)

// watched reports whether anybody watches.
func (x *Exchange) watched() bool {
	feed := x.from.channel.intake.bridge.Watch
	return feed != nil && feed.Wanted()
}

// maxShared, in bytes, is the length of a message that an event may keep in memory whole. A reader
// that is slow has thousands of events.
const maxShared = 512

// keptQuestion returns the question of a message for an event: a part of the message, or a copy.
func keptQuestion(message []byte) []byte {
	q := message[headerLen : headerLen+questionLen(message)]
	if len(message) > maxShared {
		return slices.Clone(q)
	}
	return q
}

// publish publishes the outcome of the exchange to watchers. The arguments are the arguments of count.
func (x *Exchange) publish(result, reason string, rcode int) {
	in := x.from.channel.intake
	o := &x.from.origin // zero if the sender is not known
	e := watch.Event{
		Arrived: x.arrived, Took: time.Since(x.arrived),
		Bridge: in.bridge.Name, Port: o.Port, Switch: o.Switch, Network: o.Network, Attributes: o.Attributes,
		Client: x.from.ends.Src, Server: x.from.ends.Dst, TCP: x.transport.overTCP(),
		Result: result, Reason: reason, Rcode: uint16(rcode),
	}
	if len(x.payload) >= headerLen {
		e.Question = keptQuestion(x.payload)
	}
	if b := x.block.Load(); b != nil {
		e.Block = &b.Watched
	}
	if u := x.upstream.Load(); u != nil {
		e.Upstream = *u
	}
	in.bridge.Watch.Publish(&e)
}
