// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"maps"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/topology"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// A port bound to the local chassis is a guest here, with two additions:
//
//   - While rows are restored, the switch has to confirm a guest (isConfirmed).
//   - A guest without a binding is retained for a grace period while it has its interface, like the routes in a
//     graceful restart of BGP (RFC 4724).
//
// A guest is retained if:
//
//   - ovn-controller has ended regularly. It deletes its bindings and its Chassis row in one transaction (OVN's
//     controller/binding.c, binding_cleanup), and leaves flows and guests in the switch.
//   - Southbound was reset or emptied. All rows come back with other UUIDs and perhaps other tunnel keys.
//   - The port is requested here and bound nowhere, as for milliseconds in a live migration.
//   - This chassis has another name. Southbound refuses its new row while the former row has the same encapsulation
//     (index of Encap in ovn-sb.ovsschema). The ports stay bound to the former row until an operator deletes it.
//
// While the Chassis row of this name exists, a binding is removed on purpose. The grace ends at once when
// Southbound gives the guest's tunnel keys to another port.
//
//	Step ── candidates ─► factsOf ─► decide ─► retain, or an outcome that ends the grace

// Guests has the retained guests, by logical port. All methods are pure.
type Guests map[string]Retained

type Retained struct {
	Port    *ovn.Port  // as last bound
	Chassis ovsdb.UUID // the former row
	since   time.Time  // without a binding
	// Requested is set for a port that OVN is about to bind here, as in a migration. It is not counted.
	Requested bool
}

type Change struct {
	Guest   Retained
	Outcome Outcome // retain begins the grace
	Counted bool    // ends a grace that the log reports
}

// Step decides which guests are retained. again is when the next grace ends, or zero.
func (g Guests) Step(prev *ovn.Snapshot, in *Inputs) (next Guests, changes []Change, again time.Time) {
	candidates := in.candidates(prev)
	if len(candidates)+len(g) == 0 {
		return nil, nil, again
	}
	all := maps.Clone(g)
	if all == nil {
		all = make(Guests, len(candidates))
	}
	for _, p := range candidates {
		if !g.isRetained(p.Name) {
			all[p.Name] = Retained{Port: p, Chassis: prev.Chassis(), since: in.Now}
		}
	}
	next = make(Guests, len(all))
	owners := in.ownersOf(all)
	for name, k := range all {
		f := in.factsOf(k, owners)
		until := k.since.Add(in.GraceOf(k.Port.Interface()))
		f.timedOut = !in.Now.Before(until)
		o, had := f.decide(), g.isRetained(name)
		if (o == retain) != had {
			changes = append(changes, Change{k, o, had && !k.Requested})
		}
		if o == retain {
			row := in.Rows.PortNamed[name]
			k.Requested = row != nil && f.at == unbound && row.Requested != (ovsdb.UUID{}) && row.Requested == in.Rows.Self
			next[name], again = k, Earlier(again, until)
		}
	}
	return next, changes, again
}

func (g Guests) Serves(in *Inputs, id ovsdb.UUID, p *topology.PortBinding, datapath uint32) bool {
	if in.isHere(p) && in.isConfirmed(id, p, datapath) {
		return true
	}
	k, ok := g[p.Name]
	return ok && k.Port.DatapathKey == datapath && k.Port.Key == p.Key
}

func (g Guests) isRetained(port string) bool {
	_, ok := g[port]
	return ok
}

// Count excludes the Requested guests.
func (g Guests) Count() int { return len(g.ByInterface()) }

func (g Guests) Names() []string { return slices.Sorted(maps.Keys(g)) }

func (g Guests) DatapathKeys() map[string]uint32 {
	keys := make(map[string]uint32, len(g))
	for name, k := range g {
		keys[name] = k.Port.DatapathKey
	}
	return keys
}

func (g Guests) Of(id origin.Network) (all []*ovn.Port) {
	for _, name := range g.Names() {
		if p := g[name].Port; p.Network == id {
			all = append(all, p)
		}
	}
	return all
}

func (g Guests) ByInterface() map[string]string {
	var all map[string]string
	for name, k := range g {
		if !k.Requested {
			if all == nil {
				all = make(map[string]string, len(g))
			}
			all[name] = k.Port.Interface()
		}
	}
	return all
}

// Earlier returns the earlier time. Zero is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
