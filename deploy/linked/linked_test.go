// SPDX-License-Identifier: Apache-2.0

package linked

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// build builds a program of this project.
func build(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "./cmd/"+name)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// TestRead reads the program that is shipped. A person has to read each licence that is added to the list
// below.
func TestRead(t *testing.T) {
	file := build(t, "puntdns")
	modules, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Expression(modules), "Apache-2.0 AND BSD-3-Clause AND CC0-1.0 AND ISC AND MIT AND MPL-2.0"; got != want {
		t.Errorf("the licences are %s, want %s", got, want)
	}
	if m := modules[0]; m.Path != "github.com/puntdns/puntdns" || m.Version != "" || !slices.Contains(m.Needs, "github.com/coredns/coredns") {
		t.Errorf("the program's own module: %+v", m)
	}
	byPath := map[string]*Module{}
	for _, m := range modules {
		byPath[m.Path] = m
	}
	names := func(path string) (all []string) {
		m := byPath[path]
		if m == nil {
			t.Fatalf("%s is not among them", path)
		}
		for _, text := range m.Texts {
			all = append(all, text.Name)
		}
		return all
	}
	for path, want := range map[string][]string{
		// A notice beside the licence.
		"github.com/coreos/go-systemd/v22": {"LICENSE", "NOTICE"},
		// A package within the module with another licence than the module.
		"github.com/prometheus/client_golang": {"LICENSE", "NOTICE", "internal/github.com/golang/gddo/LICENSE"},
	} {
		if got := names(path); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	std := byPath[Std]
	if std.Version != strings.TrimPrefix(goVersion(runtime.Version()), "go") {
		t.Errorf("Go is %s", std)
	}
	if got := names(Std); got[0] != "LICENSE" || !slices.Contains(got, "src/vendor/golang.org/x/net/LICENSE") {
		t.Errorf("Go has %q", got)
	}
	again, err := Read(file)
	if err != nil || !reflect.DeepEqual(modules, again) {
		t.Errorf("the second time it is something else: %v", err)
	}
}

// TestReadNoProgram reads what the linker has not written.
func TestReadNoProgram(t *testing.T) {
	if _, err := Read("linked.go"); !errors.Is(err, ErrNoProgram) {
		t.Errorf("%v, want ErrNoProgram", err)
	}
}

// TestCompare compares the linked packages with the source on this machine.
func TestCompare(t *testing.T) {
	modules := []*Module{{Path: "own"}, {Path: "a", Version: "v1"}, {Path: Std, Version: "1.2.3"}}
	source := func(versions ...string) map[string]*pkg {
		all := map[string]*pkg{"fmt": {Standard: true}}
		for _, v := range append(versions, "own ") {
			p := &pkg{}
			path, version, _ := strings.Cut(v, " ")
			p.Module = &struct {
				Path, Version, Dir string
				Main               bool
				Replace            *struct{ Path, Version string }
			}{Path: path, Version: version}
			all[path] = p
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		source map[string]*pkg
		want   string
	}{
		{"the same", source("a v1"), ""},
		{"another version", source("a v2"), "a v1 is linked, and go list names v2"},
		{"one less", source(), "a v1 is linked, and go list does not name it"},
		{"one more", source("a v1", "b v1"), "go list names b, which is not linked"},
	} {
		err := compare(modules, tt.source)
		if (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
