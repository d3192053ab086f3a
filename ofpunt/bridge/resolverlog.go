// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"maps"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// networkLog has the last logged text by network. Only the session's goroutine uses it.
type networkLog map[string]string

// update returns the networks with a new text, and the networks whose text is gone, both sorted.
func (l *networkLog) update(now map[string]string) (begun, ended []string) {
	for _, network := range slices.Sorted(maps.Keys(now)) {
		if text, logged := (*l)[network]; !logged || text != now[network] {
			begun = append(begun, network)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(*l)) {
		if _, still := now[network]; !still {
			ended = append(ended, network)
		}
	}
	*l = now
	return begun, ended
}

func (s *session) reportAddressless(c *guests.Config) {
	if s.flows.Yielding() {
		return
	}
	why, counts := map[string]string{}, map[string]int{}
	for network, of := range s.desired.list.Without {
		why[network.String()], counts[network.String()] = of.Why(c), of.Guests
	}
	begun, ended := s.bridge.withoutResolver.update(why)
	for _, network := range begun {
		log.Warningf("Bridge %s: switch %s: its guests are not served, as %s; guests: %d", s.bridge.name, network, why[network], counts[network])
	}
	for _, network := range ended {
		log.Infof("Bridge %s: switch %s: no guest is without a resolver address any more", s.bridge.name, network)
	}
	metric.WithoutAddress.WithLabelValues(s.bridge.name).Set(float64(s.desired.list.WithoutResolver()))
}

func (s *session) reportLeft() {
	if s.flows.Yielding() {
		return
	}
	left := map[string]string{}
	for network, all := range s.desired.list.Left {
		left[network.String()] = guests.JoinAddresses(all)
	}
	begun, ended := s.bridge.left.update(left)
	for _, network := range begun {
		log.Infof("Bridge %s: switch %s: a port of the network has %s, so what guests ask there is not punted", s.bridge.name, network, left[network])
	}
	for _, network := range ended {
		log.Infof("Bridge %s: switch %s: no resolver address is left to a port any more", s.bridge.name, network)
	}
}
