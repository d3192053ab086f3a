// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"

	"github.com/puntdns/puntdns/internal/testkit"
)

// A network of guests that gets ports of network functions is logged once until it has none any more, also after
// a reload.
func TestFunctionNetworks(t *testing.T) {
	x := newTenants(t, func(*bridgeOptions) {})
	out := testkit.CaptureLog(t)
	s, _ := pairSession(t, func() {})
	// step changes the ports of red, and returns what is logged for the snapshot that has them.
	step := func(functions int, ops ...string) string {
		t.Helper()
		if len(ops) > 0 {
			x.transact(ops...)
		}
		var snapshot *ovn.Snapshot
		testkit.OnChange(t, x.server.source, fmt.Sprintf("red has %d ports of network functions", functions), func() bool {
			snapshot = x.server.source.Snapshot()
			n, guest := snapshot.NetworkByName("red"), snapshot.PortByName("red-a")
			return n != nil && guest != nil && len(n.FunctionPorts()) == functions
		})
		before := out.String()
		s.desired.functions = functionPorts(snapshot)
		s.reportFunctions()
		return strings.TrimPrefix(out.String(), before)
	}
	const (
		port = `{"op":"insert","table":"Logical_Switch_Port","uuid-name":"f%d","row":{"name":"f%d","options":["map",[["is-nf","true"]]]}}`
		add  = `{"op":"mutate","table":"Logical_Switch","where":[["name","==","red"]],"mutations":[["ports","insert",["named-uuid","f%d"]]]}`
		none = `{"op":"update","table":"Logical_Switch_Port","where":[["name","==","f%d"]],"row":{"options":["map",[]]}}`
		some = `{"op":"update","table":"Logical_Switch_Port","where":[["name","==","f%d"]],"row":{"options":["map",[["is-nf","true"]]]}}`
	)
	for _, tc := range []struct {
		name      string
		functions int
		ops       []string
		ports     string // that are named; empty for no line
	}{
		{"none", 0, nil, ""},
		{"two", 2, []string{fmt.Sprintf(port, 1, 1), fmt.Sprintf(port, 2, 2), fmt.Sprintf(add, 1), fmt.Sprintf(add, 2)}, `("f1", "f2")`},
		{"another", 3, []string{fmt.Sprintf(port, 3, 3), fmt.Sprintf(add, 3)}, ""},
		{"none any more", 0, []string{fmt.Sprintf(none, 1), fmt.Sprintf(none, 2), fmt.Sprintf(none, 3)}, ""},
		{"one again", 1, []string{fmt.Sprintf(some, 3)}, `("f3")`},
	} {
		got := step(tc.functions, tc.ops...)
		s.bridge.current.Store(chainServer(t)) // a reload
		want := tc.ports == "" && got == "" ||
			tc.ports != "" && strings.Contains(got, `: switch "red" (`) && strings.Contains(got, " "+tc.ports+": ") && strings.Count(got, "\n") == 1
		if !want {
			t.Errorf("%s: %q, want a line with %s", tc.name, got, tc.ports)
		}
	}
}
