// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"testing"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// BenchmarkAdmission is what admission takes of each query, where guests have limits by their
// labels and where they have none.
func BenchmarkAdmission(b *testing.B) {
	for _, tt := range []struct {
		name   string
		limits []guests.Limit
	}{{"none", nil}, {"limits", []guests.Limit{{Name: "a", Concurrent: 100, ConcurrentGuest: 100}}}} {
		b.Run(tt.name, func(b *testing.B) {
			c, _ := newChannel(b)
			config := testConfig()
			rules := guestConfig()
			for _, l := range tt.limits {
				l.Label, l.Value = label.Port, "port-1"
				rules.Limits = append(rules.Limits, l)
			}
			config.Guests = guests.NewRules(rules)
			s := NewServer(config)
			c.intake.Use(s)
			guestIs(c.intake, "1")
			d := new(datagram)
			d.exchange.init(s, d, &d.sender)
			b.ReportAllocs()
			for b.Loop() {
				d.packet.init(c, s, &openflow.PacketIn{InPort: 5}, placement.Nowhere)
				if reason := s.admission.admit(&d.exchange, s.ConcurrentGuest); reason != "" {
					b.Fatal(reason)
				}
				s.admission.release(&d.exchange)
			}
		})
	}
}
