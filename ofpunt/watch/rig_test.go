// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
)

// question returns a question as it is in a message.
func question(t testing.TB, name string, qtype uint16) []byte {
	t.Helper()
	m, err := new(dns.Msg).SetQuestion(name, qtype).Pack()
	if err != nil {
		t.Fatal(err)
	}
	return m[12:]
}

// attributes are external_ids.
type attributes map[string]string

func (a attributes) Routers() string              { return "" }
func (a attributes) Groups() string               { return "" }
func (a attributes) ExternalID(key string) string { return a[key] }

var someBlock = &Block{
	Name:  "/etc/puntdns/Corefile:7 - example.org .",
	Words: []string{"/etc/puntdns/Corefile:7 - example.org .", "/etc/puntdns/Corefile:7", "Corefile:7", "example.org.", "example.org"},
	Labels: []Label{
		{"ofpunt/external-id/project", func(o *origin.Origin) string { return o.Attributes.ExternalID("project") }},
		{"ofpunt/external-id/none", func(o *origin.Origin) string { return o.Attributes.ExternalID("none") }},
	},
}

var noon = time.Date(2024, 5, 6, 12, 0, 0, 0, time.UTC)

// someEvent is a query of red-vm1 that was answered.
func someEvent(t testing.TB) *Event {
	return &Event{
		Arrived: noon, Took: 42 * time.Microsecond, Bridge: "br-int", Port: "red-vm1", Switch: "red", Network: origin.Network{1},
		Attributes: attributes{"project": "p1"},
		Client:     netip.MustParseAddrPort("10.0.1.11:34567"), Server: netip.MustParseAddrPort("169.254.169.254:53"),
		Block: someBlock, Question: question(t, "Db.Example.org.", dns.TypeA), Result: "answered", Reason: "chain",
	}
}

// text returns values as JSON.
func text(t testing.TB, values ...any) (all string) {
	t.Helper()
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all += string(b) + "\n"
	}
	return all
}

// lineKinds counts lines by their kinds.
func lineKinds(lines []any) map[string]int {
	n := map[string]int{}
	for _, l := range lines {
		n[l.(*api.WatchLine).Event]++
	}
	return n
}
