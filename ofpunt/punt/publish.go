// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"slices"
	"time"

	"github.com/puntdns/puntdns/ofpunt/watch"
)

func (x *Exchange) watched() bool {
	feed := x.from.channel.intake.bridge.Watch
	return feed != nil && feed.Wanted()
}

// maxShared bounds the messages, in bytes, that an event retains whole: a slow watcher has thousands of events.
const maxShared = 512

func keptQuestion(message []byte) []byte {
	q := message[headerLen : headerLen+questionLen(message)]
	if len(message) > maxShared {
		return slices.Clone(q)
	}
	return q
}

// The arguments are those of count.
func (x *Exchange) publish(result, reason string, rcode int) {
	in := x.from.channel.intake
	o := &x.from.origin // zero if the sender is unknown
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
