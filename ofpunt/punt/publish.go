// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Watched reports whether anybody watches.
func (x *Exchange) Watched() bool {
	feed := x.from.channel.intake.bridge.Watch
	return feed != nil && feed.Wanted()
}

// publish tells those who watch what has become of the exchange. The arguments are those of count.
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
		e.Question = x.payload[headerLen : headerLen+questionLen(x.payload)]
	}
	if b := x.block.Load(); b != nil {
		e.Block = &b.Watched
	}
	if u := x.upstream.Load(); u != nil {
		e.Upstream = *u
	}
	in.bridge.Watch.Publish(&e)
}
