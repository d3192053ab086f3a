// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/policy"
)

// InForce returns the policies, each with those of the guests that it applies to: all policies of the Corefile, and the
// Northbound policies of the guests.
func (h *Handler) InForce(guests []origin.Origin) (corefile, northbound []api.EgressPolicy) {
	for i := range h.policies {
		p := &h.policies[i]
		corefile = append(corefile, h.inForce(p, p.at.String(), p.rules))
	}
	numbers := map[*policy.Policy]int{}
	for i := range guests {
		o := &guests[i]
		for _, n := range h.index.AppendAll(nil, o) {
			corefile[n].Guests = append(corefile[n].Guests, o.Port)
		}
		for _, rules := range h.northboundOf(o) {
			n, known := numbers[rules]
			if !known {
				n = len(northbound)
				numbers[rules] = n
				northbound = append(northbound, h.inForce(h.northbound, rules.At, rules))
			}
			northbound[n].Guests = append(northbound[n].Guests, o.Port)
		}
	}
	slices.SortStableFunc(northbound, func(a, b api.EgressPolicy) int { return cmp.Compare(a.At, b.At) })
	for _, all := range [][]api.EgressPolicy{corefile, northbound} {
		for i := range all {
			slices.Sort(all[i].Guests)
			all[i].Guests = slices.Compact(all[i].Guests) // an external port may be several guests
		}
	}
	return corefile, northbound
}

func (h *Handler) inForce(p *guestPolicy, at string, rules *policy.Policy) api.EgressPolicy {
	out := api.EgressPolicy{Policy: p.words(), At: at, Mode: h.mode(), Allow: []string{}, Guests: []string{}}
	for _, e := range rules.Entries() {
		out.Allow = append(out.Allow, e.String())
		if text := e.Warning(); text != "" {
			out.Warnings = append(out.Warnings, text)
		}
	}
	return out
}

// words returns LABEL VALUE, as in the Corefile.
func (p *guestPolicy) words() string { return strings.Replace(p.name, "=", " ", 1) }

func (h *Handler) mode() string {
	switch {
	case h.observe:
		return api.ModeObserve
	case h.namesOnly:
		return api.ModeStrictNames
	case h.strict:
		return api.ModeStrict
	}
	return api.ModeEnforce
}
