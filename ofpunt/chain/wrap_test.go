// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"maps"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/tsig"
)

// CoreDNS gives a server the keys of all blocks; each tsig takes its own block's.
func TestTSIGOfBlock(t *testing.T) {
	of := func(zone string, keys map[string]string) *dnsserver.Config {
		return &dnsserver.Config{Zone: zone, TsigSecret: keys, Plugin: []plugin.Plugin{
			func(next plugin.Handler) plugin.Handler { return &tsig.TSIGServer{Next: next} },
			func(next plugin.Handler) plugin.Handler { return ownerOfKey{next} },
		}}
	}
	red, blue := map[string]string{"red.": "cmVk"}, map[string]string{"blue.": "Ymx1ZQ=="}
	withOther := maps.Clone(red)
	withOther["feed."] = "ZmVlZA=="
	configs := []*dnsserver.Config{of("a.", withOther), of("b.", blue)}
	wrapPlugins(configs, false, 0)
	if _, err := dnsserver.NewServer("test", configs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]string{red, blue} {
		if h, ok := configs[i].Handler("tsig").(*tsigOfBlock); !ok || !maps.Equal(h.keys, want) {
			t.Errorf("zone %s: %#v, want the keys %v", configs[i].Zone, configs[i].Handler("tsig"), want)
		}
	}
}

type ownerOfKey struct{ plugin.Handler }

func (ownerOfKey) Name() string      { return "owner" }
func (ownerOfKey) OwnKeys() []string { return []string{"feed."} }
