// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovntest"
	"github.com/puntdns/puntdns/internal/testkit"
)

// A network is logged once until its ports of functions are gone, also after a reload.
func TestFunctionNetworks(t *testing.T) {
	out := testkit.CaptureLog(t)
	s, _ := pairSession(t, func() {})
	for _, tc := range []struct {
		name      string
		functions []string
		ports     string // the named ports, empty for no line
	}{
		{"none", nil, ""},
		{"two", []string{"f1", "f2"}, `("f1", "f2")`},
		{"another", []string{"f1", "f2", "f3"}, ""},
		{"none any more", nil, ""},
		{"one again", []string{"f3"}, `("f3")`},
	} {
		network := ovntest.NetworkA(1)
		for _, name := range tc.functions {
			network.Ports = append(slices.Clone(network.Ports), ovn.PortData{LogicalPort: &ovn.LogicalPort{Name: name, Function: true}})
		}
		before := out.String()
		s.desired.functions = functionPorts(ovntest.Snapshot(network))
		s.reportFunctions()
		got := strings.TrimPrefix(out.String(), before)
		s.bridge.current.Store(chainServer(t)) // a reload
		want := tc.ports == "" && got == "" ||
			tc.ports != "" && strings.Contains(got, `: switch "a" (`) && strings.Contains(got, " "+tc.ports+": ") && strings.Count(got, "\n") == 1
		if !want {
			t.Errorf("%s: %q, want a line with %s", tc.name, got, tc.ports)
		}
	}
}
