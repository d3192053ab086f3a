// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"net/netip"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

// policyZone is one zone of a Handler.
type policyZone struct {
	config source.Config
	// at is its line in the Corefile.
	at corefile.Position
	// override replaces the actions of rules; NoAction leaves them.
	override rules.Action
	// logOnly has the rules of the zone only counted and logged.
	logOnly bool
	// source is set by open.
	source *source.Source
}

// rules returns the present rules, nil for none.
func (z *policyZone) rules() *rules.Rules { return z.source.Rules() }

// hit is a rule that is for a query.
type hit struct {
	zone    *policyZone
	rules   *rules.Rules
	policy  rules.Policy
	action  rules.Action
	trigger rules.Trigger
	// wildcard and by identify the rule of a name, prefix the rule of an address.
	wildcard bool
	by       int
	prefix   netip.Prefix
	// step is the name that the rule matches: the name of the question, or the target of a CNAME record in
	// the answer.
	step string
	// logged are the rules of zones before it that are only logged.
	logged []hit
}

// verdict is what to do about a name.
type verdict uint8

const (
	miss verdict = iota // no rule is for it
	act                 // by the rule that was found
	wait                // for the answer, before it can be said
)

// step is one name of a query, and its addresses if they are known.
type step struct {
	qtype uint16
	// checked is set if no rule is for the name.
	checked bool
	// answered is set once addresses has all addresses of the name that the client would get.
	answered  bool
	addresses []netip.Addr
	// unseen is set if the answer may never be known.
	unseen bool
}

// decide returns the rule for a name: the rule of the first zone that has one. In a zone a rule for the name
// precedes a rule for an address. Before the answer is known, a rule has to wait if a zone before it has
// rules for addresses, since one of these may match. A zone that only logs makes no other zone wait.
//
// BIND orders rules in the same way (rpz_get_zbits in lib/ns/query.c), with
// qname-wait-recurse no.
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
