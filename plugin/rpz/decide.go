// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

type policyZone struct {
	config source.Config
	at     corefile.Position
	// override replaces the actions of rules; NoAction keeps them.
	override rules.Action
	// logOnly: rules are only counted and logged.
	logOnly bool
	// source is set by open.
	source *source.Source
}

// rules returns nil for none.
func (z *policyZone) rules() *rules.Rules { return z.source.Rules() }

// hit is a matching rule.
type hit struct {
	zone    *policyZone
	rules   *rules.Rules
	policy  rules.Policy
	action  rules.Action
	trigger rules.Trigger
	// wildcard and by identify a name's rule, prefix an address's.
	wildcard bool
	by       int
	prefix   netip.Prefix
	// step is the matched name: the question, or a CNAME target in the answer.
	step string
	// logged are matching rules of earlier log-only zones.
	logged []hit
}

type verdict uint8

const (
	miss verdict = iota // no rule matches
	act                 // by the rule that was found
	wait                // for the answer
)

// step is one name of a query.
type step struct {
	qtype uint16
	// checked is set if no rule matches the name.
	checked bool
	// answered is set once addresses is complete.
	answered  bool
	addresses []netip.Addr
	// unseen is set if puntdns may never see the answer.
	unseen bool
}

// decide returns the rule of the first zone with one; names precede addresses. Before the answer, a rule
// waits for an earlier zone with rules for addresses, unless this only logs.
//
// This is BIND's order with qname-wait-recurse no (rpz_get_zbits in lib/ns/query.c).
func (h *Handler) decide(n *rules.Name, s step) (found hit, v verdict) {
	var logged []hit
	waits := false
	for _, z := range h.policies {
		r := z.rules()
		if r == nil {
			continue
		}
		f := hit{zone: z, rules: r}
		if !s.checked {
			f.policy, f.wildcard, f.by = r.Name(n)
		}
		if f.policy == 0 && s.answered {
			f.policy, f.prefix = r.Address(s.addresses)
			f.trigger = rules.ResponseIP
		}
		if f.policy == 0 {
			waits = waits || !z.logOnly && !s.answered && !s.unseen && r.HasAddresses(s.qtype)
			continue
		}
		if waits {
			return hit{}, wait
		}
		f.action = f.policy.Action()
		if z.override != rules.NoAction {
			f.action = z.override
		}
		if z.logOnly {
			logged = append(logged, f)
			continue
		}
		f.logged = logged
		return f, act
	}
	return hit{logged: logged}, miss
}
