// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/header"
)

func TestRecurses(t *testing.T) {
	rules := func(flags ...string) header.Header {
		var h header.Header
		for _, f := range flags {
			h.ResponseRules = append(h.ResponseRules, header.Rule{Flag: f[1:], State: f[0] == '+'})
		}
		return h
	}
	tests := []struct {
		name   string
		hijack bool
		chain  []plugin.Handler
		want   bool
	}{
		{"names alone", false, []plugin.Handler{stub("ovnhosts")}, false},
		{"cache and file", false, []plugin.Handler{stub("ovnhosts"), stub("cache"), stub("file")}, false},
		{"forward", false, []plugin.Handler{stub("ovnhosts"), stub("forward")}, true},
		{"ovnforward", false, []plugin.Handler{stub("ovnhosts"), stub("ovnforward")}, true},
		{"passthrough", false, []plugin.Handler{stub("ovnhosts"), stub("passthrough")}, true},
		{"grpc", false, []plugin.Handler{stub("grpc")}, true},
		{"hijack mode", true, []plugin.Handler{stub("ovnhosts")}, true},
		{"header clears it", false, []plugin.Handler{rules("-ra"), stub("forward")}, false},
		{"header sets it", false, []plugin.Handler{rules("-aa", "+ra"), stub("file")}, true},
		{"header, the last rule", true, []plugin.Handler{rules("+ra", "-ra", "+aa")}, false},
		{"header of another flag", false, []plugin.Handler{rules("-aa"), stub("forward")}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &dnsserver.Config{Zone: "."}
			for _, h := range tt.chain {
				c.Plugin = append(c.Plugin, func(plugin.Handler) plugin.Handler { return h })
			}
			if _, err := dnsserver.NewServer("test", []*dnsserver.Config{c}); err != nil {
				t.Fatal(err)
			}
			if got := recurses(c, tt.hijack); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
