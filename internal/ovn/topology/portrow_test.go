// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// A bad value of a port is in the row of Northbound, except where the row may be that of a router's port.
func TestPortReport(t *testing.T) {
	const northbound, southbound = `OVN_Northbound: Logical_Switch_Port "vm 1": "x" skipped: wrong`, `OVN_Southbound: Port_Binding 00000000-0000-0000-0000-000000000007: "x" skipped: wrong`
	for kind, want := range map[string]string{
		"": northbound, "virtual": northbound, "localport": northbound, "router": northbound,
		"patch": southbound, "l3gateway": southbound, "chassisredirect": southbound,
	} {
		var p PortRow
		p.Name, p.Type = "vm 1", kind
		p.report(ovsdb.UUID{15: 7}, "mac")("x", "", errors.New("wrong"))
		b := problem.NewRegistry()
		if got := b.Set(problem.Row{}, p.Problems()); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
}
