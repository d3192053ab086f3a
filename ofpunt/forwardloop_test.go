// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/pkg/proxy"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

func TestAddressOf(t *testing.T) {
	addrs := func(all ...string) (out []netip.Addr) {
		for _, a := range all {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	p := &ovn.Port{LogicalPort: &ovn.LogicalPort{Addresses: addrs("10.0.0.53", "fd00::53")}}
	tests := []struct {
		name  string
		p     *ovn.Port
		among []netip.Addr
		want  string
	}{
		{"IPv4", p, addrs("9.9.9.9", "10.0.0.53"), "10.0.0.53"},
		{"IPv6", p, addrs("fd00::53"), "fd00::53"},
		{"others", p, addrs("9.9.9.9"), "invalid IP"},
		{"none", p, nil, "invalid IP"},
		{"a port that is not known", nil, addrs("10.0.0.53"), "invalid IP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, ok := addressOf(tt.p, tt.among)
			if a.String() != tt.want || ok != a.IsValid() {
				t.Errorf("got %s, %v, want %s", a, ok, tt.want)
			}
		})
	}
}

// The forwards of a block have a loopGuard, under the name of forward, which knows what all of them ask;
// zones that share the list of plugins too, however often it is compiled. CoreDNS has a forward call the
// next one itself.
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
		wrapPlugins(configs)
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
	// `next` of forward looks for another forward there.
	if _, ok := configs[0].Handler("forward").(*loopGuard).Next.(*forward.Forward); !ok {
		t.Error("the next forward is not found by the first")
	}
	if _, ok := shared[1](nil).(*forward.Forward); !ok {
		t.Error("the list that the zones share has changed")
	}
	// A query from a socket has no guest.
	g := configs[0].Handler("forward").(*loopGuard)
	if (&server{}).hasOneOf(origin.NewContext(t.Context(), &origin.Origin{}), g.upstreams) {
		t.Error("a query without databases is from somebody")
	}
}
