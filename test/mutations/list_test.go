// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Each mutation has its text once in its file, and names tests and scripts that there are.
func TestList(t *testing.T) {
	t.Chdir("../..")
	r := &runner{folder: t.TempDir()}
	parts := regexp.MustCompile(`\^(\w+)\$`)
	for _, m := range list {
		if _, err := r.mutate(&m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if m.caught == "" && m.survives == "" {
			t.Errorf("%s: nothing catches it, and no reason says why", m.name)
		}
		pkg, name, _ := strings.Cut(m.caught, " ")
		names := map[string]string{name: pkg}
		system := parts.FindAllStringSubmatch(m.system, -1)
		for i, part := range system {
			if i == 0 || !strings.Contains(m.system, "/") {
				names[part[1]] = "test"
			} else if _, err := os.Stat(path.Join("test/script", part[1]+".txtar")); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
		if m.system != "" && len(system) == 0 {
			t.Errorf("%s: system %q: expected ^NAME$, joined by | or /", m.name, m.system)
		}
		for name, pkg := range names {
			if name != "" && !hasTest(t, pkg, name) {
				t.Errorf("%s: no test %s in %s", m.name, name, pkg)
			}
		}
	}
}

// hasTest reports whether a file of a package has a test function.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := os.ReadDir(pkg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(path.Join(pkg, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}
