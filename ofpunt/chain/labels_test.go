// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/request"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/internal/origin"
)

// attributes are the data of a port in the databases.
type attributes map[string]string

func (a attributes) Routers() string              { return a["router"] }
func (a attributes) Groups() string               { return a["group"] }
func (a attributes) ExternalID(key string) string { return a["id "+key] }

func TestLabelValues(t *testing.T) {
	known := &origin.Origin{
		Bridge: "br-int", InPort: 7, VLAN: 5, Network: origin.Network{0: 1}, Switch: "red", Port: "vm1", MAC: origin.MAC{5: 9},
		Destination: netip.MustParseAddrPort("192.0.2.1:53"), Attributes: attributes{"router": "r1,r2", "group": "g1,g2", "id a:b": "c"},
	}
	// These go to log lines and terminals.
	hostile := &origin.Origin{
		Bridge: "br-int", InPort: 7, Switch: "red\n[INFO] forged", Port: "vm\x1b[2J",
		Attributes: attributes{"router": "r\u2028,r2", "group": "g\u2028", "id a:b": "a\\nb\u202e"},
	}
	for _, tt := range []struct {
		of   *origin.Origin
		want map[string]string
	}{
		{known, map[string]string{
			"bridge": "br-int", "in-port": "7", "vlan": "5", "network": "01000000-0000-0000-0000-000000000000", "switch": "red", "port": "vm1",
			"client-mac": "00:00:00:00:00:09", "destination": "192.0.2.1:53", "router": "r1,r2", "group": "g1,g2", "external-id/a:b": "c", "external-id/none": "",
		}},
		{hostile, map[string]string{
			"bridge": "br-int", "in-port": "7", "vlan": "0", "network": "", "switch": `red\n[INFO] forged`, "port": `vm\x1b[2J`,
			"client-mac": "00:00:00:00:00:00", "destination": "invalid AddrPort", "router": `r\u2028,r2`, "group": `g\u2028`, "external-id/a:b": `a\\nb\u202e`, "external-id/none": "",
		}},
		{&origin.Origin{}, map[string]string{
			"bridge": "", "in-port": "0", "vlan": "0", "network": "", "switch": "", "port": "",
			"client-mac": "00:00:00:00:00:00", "destination": "invalid AddrPort", "router": "", "group": "", "external-id/a:b": "", "external-id/none": "",
		}},
	} {
		h := &Handler{labels: append(label.All(), label.OfKey("a:b"), label.OfKey("none"))}
		ctx := h.Metadata(metadata.ContextWithMetadata(origin.NewContext(t.Context(), tt.of)), request.Request{})
		got := map[string]string{}
		for name, value := range metadata.ValueFuncs(ctx) {
			got[strings.TrimPrefix(name, "ofpunt/")] = value()
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	ctx := (&Handler{labels: label.All()}).Metadata(metadata.ContextWithMetadata(t.Context()), request.Request{})
	if got := metadata.Labels(ctx); len(got) > 0 {
		t.Errorf("a query from a socket has %q", got)
	}
}

func BenchmarkMetadata(b *testing.B) {
	key := label.OfKey("neutron:project_id")
	o := &origin.Origin{Bridge: "br-int", InPort: 7, Port: "vm1", Switch: "red", Attributes: attributes{"id neutron:project_id": "p"}}
	ctx := origin.NewContext(b.Context(), o)
	for _, tt := range []struct {
		name   string
		labels []label.Label
		read   string
	}{
		{"none", nil, ""},
		{"switch", label.All()[5:6], "ofpunt/switch"},
		{"a key", []label.Label{key}, key.Name},
		{"all", append(label.All(), key), key.Name},
	} {
		b.Run(tt.name, func(b *testing.B) {
			h := &Handler{labels: tt.labels}
			b.ReportAllocs()
			for b.Loop() {
				ctx := h.Metadata(metadata.ContextWithMetadata(ctx), request.Request{})
				if tt.read != "" && metadata.ValueFunc(ctx, tt.read)() == "" {
					b.Fatal("no value")
				}
			}
		})
	}
}
