// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// fakeAttached has the attachments of one node.
type fakeAttached []attachment

func (f fakeAttached) attachments(ovsdb.UUID) iter.Seq[attachment] { return slices.Values(f) }

func TestAttachments(t *testing.T) {
	to := func(name string, router byte, forward string) attachment {
		return attachment{
			routerPort: fmt.Sprint("lrp", router), known: true, router: ovsdb.UUID{router}, routerName: name, forward: forward,
			networks: []string{fmt.Sprintf("02:00:00:00:00:01 10.0.0.%d/24", router)},
		}
	}
	external := to("provider", 9, "z=192.0.2.9")
	external.external = true
	many := slices.Repeat([]attachment{to("r", 1, "")}, maxGateways)
	for _, tt := range []struct {
		name                    string
		attachments             []attachment
		count                   int
		routers, gateways, zone string
	}{
		{"none", nil, 0, "", "[]", "[]"},
		{"one", []attachment{to("r", 1, "z=192.0.2.1")}, 1, "r", "[10.0.0.1]", "[z=192.0.2.1]"},
		{"sorted by name, then by UUID", []attachment{to("b", 1, "b"), to("a", 3, "a3"), to("a", 2, "a2")}, 3, "a,b", "[10.0.0.1 10.0.0.3 10.0.0.2]", "[a2 a3 b]"},
		{"attached twice", []attachment{to("r", 1, "z"), to("r", 1, "z")}, 2, "r", "[10.0.0.1 10.0.0.1]", "[z]"},
		{"not known", []attachment{{routerPort: "lrp1"}}, 1, "", "[]", "[]"},
		{"external", []attachment{external, to("r", 1, "z")}, 1, "r", "[10.0.0.1]", "[z]"},
		{"as many as may be", many, maxGateways, "r", fmt.Sprint(gatewaysOf(many)), "[]"},
		{"more", append(many, external), 0, "", "[]", "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := attachmentsOf(fakeAttached(tt.attachments), ovsdb.UUID{})
			zones := []string{}
			for _, a := range forwardersOf(all) {
				zones = append(zones, a.forward)
			}
			if len(all) != tt.count || routerNamesOf(all) != tt.routers || fmt.Sprint(gatewaysOf(all)) != tt.gateways || fmt.Sprint(zones) != tt.zone {
				t.Errorf("got %d attachments, routers %q, gateways %v, zones %v; want %+v", len(all), routerNamesOf(all), gatewaysOf(all), zones, tt)
			}
		})
	}
}
