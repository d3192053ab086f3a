// SPDX-License-Identifier: Apache-2.0

// Package deploy has no code, only what puntdns is run by.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// need finds a program.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		lab.Lack(t, "a program is missing: %v", err)
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
	path := filepath.Join(filepath.Dir(unit), "puntdns-sockets.path")
	for _, file := range []string{path, strings.TrimSuffix(path, ".path") + ".service"} {
		text, err := os.ReadFile(filepath.Base(file))
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name  string
		args  []string
		quiet bool
	}{
		{"verify", []string{"verify", "--man=no", unit, path}, true},
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

// TestUnitPrivileges reads what systemd-analyze only weighs: a service of root's would
// still score well.
func TestUnitPrivileges(t *testing.T) {
	text, err := os.ReadFile("puntdns.service")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			set[name] = append(set[name], value)
		}
	}
	for name, want := range map[string][]string{
		"User":                    {"puntdns"},
		"Group":                   {"puntdns"},
		"DynamicUser":             nil,
		"SupplementaryGroups":     nil,
		"CapabilityBoundingSet":   {""},
		"AmbientCapabilities":     nil,
		"NoNewPrivileges":         {"yes"},
		"PermissionsStartOnly":    nil,
		"Wants":                   {"puntdns-sockets.path"},
		"ExecStartPre":            {"+/usr/bin/systemd-tmpfiles --create puntdns.conf"},
		"ProtectSystem":           {"strict"},
		"ProtectHome":             {"yes"},
		"ReadWritePaths":          nil,
		"RestrictAddressFamilies": {"AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
		"RestrictNamespaces":      {"yes"},
		"MemoryDenyWriteExecute":  {"yes"},
		"SystemCallFilter":        {"@system-service", "~@privileged @resources", "sched_setattr"},
		"Restart":                 {"always"},
		"NotifyAccess":            {"main"},
		"AssertPathExists":        {"/etc/puntdns/Corefile"},
		"Nice":                    {"-10"},
	} {
		if !slices.Equal(set[name], want) {
			t.Errorf("%s=%q, want %q", name, set[name], want)
		}
	}
}

// TestUser has systemd make the user of the unit, in a folder that stands for /.
func TestUser(t *testing.T) {
	sysusers := need(t, "systemd-sysusers")
	rules, err := filepath.Abs("puntdns.sysusers")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sysusers, "--root="+root, rules).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for file, fields := range map[string]int{"passwd": 7, "group": 4} {
		b, err := os.ReadFile(filepath.Join(root, "etc", file))
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Split(strings.TrimSpace(string(b)), ":")
		if len(f) != fields || f[0] != "puntdns" || f[2] == "0" {
			t.Errorf("%s: %s", file, b)
		}
	}
}
