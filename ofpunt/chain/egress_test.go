// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

type blockPolicy struct {
	ports   []string
	allowed *allowedName
}

type allowedName struct{ name, prefix string }

func (a *allowedName) Allows(name string, _ opening.Destination) bool { return name == a.name }
func (a *allowedName) Networks() []opening.Network {
	return []opening.Network{{Prefix: netip.MustParsePrefix(a.prefix)}}
}
func (a *allowedName) Sum() uint64 { return uint64(len(a.name)) }

func (b *blockPolicy) Enforces() (opening.Settings, bool) { return opening.Settings{Bit: 31}, true }
func (b *blockPolicy) PolicyOf(o *origin.Origin) opening.Policy {
	if !slices.Contains(b.ports, o.Port) {
		return nil
	}
	return b.allowed
}
func (b *blockPolicy) HasLabel(name string) bool { return name == "ofpunt/port" }
func (b *blockPolicy) At() corefile.Position     { return corefile.Position{} }
func (b *blockPolicy) DeniesNames() bool         { return false }
func (b *blockPolicy) ReadsNorthbound() bool     { return false }

func (*blockPolicy) InForce([]origin.Origin) (corefile, northbound []api.EgressPolicy) {
	return nil, nil
}

// A guest has the policies of all blocks, as one policy, == at each call.
func TestEgressPolicies(t *testing.T) {
	e := &EgressPolicies{of: []enforcer{
		&blockPolicy{[]string{"vm1", "vm2"}, &allowedName{"a.", "192.0.2.0/24"}},
		&blockPolicy{[]string{"vm2", "vm3"}, &allowedName{"b.", "198.51.100.0/24"}},
		&blockPolicy{[]string{"vm3"}, &allowedName{"c.", "198.51.100.0/24"}},
	}}
	for port, want := range map[string]struct {
		names    string
		networks int
	}{"vm1": {"a", 1}, "vm2": {"ab", 2}, "vm3": {"bc", 1}, "vm4": {"", 0}} {
		p := e.Of(&origin.Origin{Port: port})
		if p != e.Of(&origin.Origin{Port: port}) {
			t.Errorf("%s: the policy differs from one time to the next", port)
		}
		if p == nil {
			if want.names != "" {
				t.Errorf("%s: no policy", port)
			}
			continue
		}
		names := ""
		for _, name := range []string{"a", "b", "c"} {
			if p.Allows(name+".", opening.Destination{}) {
				names += name
			}
		}
		if names != want.names || len(p.Networks()) != want.networks || p.Sum() != uint64(2*len(names)) {
			t.Errorf("%s: names %q, %v", port, names, p.Networks())
		}
	}
	if !e.HasLabel("ofpunt/port") || e.HasLabel("ofpunt/switch") {
		t.Error("labels")
	}
}

// Blocks that import the same lines have their policies once. Without OVN's ACLs, strict denies names only.
func TestPoliciesOfBlocks(t *testing.T) {
	one := api.EgressPolicy{Policy: "ofpunt/port vm1", At: "Corefile:3", Mode: api.ModeStrict, Allow: []string{"a."}, Guests: []string{"vm1"}}
	other := one
	other.Mode = api.ModeObserve
	for kind, want := range map[placement.Kind]string{placement.OVN: api.ModeStrict, placement.Neutron: api.ModeStrictNames} {
		s := &Server{Options: config.Bridge{Name: "br-int", Config: guests.Config{Placement: kind}}}
		all := s.addPolicies(s.addPolicies(nil, []api.EgressPolicy{one, other}), []api.EgressPolicy{one})
		if len(all) != 2 || all[0].Bridge != "br-int" || all[0].Mode != want || all[1].Mode != api.ModeObserve {
			t.Errorf("%s: %+v", kind, all)
		}
	}
}
