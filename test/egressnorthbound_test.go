// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
)

// A value in the Northbound database is a policy of the guests of a port group, and takes effect while puntdns runs.
func TestEgressNorthbound(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	text := n.corefileOf("northbound $NB", "northbound on")
	s := serve(t, n.Lab, text)
	const web, other = "192.0.2.1:443", "192.0.2.2:443"
	reaches := func(name, to string, want bool) error {
		t.Helper()
		if _, err := n.resolve(n.vm, name, dns.TypeA); err != nil {
			return err
		}
		if open := isOpen(t, n.vm, to); open != want {
			return fmt.Errorf("%s is open: %v, want %v", name, open, want)
		}
		return nil
	}
	if err := reaches("n1.example.", web, false); err != nil {
		t.Error("without a policy:", err)
	}
	// The second entry has bits behind its prefix.
	n.NBCTL("set", "Port_Group", "closed", `external_ids:dns-egress="n1.example:443/tcp 192.0.2.9/24"`)
	await := func(what, name, to string, want bool) {
		t.Helper()
		// An answer between the change and its arrival in the switch is SERVFAIL.
		n.Eventually(what, func() error { return reaches(name, to, want) })
	}
	await("the group has a value", "n1.example.", web, true)
	s.reaches(1, "coredns_ovnhosts_bad_values_total")
	if err := reaches("n2.example.", other, false); err != nil {
		t.Error("a name without an entry:", err)
	}
	c, _, err := connect(within(t, wait), n.vm, web)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.reload(text + "\n# changed")
	if !echoes(c, wait) {
		t.Error("a reload cuts the connection")
	}
	n.NBCTL("set", "Logical_Switch", "red", "external_ids:dns-egress=n2.example")
	await("the switch has a value", "n2.example.", other, true)
	var all api.EgressPolicies
	s.operator().ask(&all, "egress", "policies")
	want := "Logical_Switch red [red-peer red-vm] [n2.example.], Port_Group closed [red-peer red-vm] [n1.example.:443/tcp]"
	var rows []string
	for _, p := range all.Policies {
		rows = append(rows, fmt.Sprint(p.At, " ", p.Guests, " ", p.Allow))
	}
	if got := strings.Join(rows, ", "); got != want {
		t.Errorf("puntctl egress policies: %s, want %s", got, want)
	}
	n.NBCTL("remove", "Port_Group", "closed", "external_ids", "dns-egress")
	await("the group has no value", "n1.example.", web, false)
	if echoes(c, closedFor) {
		t.Error("the connection goes on")
	}
	n.NBCTL("set", "Logical_Switch_Port", "red-vm", "external_ids:dns-egress=n1.example")
	await("the port has a value", "n1.example.", web, true)
	n.NBCTL("remove", "Logical_Switch_Port", "red-vm", "external_ids", "dns-egress")
	await("the port has no value", "n1.example.", web, false)
	if !isOpen(t, n.vm, other) {
		t.Error("the name of the switch is closed")
	}
	s.endWell()
}
