// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// statusWith is the status of a process with these resolver addresses on each bridge.
func statusWith(bridges ...string) *api.Status {
	s := wellStatus()
	first := s.Bridges[0]
	s.Bridges = nil
	for _, addresses := range bridges {
		b := first
		b.Addresses = strings.Fields(addresses)
		s.Bridges = append(s.Bridges, b)
	}
	return s
}

func TestEgressInit(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.sock")
	said := ""
	for _, tt := range []struct {
		name, args string
		status     *api.Status // of the process, nil for no process
		want       int
	}{
		{"default", "sandboxes", nil, exitWell},
		{"all options", ".Pg_1 --resolver 10.0.0.2:5353 --resolver fd00::2 --resolver [fd00::2]:53 --bit 7 --reject --metadata --log notice", nil, exitWell},
		{"existing group", "sandboxes --existing --resolver 10.0.0.2 --log info", nil, exitWell},
		{"addresses of bridges", "sandboxes", statusWith("10.0.0.3:53 [fd00::254]:53", "10.0.0.3:53"), exitWell},
		{"addresses of guests", "sandboxes", statusWith("169.254.169.254:53", "gateway 169.254.169.254:53"), exitUsage},
		{"any address", "sandboxes", statusWith("any"), exitUsage},
		{"no bridge", "sandboxes", statusWith(), exitUsage},
		{"named address", "sandboxes --resolver 10.0.0.2", statusWith("any"), exitWell},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := none
			if tt.status != nil {
				socket = process(t, map[string]any{api.PathStatus: tt.status})
			}
			var out, errs bytes.Buffer
			args := append([]string{"--socket", socket, "egress", "init"}, strings.Fields(tt.args)...)
			if status := Run("1.2.3", args, &out, &errs); status != tt.want || (out.Len() > 0) != (status == exitWell) {
				t.Errorf("exit status %d, want %d: %s", status, tt.want, &out)
			}
			said += strings.TrimSpace("# "+tt.name+"\n"+strings.ReplaceAll(errs.String(), socket, "SOCKET")+out.String()) + "\n\n"
		})
	}
	golden.File(t, "testdata/egress-init.txt", said)
}

func TestEgressList(t *testing.T) {
	idle, left := 61.5, 298.5
	all := &api.Egress{Errors: []string{"bridge br-ex: there is no connection to the switch"}, Openings: []api.Opening{
		{Bridge: "br-int", Port: "vm1", Switch: "red", Address: "192.0.2.1", Names: []string{"pypi.org.", "files.pythonhosted.org."}, Packets: 7, OpenedSecondsAgo: 400, LastPacketSecondsAgo: &idle, ClosesInSeconds: &left},
		{Bridge: "br-int", Port: "vm2", Switch: "red", Address: "192.0.2.1", Protocol: "tcp", TransportPort: 443, Names: []string{"pypi.org."}, OpenedSecondsAgo: 1},
		{Bridge: "br-int", Port: "vm2", Switch: "red", Address: "2001:db8::1", Protocol: "udp", TransportPort: 443, Names: []string{"pypi.org."}, OpenedSecondsAgo: 1, ClosesInSeconds: &left},
	}}
	guests := &api.Guests{Guests: []api.Guest{{Bridge: "br-int", Port: "vm1", Switch: "red", Interface: "tap1"}, {Bridge: "br-int", Port: "vm2", Switch: "red", Interface: "tap2"}, {Bridge: "br-int", Port: "vm3", Switch: "blue", Interface: "tap3"}}}
	socket := process(t, map[string]any{api.PathEgress: all, api.PathGuests: guests})
	said := ""
	for _, args := range []string{"", "tap1", "vm3", "red", "nosuch", "-o wide"} {
		var out, errs bytes.Buffer
		want := exitWell
		if args == "nosuch" {
			want = exitUnwell
		}
		if status := Run("1.2.3", append([]string{"--socket", socket, "egress", "list"}, strings.Fields(args)...), &out, &errs); status != want {
			t.Errorf("%q: exit status %d: %s", args, status, &errs)
		}
		said += "# " + args + "\n" + out.String() + errs.String() + "\n"
	}
	golden.File(t, "testdata/egress-list.txt", said)
}

func TestEgressLearn(t *testing.T) {
	socket := process(t, map[string]any{api.PathEgressLearn: &api.LearnedPolicies{Policies: []api.LearnedPolicy{
		{Policy: "ofpunt/group sandboxes", At: "Corefile:12", Allow: []string{"pypi.org."}, Names: []api.LearnedName{{Name: "api.github.com.", Queries: 7}, {Name: "files.pythonhosted.org.", Queries: 1}}, More: true},
		{Policy: "ofpunt/port vm1", At: "Corefile:15", Allow: []string{"deb.debian.org.", "192.0.2.0/24"}},
	}}})
	said := ""
	for args, want := range map[string]int{"": exitWell, "vm1": exitWell, "vm": exitUnwell} {
		var out, errs bytes.Buffer
		if status := Run("1.2.3", append([]string{"--socket", socket, "egress", "learn"}, strings.Fields(args)...), &out, &errs); status != want {
			t.Errorf("%q: exit status %d: %s", args, status, &errs)
		}
		if args == "" {
			said = out.String()
		} else if want == exitWell && (strings.Contains(out.String(), "sandboxes") || !strings.Contains(said+out.String(), "policy ofpunt/port vm1 {")) {
			t.Errorf("%q: %s", args, &out)
		}
	}
	golden.File(t, "testdata/egress-learn.txt", said)
}

func TestEgressPolicies(t *testing.T) {
	said := ""
	for _, all := range []*api.EgressPolicies{
		{Policies: []api.EgressPolicy{
			{Bridge: "br-int", Policy: "ofpunt/group sandboxes", At: "/etc/puntdns/Corefile:12", Mode: api.ModeEnforce, Allow: []string{"pypi.org.", "192.0.2.0/24"}, Guests: []string{"vm1", "vm2"}},
			{Bridge: "br-int", Policy: "ofpunt/port vm9", At: "/etc/puntdns/Corefile:15", Mode: api.ModeStrictNames, Allow: []string{"deb.debian.org."}, Guests: []string{}},
			{Bridge: "br-int", Policy: "external_ids:dns-egress", At: "Port_Group web", Mode: api.ModeEnforce, Allow: []string{"*.com."}, Guests: []string{"vm1"}, Warnings: []string{"*.com. allows names that anybody can register"}},
		}},
		{Policies: []api.EgressPolicy{}},
	} {
		socket := process(t, map[string]any{api.PathEgressPolicies: all})
		for _, format := range []string{"table", "wide", "json"} {
			var out, errs bytes.Buffer
			if status := Run("1.2.3", []string{"--socket", socket, "egress", "policies", "-o", format}, &out, &errs); status != exitWell {
				t.Errorf("exit status %d: %s", status, &errs)
			}
			said += "# " + format + "\n" + out.String() + "\n"
		}
	}
	golden.File(t, "testdata/egress-policies.txt", said)
}
