// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Only tests that lost their switch to its own crash are run once more.
func TestSuiteRunsAgain(t *testing.T) {
	t.Parallel()
	const (
		crash = "    lab.go:237: end of ovs-vswitchd.out.log:\n        assertion failed in conn_update_state()\n"
		again = " -run ^(TestA)$"
	)
	for _, tt := range []struct {
		name   string
		output string // of the first run, which fails if there is any
		second string // how the second run ends: true or false
		want   string // the flags of the second run, empty for none
		passes bool
	}{
		{"all pass", "", "", "", true},
		{"a crash", "--- FAIL: TestA (1.00s)\n" + crash + "FAIL\n", "true", again, true},
		{"a crash twice", "--- FAIL: TestA (1.00s)\n" + crash + "FAIL\n", "false", again, false},
		{"a failure", "--- FAIL: TestA (1.00s)\n    a_test.go:1: wrong\nFAIL\n", "true", "", false},
		{"a crash beside a failure", "--- FAIL: TestA (1.00s)\n" + crash + "--- FAIL: TestB (1.00s)\n    a_test.go:1: wrong\nFAIL\n", "true", "", false},
		{"a crash and a race", "--- FAIL: TestA (1.00s)\n" + crash + "WARNING: DATA RACE\nFAIL\n", "true", "", false},
		{"no test", "# package does not build\nFAIL\n", "true", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// It stands for go, and notes what it is called with.
			script := "#!/bin/sh\necho \"$*\" >>" + dir + "/calls\n" +
				"[ $(wc -l <" + dir + "/calls) -eq 1 ] || exec " + tt.second + "\n" +
				"cat " + dir + "/output\n[ ! -s " + dir + "/output ]\n"
			for file, text := range map[string]string{"go": script, "output": tt.output} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.Command("./suite.sh", filepath.Join(dir, "go"), "-race").CombinedOutput()
			if (err == nil) != tt.passes {
				t.Errorf("it ends with %v, want that it passes: %v\n%s", err, tt.passes, out)
			}
			const release = "TestImage|TestSoak|TestEgressSoak|TestDistribution|TestStockCoreDNS|TestEgressJVM|TestNeighbourFloods|TestNeighbourAsksTheDead|TestReloadBesideFlood|TestReloadByFileUnderLoad|TestAlerts"
			want := "test -skip ^(" + release + "|TestUpgradeToNextRelease|TestNetworkFunction|TestEgressPersistent)$ -race ./test\n"
			if tt.want != "" {
				want += "test -race" + tt.want + " ./test\n"
			}
			if got := readFile(t, filepath.Join(dir, "calls")); got != want {
				t.Errorf("calls:\n%s\nwant:\n%s", got, want)
			}
			if !strings.Contains(string(out), tt.output) {
				t.Errorf("output %q, want the first run's in it", out)
			}
		})
	}
}
