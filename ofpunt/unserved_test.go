// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// An interface is logged at the second look that finds it without a guest, and once for each
// reason.
func TestUnservedPorts(t *testing.T) {
	var u unservedPorts
	for i, step := range []struct {
		ports   []string
		reasons map[string]string
		asked   []string
		want    []string
	}{
		{[]string{"a"}, map[string]string{"a": "unknown"}, nil, nil},
		{[]string{"a", "b"}, map[string]string{"a": "unknown"}, []string{"a"}, []string{`interface tap-a of logical port "a" is not served: unknown`}},
		{[]string{"a", "b"}, map[string]string{"a": "unknown", "b": "elsewhere"}, []string{"a", "b"}, []string{`interface tap-b of logical port "b" is not served: elsewhere`}},
		{[]string{"a", "b"}, map[string]string{"a": "elsewhere", "b": "elsewhere"}, []string{"a", "b"}, []string{`interface tap-a of logical port "a" is not served: elsewhere`}},
		{[]string{"b"}, map[string]string{"b": "elsewhere"}, []string{"b"}, nil},
		{[]string{"a", "b"}, map[string]string{"b": "elsewhere"}, []string{"b"}, nil},
		{[]string{"a", "b"}, map[string]string{"a": "elsewhere", "b": "elsewhere"}, []string{"a", "b"}, []string{`interface tap-a of logical port "a" is not served: elsewhere`}},
		{nil, nil, nil, nil},
	} {
		var v vswitch.View
		for n, port := range step.ports {
			v.Interfaces = append(v.Interfaces, vswitch.Interface{Name: "tap-" + port, IfaceID: port, OFPort: uint32(n + 1)})
		}
		lines := u.look(ports.NewView(v, nil), &ovn.Snapshot{}, func(names []string) map[string]string {
			if !slices.Equal(names, step.asked) {
				t.Errorf("look %d asks of %q, expected %q", i, names, step.asked)
			}
			reasons := map[string]string{}
			for _, name := range names {
				if r := step.reasons[name]; r != "" {
					reasons[name] = r
				}
			}
			return reasons
		})
		if d := cmp.Diff(step.want, lines); d != "" {
			t.Errorf("look %d: %s", i, d)
		}
	}
	if len(u.logged) > 0 {
		t.Errorf("still counted: %v", u.logged)
	}
}
