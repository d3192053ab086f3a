// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestAddressTree(t *testing.T) {
	table := row("b 10.0.0.2", "a 10.0.0.1 ::1", "a.x 10.0.0.1")
	table = table.Update(records(true, "0.x 10.0.0.1 10.0.0.4", "c 10.0.0.2", "*.x 10.0.0.1"), ignore)
	check := func(addr, want string) {
		t.Helper()
		if got := fmt.Sprint(table.records.namesOf(netip.MustParseAddr(addr))); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
	check("10.0.0.1", "[0.x. a.x.]") // no single label beside longer names
	check("10.0.0.2", "[b. c.]")
	check("10.0.0.4", "[0.x.]")
	check("::1", "[a.]")
	check("10.0.0.3", "[]")
	table = table.Update(records(true, "0.x 10.0.0.1 10.0.0.4", "a.x ::1", "a ::1 10.0.0.1 10.0.0.2"), ignore)
	check("10.0.0.1", "[a.]")
	check("10.0.0.2", "[a. b. c.]")
	check("10.0.0.4", "[]")
	check("::1", "[a.x.]")
}
