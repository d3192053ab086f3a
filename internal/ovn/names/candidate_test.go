// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What all sources say of a name, and which of them wins: that is what Lookup answers.
func TestSources(t *testing.T) {
	first := NewTable([16]byte{1}).Update(records(false, "db.internal nonsense", "web.internal 10.0.0.1", "Web.internal 10.0.0.9", "*.apps.internal 10.0.0.7"), ignore)
	second := NewTable([16]byte{2}).WithOwned(true).Update(records(false, "db.internal 10.0.0.2", "peer 10.0.0.3"), ignore)
	third := (*RRTable)(nil).Update(records(false,
		"dns-mx/web.internal 10 mail.internal.", "dns-cname/peer web.internal.", "dns-cname/www.internal web.internal.", "dns-txt/*.apps.internal any", "dns-txt/only.internal one",
		"dns-mx/web.internal. ten",
	), ignore).WithOwned(true).WithRow([16]byte{3})
	fourth := (*RRTable)(nil).Update(records(false, "dns-txt/only.internal other", "dns-cname/Bad.internal 10.0.0.1", "dns-mx/vm.lan ten"), ignore).WithRow([16]byte{4})
	d := new(Directory).With([]*Table{first, second}, []*RRTable{third, fourth}, hosts(port{"peer.", "", "10.0.0.4"}, port{"vm.", "lan.", "10.0.0.5"}))
	for _, tc := range []struct{ name, want string }{
		{"db.internal.", "dns 1 unreadable; dns 2 10.0.0.2 owned wins"},
		{"web.internal.", "dns 1 10.0.0.1 wins; dns 1 10.0.0.9; dns 3 MX 10 mail.internal. owned wins; dns 3 unreadable owned dns-mx/web.internal."},
		{"bad.internal.", "dns 4 unreadable dns-cname/Bad.internal"},
		{"peer.", "dns 2 10.0.0.3 owned wins; port 0 10.0.0.4; dns 3 CNAME web.internal. owned"},
		{"peer.cloud.", "port 0 10.0.0.4 wins"},
		{"vm.lan.", "port 0 10.0.0.5 wins; dns 4 unreadable dns-mx/vm.lan"},
		{"vm.cloud.", ""},
		{"x.apps.internal.", `dns 0 10.0.0.7 TXT "any" owned wins derived`},
		{"www.internal.", "dns 3 CNAME web.internal. owned wins"},
		{"only.internal.", `dns 3 TXT "one" owned wins; dns 4 TXT "other"`},
		{"5.0.0.10.in-addr.arpa.", "port 0 vm.lan. wins derived"},
		{"none.", ""},
		{"cloud.", ""},
	} {
		var got []string
		for _, k := range d.Sources(tc.name, "cloud.") {
			words := []string{k.Source.String(), fmt.Sprint(k.Row[0])}
			for _, a := range k.Addresses {
				words = append(words, a.String())
			}
			words = append(append(words, k.Targets...), k.Records...)
			for i, is := range []bool{k.Unreadable, k.OVNOwned, k.Used, k.Derived} {
				if is {
					words = append(words, []string{"unreadable", "owned", "wins", "derived"}[i])
				}
			}
			if k.Unreadable && k.Column == columnIDs {
				words = append(words, k.Key)
			}
			got = append(got, strings.Join(words, " "))
		}
		if got := strings.Join(got, "; "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		sources := d.Sources(tc.name, "cloud.")
		i := slices.IndexFunc(sources, func(k Candidate) bool { return k.Used })
		a, ok := d.Lookup(tc.name, "cloud.")
		if ok != (i >= 0) || ok && !slices.Equal(slices.Concat(a.V4, a.V6), sources[i].Addresses) {
			t.Errorf("%s: %+v wins, and Lookup says %+v", tc.name, sources, a)
		}
	}
	want := []string{"*.apps.internal.", "bad.internal.", "db.internal.", "only.internal.", "peer.", "peer.cloud.", "vm.", "vm.lan.", "web.internal.", "www.internal."}
	if got := d.Names("cloud."); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A row keeps its UUID through updates.
func TestTableRow(t *testing.T) {
	table := NewTable([16]byte{7}).Update(records(false, "a 10.0.0.1"), ignore).WithOwned(true).Update(records(true, "b 10.0.0.2"), ignore)
	if table.row != [16]byte{7} || table.Len() != 2 {
		t.Errorf("%v, %d records", table.row, table.Len())
	}
}
