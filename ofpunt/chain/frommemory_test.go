// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// stub is a plugin that is nothing but a name.
type stub string

func (s stub) Name() string { return string(s) }
func (s stub) ServeDNS(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
	return dns.RcodeServerFailure, nil
}

// hosts is ovnhosts for a zone.
type hosts struct {
	stub
	zone string
}

func (h hosts) Covers(zone string) bool { return plugin.Zones{h.zone}.Matches(zone) != "" }

func TestAnswersFromMemory(t *testing.T) {
	all := hosts{"ovnhosts", "."}
	type block = []plugin.Handler
	tests := []struct {
		name  string
		zone  string
		chain block
		want  bool
	}{
		{"ovnhosts above what waits", ".", block{stub("errors"), stub("log"), all, stub("forward")}, true},
		{"the plugins of Corefile.example", ".", block{stub("ofpunt"), stub("metadata"), stub("ready"), stub("health"), stub("prometheus"), stub("errors"), stub("loadbalance"), all, stub("cache"), stub("private"), stub("forward")}, true},
		{"audit above it", ".", block{stub("dnstap"), stub("audit"), all, stub("forward")}, true},
		{"ovnhosts alone", ".", block{all}, true},
		{"no ovnhosts", ".", block{stub("errors"), stub("forward")}, false},
		{"nothing", ".", block{}, false},
		{"a plugin that may ask elsewhere above it", ".", block{stub("rewrite"), all}, false},
		{"a plugin that nobody knows above it", ".", block{stub("unknown"), all}, false},
		{"ovnhosts for a part of the block's zone", ".", block{hosts{"ovnhosts", "internal."}, stub("forward")}, false},
		{"ovnhosts for more than the block's zone", "red.internal.", block{hosts{"ovnhosts", "internal."}, stub("forward")}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &dnsserver.Config{Zone: tt.zone}
			for _, h := range tt.chain {
				c.Plugin = append(c.Plugin, func(plugin.Handler) plugin.Handler { return h })
			}
			if _, err := dnsserver.NewServer("test", []*dnsserver.Config{c}); err != nil {
				t.Fatal(err)
			}
			if got := answersFromMemory(c); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
