// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

// Properties are the values of the metrics' label property.
var Properties = map[refusals.Kind]string{
	refusals.Rate:        metric.PropertyRate,
	refusals.Concurrent:  metric.PropertyConcurrent,
	refusals.Overload:    metric.PropertyOverload,
	refusals.Connections: metric.PropertyConnections,
}

// An unknown sender has no network.
func (s *sender) count(result, reason string) {
	if s.origin.Port == "" || s.channel.intake.bridge.Tally == nil { // Ask has no tally
		return
	}
	s.channel.intake.bridge.Tally.NetworkQuery(s.network(), result)
	switch reason {
	case metric.ReasonOverload:
		s.refused(refusals.Overload)
	case metric.ReasonPortLimit, metric.ReasonLimit:
		s.refused(refusals.Concurrent)
	}
}

// The sender is known.
func (s *sender) refused(kind refusals.Kind) {
	s.channel.intake.bridge.refused(refusals.Guest{Port: s.origin.Port, Switch: s.origin.Switch}, s.network(), kind, 1)
}

func (s *sender) network() metric.Network {
	return metric.Network{ID: s.origin.Network, Switch: s.origin.Switch}
}

func (b *Bridge) refused(g refusals.Guest, n metric.Network, kind refusals.Kind, count uint64) {
	b.Tally.NetworkRefused(n, Properties[kind], count)
	if b.Refusals != nil {
		b.Refusals.Add(g, kind, count)
	}
}

// RateDropped records packets of a guest that the switch has dropped by rate.
func (in *Intake) RateDropped(g *guests.Guest, packets uint64) {
	o := g.Origin(0)
	in.bridge.refused(refusals.Guest{Port: o.Port, Switch: o.Switch}, metric.Network{ID: o.Network, Switch: o.Switch}, refusals.Rate, packets)
}
