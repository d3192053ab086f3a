// SPDX-License-Identifier: Apache-2.0

// Package deploy has no code, only what puntdns is run by.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// need finds a program of systemd.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		lab.Lack(t, "no systemd here: %v", err)
	}
	return path
}

// TestUnit lets systemd judge the unit: each line understood, and the exposure
// of a service that may do little more than talk to sockets.
func TestUnit(t *testing.T) {
	analyze := need(t, "systemd-analyze")
	text, err := os.ReadFile("puntdns.service")
	if err != nil {
		t.Fatal(err)
	}
	// The binary need not be installed for this.
	const binary = "/usr/local/bin/puntdns "
	if !strings.Contains(string(text), binary) {
		t.Fatalf("the unit does not start %s", binary)
	}
	unit := filepath.Join(t.TempDir(), "puntdns.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), binary, "/bin/true ")), 0o644); err != nil {
		t.Fatal(err)
	}
	// The drop-in is no unit by itself; any service will do to verify it.
	dropIn, err := os.ReadFile("puntdns-sockets.conf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(unit+".d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unit+".d", "sockets.conf"), dropIn, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		args  []string
		quiet bool
	}{
		{"verify", []string{"verify", "--man=no", unit}, true},
		// In tenths: PrivateNetwork= and a few others cannot be had.
		{"security", []string{"security", "--offline=true", "--threshold=20", unit}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := exec.Command(analyze, tc.args...).CombinedOutput()
			if err != nil || tc.quiet && len(out) > 0 {
				t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(tc.args, " "), err, out)
			}
		})
	}
}
