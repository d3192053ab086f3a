// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// enforcer is the handler of egress.
type enforcer interface {
	// Enforces reports whether, and with which settings, the switch enforces the policies.
	Enforces() (opening.Settings, bool)
	PolicyOf(o *origin.Origin) opening.Policy
	HasLabel(name string) bool
	// ReadsNorthbound reports whether Northbound policies count.
	ReadsNorthbound() bool
	At() corefile.Position
	// DeniesNames reports whether names that are not allowed are denied, which needs no switch.
	DeniesNames() bool
	// InForce returns the policies, each with those of the guests that it applies to.
	InForce(guests []origin.Origin) (corefile, northbound []api.EgressPolicy)
}

// EgressPolicies has the egress policies of all blocks of a bridge. A guest may send to what any block allows.
type EgressPolicies struct{ of []enforcer }

// Of returns what the policies of a guest allow, nil without a policy.
func (e *EgressPolicies) Of(o *origin.Origin) (all opening.Policy) {
	for _, of := range e.of {
		all = opening.Union(all, of.PolicyOf(o))
	}
	return all
}

// HasLabel reports whether a policy selects guests by the label.
func (e *EgressPolicies) HasLabel(name string) bool {
	return slices.ContainsFunc(e.of, func(of enforcer) bool { return of.HasLabel(name) })
}

// EgressPolicies returns the policies of all blocks, also those that the switch does not enforce, each with those of
// the guests that it applies to.
func (s *Server) EgressPolicies(guests []origin.Origin) (corefile, northbound []api.EgressPolicy) {
	for _, of := range s.enforcers() {
		c, n := of.InForce(guests)
		corefile, northbound = s.addPolicies(corefile, c), s.addPolicies(northbound, n)
	}
	return corefile, northbound
}

// addPolicies leaves out policies that another block has imported too.
func (s *Server) addPolicies(to, all []api.EgressPolicy) []api.EgressPolicy {
	for _, p := range all {
		p.Bridge = s.Options.Name
		if p.Mode == api.ModeStrict && s.Options.Placement != placement.OVN {
			p.Mode = api.ModeStrictNames
		}
		if !slices.ContainsFunc(to, func(other api.EgressPolicy) bool { return reflect.DeepEqual(p, other) }) {
			to = append(to, p)
		}
	}
	return to
}

func (s *Server) enforcers() (all []enforcer) {
	for _, b := range s.blocks {
		if of := b.enforcer(); of != nil {
			all = append(all, of)
		}
	}
	return all
}

func (b *Block) enforcer() enforcer {
	of, _ := b.config().Handler("egress").(enforcer)
	return of
}

// warnOfUnjudged warns of blocks without *egress* beside blocks with it.
func (s *Server) warnOfUnjudged() {
	with := slices.IndexFunc(s.blocks, func(b *Block) bool { return b.enforcer() != nil })
	for _, b := range s.blocks {
		if with >= 0 && b.enforcer() == nil {
			log.Warningf("%s - ofpunt %s: the block %s has no egress, which the block %s (%s) has: guests with a policy get all names of this block, and its answers open nothing; expected the same egress in each block", b, s.Options.Name, b.keys(), s.blocks[with].keys(), s.blocks[with])
		}
	}
}

func (s *Server) readEgress() error {
	e := new(EgressPolicies)
	var all []error
	for _, of := range s.enforcers() {
		if of.ReadsNorthbound() {
			s.Requests.Egress = true
			if len(s.Database.Northbound) == 0 {
				all = append(all, fmt.Errorf("%s - ofpunt %s: egress has `northbound on`, and no ovnhosts of this bridge reads the Northbound database; expected northbound there", of.At(), s.Options.Name))
			}
		}
		settings, enforces := of.Enforces()
		if enforces || s.ACLBit == 0 {
			s.ACLBit = settings.Bit
		}
		switch {
		case !enforces:
			continue
		case s.Options.Placement != placement.OVN && of.DeniesNames():
			continue
		case s.Options.Placement != placement.OVN:
			all = append(all, fmt.Errorf("%s - ofpunt %s: egress needs the ACLs of OVN, and the placement is %s; expected `strict names` or `observe on`", of.At(), s.Options.Name, s.Options.Placement))
		case len(e.of) > 0 && settings != s.Openings:
			all = append(all, fmt.Errorf("%s - ofpunt %s: egress has %v; at %s it has %v; expected the same on one bridge", of.At(), s.Options.Name, settings, e.of[0].At(), s.Openings))
		case len(e.of) == 0:
			s.Openings = settings
		}
		e.of = append(e.of, of)
	}
	s.warnOfUnjudged()
	if len(e.of) > 0 {
		s.Egress = e
	}
	return errors.Join(all...)
}
