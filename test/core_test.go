// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// coreScript runs core.sh beside a list of its own, or beside core.txt without one.
func coreScript(t *testing.T, list string, args ...string) (stdout string, err error) {
	t.Helper()
	script, err := os.ReadFile("core.sh")
	if err != nil {
		t.Fatal(err)
	}
	if list == "" {
		b, err := os.ReadFile("core.txt")
		if err != nil {
			t.Fatal(err)
		}
		list = string(b)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"core.sh": string(script), "core.txt": list} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", append([]string{filepath.Join(dir, "core.sh")}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return stderr.String(), err
	}
	return string(out), nil
}

// The list of the tests that run on each release is read in full, and is right.
func TestCoreFlags(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho TestA; echo TestB; echo TestC; echo TestD; echo ok\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const list = "# a comment\n\nnot TestA has a reason\nnot-newest TestB has one too\nshort TestC\nshort-netdev TestB\nshort-system TestA\ncore-system TestD\n"
	for _, tc := range []struct{ name, list, form, traits, want string }{
		{"core", list, "core", "netdev", "-test.skip=^(TestA)$\n"},
		{"core on the kernel's datapath", list, "core", "system", "-test.run=^(TestD|TestC)$\n"},
		{"core on the newest release", list, "core", "netdev newest", "-test.skip=^(TestA|TestB)$\n"},
		{"short", list, "short", "netdev", "-test.run=^(TestB|TestC)$\n"},
		{"core on an older release", list + "not-older TestC is of a later one\n", "core", "netdev older", "-test.skip=^(TestA|TestC)$\n"},
		{"short on the newest release alone", list + "short-newest TestD\n", "short", "netdev newest", "-test.run=^(TestD|TestC)$\n"},
		{"short on the newest release", list, "short", "netdev newest", "-test.run=^(TestC)$\n"},
		{"short on the kernel's datapath", list, "short", "system", "-test.run=^(TestC)$\n"},
		{"tests of the release", list + "release TestD takes long\n", "core", "netdev", "-test.skip=^(TestA|TestD)$\n"},
		{"unknown test", list + "short TestE\n", "core", "netdev", "no test is called TestE"},
		{"unknown word", list + "maybe TestC\n", "core", "netdev", "maybe: expected release, not,"},
		{"no reason", list + "not TestC\n", "core", "netdev", "TestC is left out without a reason"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := coreScript(t, tc.list, "flags", tc.form, tc.traits, binary)
			if wrong := !strings.HasPrefix(tc.want, "-test"); (err != nil) != wrong || !strings.Contains(got, tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(prebuilt, puntdns)
	for _, form := range []string{"core", "short"} {
		for _, traits := range []string{lab.Userspace, lab.Userspace + " newest", lab.Userspace + " older", lab.Kernel} {
			if got, err := coreScript(t, "", "flags", form, traits, self); err != nil || !strings.HasPrefix(got, "-test.") {
				t.Errorf("core.txt, %s on %s: %q, %v", form, traits, got, err)
			}
		}
	}
}

// What failed is shown, with what it has said, and nothing else is.
func TestCoreReport(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, log, want string }{
		{
			"beside each other",
			"=== RUN   TestA\n=== PAUSE TestA\n=== RUN   TestB\n=== PAUSE TestB\n=== CONT  TestA\n    a_test.go:1: of A\n" +
				"=== CONT  TestB\n    b_test.go:1: of B\n=== NAME  TestA\n    a_test.go:2: more of A\n--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\nFAIL\n",
			"    a_test.go:1: of A\n    a_test.go:2: more of A\n--- FAIL: TestA (0.00s)\n1 1 0\n",
		},
		{
			"a part fails",
			"=== RUN   TestA\n=== RUN   TestA/one\n    a_test.go:1: of one\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\nFAIL\n",
			"    a_test.go:1: of one\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n0 1 0\n",
		},
		{"all right", "=== RUN   TestA\n    a_test.go:1: of A\n--- PASS: TestA (0.00s)\nPASS\n", "1 0 0\n"},
		{
			"skipped", "=== RUN   TestA\n    a_test.go:1: why\n--- SKIP: TestA (0.00s)\n=== RUN   TestB\n--- PASS: TestB (0.00s)\nPASS\n",
			"    a_test.go:1: why\n--- SKIP: TestA (0.00s)\n1 0 1\n",
		},
		{"no tests", "cannot run\n", "cannot run\n0 0 0\n"},
		{
			"a panic", "=== RUN   TestA\npanic: oh\n\ngoroutine 1 [running]:\n",
			"panic: oh\n\ngoroutine 1 [running]:\n0 0 0\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(tc.log), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := coreScript(t, "", "report", file); err != nil || got != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// The tests that run once more are those that a crash of Open vSwitch has failed, if nothing else has.
func TestCoreCrashed(t *testing.T) {
	t.Parallel()
	const crash = "        assertion failed in conn_update_state()\n"
	for _, tc := range []struct{ name, log, want string }{
		{"beside a test that passes", "=== RUN   TestA\n=== RUN   TestB\n=== NAME  TestA\n" + crash + "--- FAIL: TestA (0.00s)\n=== NAME  TestB\n--- PASS: TestB (0.00s)\nFAIL\n", "TestA\n"},
		{"in a part", "=== RUN   TestA\n=== RUN   TestA/one\n" + crash + "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\nFAIL\n", "TestA\n"},
		{"beside a failure", "=== RUN   TestA\n" + crash + "--- FAIL: TestA (0.00s)\n=== RUN   TestB\n--- FAIL: TestB (0.00s)\nFAIL\n", ""},
		{"a part beside a failure", "=== RUN   TestA\n=== RUN   TestA/one\n" + crash + "=== RUN   TestA/two\n    a_test.go:1: wrong\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n    --- FAIL: TestA/two (0.00s)\nFAIL\n", ""},
		{"under all parts", "=== RUN   TestA\n=== RUN   TestA/one\n=== NAME  TestA\n" + crash + "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\nFAIL\n", "TestA\n"},
		{"without -v", "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n" + crash + "    --- FAIL: TestA/two (0.00s)\n        a_test.go:1: wrong\nFAIL\n", ""},
		{"without -v, in a part", "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n" + crash + "FAIL\n", "TestA\n"},
		{"without -v, behind all parts", "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n        a_test.go:1: wrong\n    --- FAIL: TestA/two (0.00s)\n        a_test.go:2: wrong\n    lab.go:1: end of a log:\n" + crash + "FAIL\n", "TestA\n"},
		{"a panic", "=== RUN   TestA\n" + crash + "--- FAIL: TestA (0.00s)\npanic: oh\n", ""},
		{"a race", "=== RUN   TestA\n" + crash + "WARNING: DATA RACE\n--- FAIL: TestA (0.00s)\nFAIL\n", ""},
		{"of a test that passes", "=== RUN   TestA\n" + crash + "=== RUN   TestB\n--- FAIL: TestB (0.00s)\n--- PASS: TestA (0.00s)\nFAIL\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(tc.log), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := coreScript(t, "", "crashed", file); err != nil || got != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
