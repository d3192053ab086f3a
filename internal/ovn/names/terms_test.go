// SPDX-License-Identifier: Apache-2.0

package names

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Machines that both versions of a network have are not looked at.
func TestDifferentMachines(t *testing.T) {
	machines := func(texts string) map[netip.Addr]struct{} {
		all := make(map[netip.Addr]struct{})
		for _, text := range strings.Fields(texts) {
			all[netip.MustParseAddr(text)] = struct{}{}
		}
		return all
	}
	for _, tt := range []struct{ name, old, next, want string }{
		{"none", "", "", ""},
		{"the same", "10.0.0.1 fd00::1", "10.0.0.1 fd00::1", ""},
		{"one comes", "10.0.0.1", "10.0.0.1 10.0.0.2", "10.0.0.2"},
		{"one goes", "10.0.0.1 10.0.0.2", "10.0.0.2", "10.0.0.1"},
		{"the first", "", "10.0.0.1", "10.0.0.1"},
		{"one for another", "10.0.0.1 10.0.0.3", "10.0.0.1 10.0.0.2", "10.0.0.2 10.0.0.3"},
		{"IPv4 and what IPv6 maps to it", "10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1 ::ffff:10.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			differentMachines(machines(tt.old), machines(tt.next), func(a netip.Addr) { got = append(got, a.String()) })
			slices.Sort(got)
			if all := strings.Join(got, " "); all != tt.want {
				t.Errorf("%s, want %s", all, tt.want)
			}
		})
	}
}
