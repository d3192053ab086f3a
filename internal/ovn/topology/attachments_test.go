// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// fakeAttached has the attachments of one node.
type fakeAttached []Attachment

func (f fakeAttached) Attachments(ovsdb.UUID) iter.Seq[Attachment] { return slices.Values(f) }

func TestAttachments(t *testing.T) {
	to := func(name string, router byte, forward string) Attachment {
		return Attachment{
			RouterPort: fmt.Sprint("lrp", router), Known: true, Router: ovsdb.UUID{router}, routerName: name, forward: forward,
			networks: []string{fmt.Sprintf("02:00:00:00:00:01 10.0.0.%d/24", router)},
		}
	}
	external := to("provider", 9, "z=192.0.2.9")
	external.external = true
	many := slices.Repeat([]Attachment{to("r", 1, "")}, ovn.MaxGateways)
	for _, tt := range []struct {
		name                    string
		attachments             []Attachment
		count                   int
		routers, gateways, zone string
	}{
		{"none", nil, 0, "", "[]", "[]"},
		{"one", []Attachment{to("r", 1, "z=192.0.2.1")}, 1, "r", "[10.0.0.1]", "[z=192.0.2.1]"},
		{"sorted by name, then by UUID", []Attachment{to("b", 1, "b"), to("a", 3, "a3"), to("a", 2, "a2")}, 3, "a,b", "[10.0.0.1 10.0.0.3 10.0.0.2]", "[a2 a3 b]"},
		{"attached twice", []Attachment{to("r", 1, "z"), to("r", 1, "z")}, 2, "r", "[10.0.0.1 10.0.0.1]", "[z]"},
		{"not known", []Attachment{{RouterPort: "lrp1"}}, 1, "", "[]", "[]"},
		{"external", []Attachment{external, to("r", 1, "z")}, 1, "r", "[10.0.0.1]", "[z]"},
		{"as many as may be", many, ovn.MaxGateways, "r", fmt.Sprint(GatewaysOf(many)), "[]"},
		{"more", append(many, external), 0, "", "[]", "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := AttachmentsOf(fakeAttached(tt.attachments), ovsdb.UUID{})
			zones := []string{}
			for _, a := range forwardersOf(all) {
				zones = append(zones, a.forward)
			}
			if len(all) != tt.count || RouterNamesOf(all) != tt.routers || fmt.Sprint(GatewaysOf(all)) != tt.gateways || fmt.Sprint(zones) != tt.zone {
				t.Errorf("got %d attachments, routers %q, gateways %v, zones %v; want %+v", len(all), RouterNamesOf(all), GatewaysOf(all), zones, tt)
			}
		})
	}
}
