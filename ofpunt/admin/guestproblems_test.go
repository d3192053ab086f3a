// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/refusals"
)

func TestGuestProblems(t *testing.T) {
	cases := map[string]api.Guest{
		"":                          {Interface: "tap1", Port: "vm1", FlowCounters: &api.FlowCounters{Flows: 1}},
		api.CodeNoFlows:             {Interface: "tap1", Port: "vm1", FlowCounters: &api.FlowCounters{}},
		api.CodeFirstServer:         {Interface: "tap1", Port: "vm1", Resolvers: []string{"169.254.169.254:53"}, DHCP: &api.DHCP{DNSServer: "{9.9.9.9, 169.254.169.254}"}},
		api.CodeNotAnnounced:        {Interface: "tap1", Port: "vm1", Resolvers: []string{"[fd00::254]:53", "169.254.169.254:53"}, DHCP: &api.DHCP{Row: "1", DNSServer: "9.9.9.9"}},
		api.CodeAddressTaken:        {Port: "vm1", Switch: "red", Left: []string{"169.254.169.254"}},
		api.CodeAttachedMAC:         {Port: "vm1", Interface: "tap1", MACs: []string{"02:00:00:00:00:01"}, AttachedMAC: "02:00:00:00:00:02"},
		api.CodePortConfig:          {Bridge: "br-int", Interface: "tap1", Port: "vm1", PortConfig: []string{api.PortNoForward}},
		api.CodePortSecurity:        {Interface: "tap1", Port: "vm1", DroppedARP: 3},
		api.CodeLinkDown:            {Interface: "tap1", Port: "vm1", LinkDown: true},
		api.CodeEgressOpen:          {Interface: "tap1", Port: "vm1", Egress: &api.GuestEgress{Policy: true, Closed: []string{"ip4"}, Bit: 20}},
		api.CodeEgressWithoutPolicy: {Interface: "tap1", Port: "vm1", Egress: &api.GuestEgress{Closed: []string{"ip4", "ip6"}, Bit: 31}},
		api.CodeOverLimit:           {Interface: "tap1", Port: "vm1", Refused: map[string]uint64{"rate": 7, "overload": 1}},
	}
	for _, none := range []string{"169.254.169.254", "{169.254.169.254, 9.9.9.9}"} {
		g := api.Guest{Resolvers: []string{"169.254.169.254:53"}, DHCP: &api.DHCP{DNSServer: none}}
		if addProblems(&g); g.Problems != nil {
			t.Errorf("dns_server %s: %+v", none, g.Problems)
		}
	}
	silent := api.Guest{Resolvers: []string{"169.254.169.254:53"}, DHCP: &api.DHCP{}}
	if addProblems(&silent); len(silent.Problems) != 1 || silent.Problems[0].Code != api.CodeNotAnnounced {
		t.Errorf("no dns_server: %+v", silent.Problems)
	}
	for _, g := range []api.Guest{{Resolvers: []string{"any"}, DHCP: &api.DHCP{}}, {Resolvers: []string{"[fd00::254]:53"}, DHCP: &api.DHCP{}}, {Resolvers: []string{"169.254.169.254:53"}}} {
		if addProblems(&g); g.Problems != nil {
			t.Errorf("%+v", g)
		}
	}
	enforced := api.Guest{Port: "vm1", Egress: &api.GuestEgress{Policy: true, Closed: []string{"ip4", "ip6"}, Bit: 31}}
	if addProblems(&enforced); enforced.Problems != nil {
		t.Errorf("an enforced policy: %+v", enforced.Problems)
	}
	for code, g := range cases {
		addProblems(&g)
		if code == "" && g.Problems == nil {
			continue
		}
		if len(g.Problems) != 1 || g.Problems[0].Code != code || g.Problems[0].About != "vm1" || g.Problems[0].Remedy == "" {
			t.Errorf("%s: %+v", code, g.Problems)
		}
	}
	for _, p := range guestProblems {
		if _, ok := cases[p.code]; !ok {
			t.Errorf("%s has no case", p.code)
		}
	}
}

type anyPolicy struct{ opening.Policy }

// The status names the guest with most refusals; each guest has its own counts.
func TestRefused(t *testing.T) {
	var ledger refusals.Ledger
	b := bridgeStatus{State: &bridge.State{Name: "br-int", Refusals: &ledger, Session: &bridge.SessionState{}}}
	if got := b.limitWarning(); got != nil {
		t.Errorf("%+v", got)
	}
	red, blue := refusals.Guest{Port: "vm1", Switch: "red"}, refusals.Guest{Port: "vm1", Switch: "blue"}
	ledger.Add(red, refusals.Rate, 7)
	ledger.Add(red, refusals.Overload, 1)
	ledger.Add(blue, refusals.Connections, 2)
	for g, want := range map[refusals.Guest]string{red: "1 by overload, 7 by rate", blue: "2 by tcp_connections", {Port: "vm2"}: ""} {
		if got := refusedText(b.refused(g)); got != want {
			t.Errorf("%v: %q, want %q", g, got, want)
		}
	}
	const want = `limits have refused queries of 2 guests within the last minute, most of port "vm1" of switch "red": 1 by overload, 7 by rate`
	if got := b.limitWarning(); !slices.EqualFunc(got, []string{want}, func(p api.Problem, text string) bool {
		return p.Code == api.CodeOverLimit && p.About == "br-int" && p.Text == text
	}) {
		t.Errorf("%+v", got)
	}
	b.Session.List = &guests.List{Served: []guests.Served{{}, {Guest: placement.Guest{Egress: anyPolicy{}}}}}
	if got := b.openWarning(nil); got != nil {
		t.Errorf("unknown ACLs: %+v", got)
	}
	if got := b.openWarning(placement.ClosedByACL{}); len(got) != 1 || got[0].Code != api.CodeEgressOpen || !strings.HasSuffix(got[0].Text, ": 1") {
		t.Errorf("a guest with a policy and without ACLs: %+v", got)
	}
	if got := b.openWarning(placement.ClosedByACL{placement.Key{}: {IPv4: true, IPv6: true}}); got != nil {
		t.Errorf("a closed guest: %+v", got)
	}
	if got := b.persistentWarning(2); len(got) != 1 || got[0].Code != api.CodeEgressPersistent || !strings.HasPrefix(got[0].Text, "2 ACLs ") {
		t.Errorf("a guest with a policy and ACLs with persist-established: %+v", got)
	}
	if got := b.persistentWarning(0); got != nil {
		t.Errorf("no ACL with persist-established: %+v", got)
	}
	b.Session.List.Served = b.Session.List.Served[:1]
	if got := b.persistentWarning(2); got != nil {
		t.Errorf("no guest with a policy: %+v", got)
	}
	b.Session = nil
	if got := b.limitWarning(); got != nil {
		t.Errorf("without a session: %+v", got)
	}
}
