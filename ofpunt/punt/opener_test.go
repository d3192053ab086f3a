// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// Who opens destinations must leave the reader first.
func TestCaller(t *testing.T) {
	x := new(Exchange)
	if by := (&exchangeContext{t.Context(), x}).Value(opening.CallerKey{}); by != x {
		t.Errorf("%v", by)
	}
	var _ opening.Caller = x
}

// The local database has addresses of the node, once it has been read.
func TestIsNode(t *testing.T) {
	own, other := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	in := &Intake{bridge: Bridge{Ports: new(ports.Owners)}}
	o := &opener{intake: in}
	if o.IsNode(own) {
		t.Error("before the database has been read")
	}
	in.bridge.Ports.Set(ports.NewView(vswitch.View{TunnelAddresses: []netip.Addr{own}}, nil))
	if !o.IsNode(own) || o.IsNode(other) {
		t.Errorf("%v, %v", o.IsNode(own), o.IsNode(other))
	}
}
