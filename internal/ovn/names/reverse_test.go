// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestReverseEdit(t *testing.T) {
	addr := netip.MustParseAddr
	var r reverseIndex
	r = r.edit(nil, []addressName{{addr("10.0.0.2"), "b."}, {addr("10.0.0.1"), "a."}, {addr("10.0.0.1"), "a.x."}, {addr("::1"), "a."}})
	r = r.edit(nil, []addressName{{addr("10.0.0.1"), "0.x."}, {addr("10.0.0.2"), "c."}, {addr("10.0.0.2"), "b."}})
	tests := []struct{ addr, want string }{
		{"10.0.0.1", "[0.x. a.x.]"}, // no single label beside longer names
		{"10.0.0.2", "[b. c.]"},
		{"::1", "[a.]"},
		{"10.0.0.3", "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(r.find(addr(tt.addr))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.addr, got, tt.want)
		}
	}
	r = r.edit(map[addressName]struct{}{{addr("10.0.0.1"), "0.x."}: {}, {addr("10.0.0.1"), "a.x."}: {}, {addr("::1"), "a."}: {}},
		[]addressName{{addr("::1"), "a."}})
	for _, tt := range []struct{ addr, want string }{{"10.0.0.1", "[a.]"}, {"::1", "[a.]"}} {
		if got := fmt.Sprint(r.find(addr(tt.addr))); got != tt.want {
			t.Errorf("after removal, %s: got %s, want %s", tt.addr, got, tt.want)
		}
	}
}
