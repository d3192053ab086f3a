// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
)

// No asker learns from response times what askers outside its scope have asked.
func TestCacheScope(t *testing.T) {
	unknown := func(port byte) asker {
		who := guest(0, port, "10.0.0.5")
		who.origin.Network, who.origin.Switch = origin.Network{}, ""
		return who
	}
	bySwitch := func(network, port byte) asker {
		who := guest(network, port, "10.0.0.5")
		who.origin.Network = origin.Network{}
		return who
	}
	byUUID := func(network, port byte) asker {
		who := bySwitch(network, port)
		who.origin.Switch = origin.Network{15: network + 1}.String()
		return who
	}
	almost := func(port byte) asker { // a name that only looks like a UUID
		who := byUUID(0, port)
		who.origin.Switch = who.origin.Switch[:35] + "x"
		return who
	}
	other := socketAsker
	other.addr = "10.0.0.6"
	for _, tt := range []struct {
		scope  string
		askers []asker
		asked  int64
	}{
		{"", []asker{red1, red2, blue1, socketAsker}, 1},
		{"cache_scope shared", []asker{red1, red2, blue1, socketAsker}, 1},
		{"cache_scope network", []asker{red1, red2, blue1, blue1}, 2},
		{"cache_scope network", []asker{unknown(1), unknown(2), red1}, 3},
		{"cache_scope network", []asker{bySwitch(0, 1), bySwitch(0, 2), bySwitch(1, 1)}, 3}, // names are not unique
		{"cache_scope network", []asker{byUUID(0, 1), byUUID(0, 2), byUUID(1, 1)}, 2},
		{"cache_scope network", []asker{almost(1), almost(2)}, 2},
		{"cache_scope network", []asker{red1, socketAsker, socketAsker, other}, 3},
		{"cache_scope port", []asker{red1, red2, blue1, red1}, 3},
		{"cache_scope port", []asker{unknown(1), unknown(2), socketAsker, other}, 4},
	} {
		t.Run(tt.scope, func(t *testing.T) {
			rig := startCache(t, ". {\n $OFPUNT\n "+tt.scope+"\n $CLOSE\n cache\n}\n")
			var asked atomic.Int64
			rig.upstream = upstreamAnswer(&asked)
			for range 2 {
				for _, who := range tt.askers {
					if got := rig.lookup(who, "x.test.", dns.TypeA); got != "NOERROR 192.0.2.1" {
						t.Error(got)
					}
				}
			}
			if asked.Load() != tt.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tt.asked)
			}
		})
	}
}

// A network that asks for very many names leaves room for others, and still gets answers.
func TestCacheShare(t *testing.T) {
	rig := startCache(t, ". {\n $OFPUNT\n cache_share 10\n $CLOSE\n cache {\n success 1024\n denial 1024\n }\n}\n")
	var asked atomic.Int64
	rig.upstream = upstreamAnswer(&asked)
	flood := func(who asker, n int, name string) (unstored float64) {
		before := testkit.Sum(t, "coredns_ofpunt_cache_unstored_total", "reason", "share")
		for i := range n {
			if got := rig.lookup(who, fmt.Sprintf("%s%d.test.", name, i), dns.TypeA); got != "NOERROR 192.0.2.1" {
				t.Fatal(got)
			}
		}
		return testkit.Sum(t, "coredns_ofpunt_cache_unstored_total", "reason", "share") - before
	}
	if got := flood(red1, 5000, "red"); got != 5000-1024 {
		t.Errorf("%v answers of the first network were not stored, want all but half of 2,048", got)
	}
	if got := flood(red2, 10, "more"); got != 10 {
		t.Errorf("%v answers of another guest of the network were not stored, want 10", got)
	}
	if got := flood(blue1, 1000, "blue"); got != 1000-204 {
		t.Errorf("%v answers of the second network were not stored, want all but a tenth of 2,048", got)
	}
	// Entries of the second network stay.
	flood(red1, 5000, "again")
	asked.Store(0)
	flood(blue1, 204, "blue")
	if n := asked.Load(); n > 100 { // the first 204 fill shards of four at random
		t.Errorf("%d of 204 names of the second network were not in the cache", n)
	}
	rig.upstream = func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
		return dns.RcodeServerFailure, errFailed
	}
	before := testkit.Sum(t, "coredns_ofpunt_cache_unstored_total", "reason", "share")
	rig.lookup(red1, "failed.test.", dns.TypeA)
	if got := testkit.Sum(t, "coredns_ofpunt_cache_unstored_total", "reason", "share") - before; got != 1 {
		t.Errorf("%v failures were not stored, want 1", got)
	}
}
