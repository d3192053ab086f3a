// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

// What was found before is what a lookup says, for each name and whatever completes the
// hostnames of ports; and it is for that name, network and snapshot only.
func TestFound(t *testing.T) {
	r := newRig(t)
	r.nbctl("ls-add a -- lsp-add a vm1 -- lsp-set-addresses vm1 02:00:00:00:00:01~10.0.0.1 -- lsp-set-options vm1 hostname=web")
	r.nbctl("ls-add b -- lsp-add b vm2 -- lsp-set-addresses vm2 02:00:00:00:00:02~10.0.0.2 -- lsp-set-options vm2 hostname=web")
	r.nbctl(`-- --id=@d create DNS records={"db.internal"="10.0.0.3","vpn.internal"="10.0.0.4"} external_ids={"dns-cname/www.internal"="db.internal","dns-cname/*.w.internal"="db.internal","dns-txt/txt.internal"="x","dns-txt/db.internal"="x"} -- set Logical_Switch a dns_records=@d`)
	s := r.acquire(r.config(false, true))
	s.SetPorts(t, []string{"vm1", "vm2"}, 0)
	now := eventually(t, s, lookups(`
		a db.internal. = 10.0.0.3 TXT:"x"
		a vpn.internal. = 10.0.0.4
		b web./corp.example. = 10.0.0.2`))
	a, b := now.NetworkByName("a"), now.NetworkByName("b")
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
	if f.Prefetch(now, [16]byte{1}, "db.internal.") {
		t.Error("it is found in a network that is not known")
	}
	// What was found is not looked up: were it another entry, that would be the answer.
	f.Prefetch(now, a.ID, "vpn.internal.")
	f.name = "db.internal."
	if got, _ := f.Lookup(now, now.SwitchScope(a.ID), "db.internal.", ""); len(got.V4) != 1 || got.V4[0].String() != "10.0.0.4" {
		t.Errorf("%v is looked up once more", got)
	}
	f.Prefetch(now, a.ID, "db.internal.")
	r.nbctl("set Logical_Switch a dns_records=[]")
	next := eventually(t, s, lookups("a db.internal. ="))
	if _, ok := f.Lookup(next, next.SwitchScope(a.ID), "db.internal.", ""); ok {
		t.Error("it is found in a snapshot that has it no more")
	}
}
