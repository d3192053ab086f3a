// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/pkg/proxy"

	"github.com/puntdns/puntdns/internal/origin"
)

// The first forward of a block becomes a loopGuard with the upstreams of all, even with shared plugins and at a second
// compile.
func TestAddLoopGuards(t *testing.T) {
	of := func(addresses ...string) *forward.Forward {
		f := forward.New()
		for _, a := range addresses {
			f.SetProxy(proxy.NewProxy("forward", a, "dns"))
		}
		t.Cleanup(func() { _ = f.OnShutdown() })
		return f
	}
	first, second := of("10.0.0.53:53", "[fd00::53%eth0]:53"), of("[::ffff:10.0.0.54]:5353")
	shared := []plugin.Plugin{
		func(next plugin.Handler) plugin.Handler { return stub("errors") },
		func(plugin.Handler) plugin.Handler { first.Next = second; return first },
		func(next plugin.Handler) plugin.Handler { second.Next = next; return second },
	}
	configs := []*dnsserver.Config{{Zone: "a.", Plugin: shared}, {Zone: "b.", Plugin: shared}}
	for range 2 {
		wrapPlugins(configs, false, 0)
		if _, err := dnsserver.NewServer("test", configs); err != nil {
			t.Fatal(err)
		}
	}
	want := []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("fd00::53"), netip.MustParseAddr("10.0.0.54")}
	for _, c := range configs {
		got := upstreamsOfBlock(nil, c).addresses
		slices.SortFunc(got[:2], netip.Addr.Compare) // the policy is random
		if !slices.Equal(got, want) {
			t.Errorf("zone %s: guards of %v, want %v", c.Zone, got, want)
		}
		if g, ok := c.Handler("forward").(*loopGuard); !ok || g.Next != second || c.Handler("guard") != nil {
			t.Errorf("zone %s: forward is %T", c.Zone, c.Handler("forward"))
		}
	}
	// The property next of forward needs the type.
	if _, ok := configs[0].Handler("forward").(*loopGuard).Next.(*forward.Forward); !ok {
		t.Error("the next forward is not found by the first")
	}
	if _, ok := shared[1](nil).(*forward.Forward); !ok {
		t.Error("the list that the zones share has changed")
	}
	g := configs[0].Handler("forward").(*loopGuard)
	if hasOneOf(origin.NewContext(t.Context(), &origin.Origin{}), g.upstreams) {
		t.Error("a query without databases is from somebody")
	}
}
