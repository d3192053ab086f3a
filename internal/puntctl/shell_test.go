// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
)

// No command to paste has a word that a tenant has written and a shell would interpret.
func TestCommandsOfTenants(t *testing.T) {
	const word = "x';touch$IFS/tmp/y;'"
	d := &diagnosis{}
	d.guests(&api.Status{}, &api.Guests{
		Guests: []api.Guest{{
			Port: word, Resolvers: []string{"169.254.169.254:53"},
			DHCP: &api.DHCP{Row: "0b3c4d5e-0000-4000-8000-000000000001", DNSServer: "169.254.169.254", Routes: "{" + word + ",10.0.0.1}"},
		}},
		Unserved: []api.Unserved{{Interface: word, Port: word, Reason: "none"}},
	}, false)
	q := &query{guest: &api.Guest{Bridge: "br-int", Network: word, Port: word, PortKey: 1, MACs: []string{"02:00:00:00:00:01"}}, mac: "02:00:00:00:00:01"}
	lines := q.lines() // of an invalid address, which is no matter here
	for _, f := range d.Findings {
		lines = append(lines, f.Commands...)
	}
	if len(lines) < 4 {
		t.Fatalf("there are only %q", lines)
	}
	for _, line := range lines {
		// The words, as a shell reads them: the commands themselves are not run.
		out, err := exec.Command("sh", "-c", "set -f; for word in "+line+"; do printf '%s\\n' \"$word\"; done").Output()
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		for word := range strings.Lines(string(out)) {
			if strings.HasPrefix(word, "touch") {
				t.Errorf("%s: the shell reads %q", line, word)
			}
		}
		if strings.Contains(line, "touch") && !strings.Contains(string(out), "touch$IFS") {
			t.Errorf("%s: the shell reads %q", line, out)
		}
	}
}
