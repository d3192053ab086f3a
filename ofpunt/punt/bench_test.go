// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"testing"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// BenchmarkAdmission is what admission takes of each query, where guests have limits by their
// labels and where they have none.
func BenchmarkAdmission(b *testing.B) {
	for _, tt := range []struct {
		name   string
		limits []Limit
	}{{"none", nil}, {"limits", []Limit{{Name: "a", Concurrent: 100, ConcurrentGuest: 100}}}} {
		b.Run(tt.name, func(b *testing.B) {
			c, _ := newChannel(b)
			config := testConfig()
			config.Limits = tt.limits
			config.FindLimit = func(*openflow.PacketIn, *vswitch.Interface) int { return 0 }
			config.PortsVersion = func() uint64 { return 1 }
			s := NewServer(config)
			c.intake.Use(s)
			guestIs(c.intake, "1")
			d := new(datagram)
			d.init(c, s, &openflow.PacketIn{InPort: 5}, placement.Nowhere)
			d.exchange.init(s, d, &d.sender)
			b.ReportAllocs()
			for b.Loop() {
				d.limit = s.limitOf(&d.packet)
				if reason := s.admission.admit(&d.exchange, s.ConcurrentGuest); reason != "" {
					b.Fatal(reason)
				}
				s.admission.release(&d.exchange)
			}
		})
	}
}
