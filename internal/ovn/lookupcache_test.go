// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// TestFound looks each name up with and without the cache, and with a cache that is of another
// name, network or snapshot.
func TestFound(t *testing.T) {
	web := func(address string) *Ports {
		ports, _ := NewPorts(PortsData{Ports: []PortData{{LogicalPort: &LogicalPort{Name: "vm", Hostname: "web.", Addresses: parseAddresses(address)}}}})
		return ports
	}
	table := names.NewTable([16]byte{1}).Update(records("db.internal", "10.0.0.3", "vpn.internal", "10.0.0.4"), failing(t))
	rrs := (*names.RRTable)(nil).Update(records("dns-cname/www.internal", "db.internal", "dns-cname/*.w.internal", "db.internal", "dns-txt/txt.internal", "x", "dns-txt/db.internal", "x"), failing(t))
	a := NewNetwork(NetworkData{ID: origin.Network{1}, Ports: web("10.0.0.1"), Tables: []*names.Table{table}, RRs: []*names.RRTable{rrs}})
	b := NewNetwork(NetworkData{ID: origin.Network{2}, Ports: web("10.0.0.2")})
	now := new(Snapshot).Edit().Put(a).Put(b).Done()
	same := cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmp.Comparer(func(a, b *names.RRs) bool { return a == b })}
	// The target of an alias may have to be asked for elsewhere, which takes time.
	for _, name := range []string{"www.internal.", "x.w.internal."} {
		if f := new(LookupCache); f.Prefetch(now, a.ID, name) || f.own != nil {
			t.Errorf("%s, an alias, is found", name)
		}
	}
	for _, tt := range []struct {
		name          string
		found, cached bool
	}{
		{"db.internal.", true, true},
		{"vpn.internal.", true, true},
		{"web.", true, true},
		{"web.corp.example.", false, false}, // which a domain may complete
		{"1.0.0.10.in-addr.arpa.", true, false},
		{"3.0.0.10.in-addr.arpa.", true, false},
		{"txt.internal.", true, false},
		{"internal.", false, false},
		{"example.org.", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, domain := range []string{"", "corp.example."} {
				scope := now.SwitchScope(a.ID)
				want, ok := scope.Lookup(tt.name, domain)
				var f LookupCache
				if got := f.Prefetch(now, a.ID, tt.name); got != tt.found && domain == "" {
					t.Errorf("found: %v", got)
				}
				if cached := f.own != nil; cached != tt.cached {
					t.Errorf("cached: %v, want %v", cached, tt.cached)
				}
				got, gotOK := f.Lookup(now, scope, tt.name, domain)
				if d := cmp.Diff(want, got, same); d != "" || ok != gotOK {
					t.Errorf("with domain %q: %v, want %v: %s", domain, gotOK, ok, d)
				}
				// Of another network, another name, and before anything was found.
				if _, ok := f.Lookup(now, now.SwitchScope(b.ID), "db.internal.", domain); ok {
					t.Error("it is found in another network")
				}
				if _, ok := f.Lookup(now, scope, "nowhere.internal.", domain); ok {
					t.Error("another name is found")
				}
				if got, gotOK := (*LookupCache)(nil).Lookup(now, scope, tt.name, domain); !cmp.Equal(want, got, same) || ok != gotOK {
					t.Errorf("without a lookup before: %v", got)
				}
			}
		})
	}
	var f LookupCache
	if f.Prefetch(now, origin.Network{3}, "db.internal.") {
		t.Error("it is found in a network that is not known")
	}
	// What was found is not looked up: were it another entry, that would be the answer.
	f.Prefetch(now, a.ID, "vpn.internal.")
	f.name = "db.internal."
	if got, _ := f.Lookup(now, now.SwitchScope(a.ID), "db.internal.", ""); len(got.V4) != 1 || got.V4[0].String() != "10.0.0.4" {
		t.Errorf("%v is looked up once more", got)
	}
	f.Prefetch(now, a.ID, "db.internal.")
	next := now.Edit().Put(NewNetwork(NetworkData{ID: a.ID, Ports: web("10.0.0.1")})).Done()
	if _, ok := f.Lookup(next, next.SwitchScope(a.ID), "db.internal.", ""); ok {
		t.Error("it is found in a snapshot that has it no more")
	}
}
