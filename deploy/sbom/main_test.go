// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestDescribe describes this test's own program, and a file that is none.
func TestDescribe(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	d, err := describe("1.2.3", at, []string{program, file})
	if err != nil {
		t.Fatal(err)
	}
	if d.Format != "CycloneDX" || d.Spec != "1.6" || d.Version != 1 || d.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("the head of the document: %+v", d)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(d.Serial) {
		t.Errorf("the serial number: %s", d.Serial)
	}
	byName := map[string]component{}
	refs := map[string]bool{d.Metadata.Component.Ref: true}
	for _, c := range d.Components {
		byName[c.Name] = c
		if refs[c.Ref] {
			t.Errorf("two components are %s", c.Ref)
		}
		refs[c.Ref] = true
	}
	if c := byName[filepath.Base(program)]; c.Type != "application" || c.Version != "1.2.3" || len(c.Hashes) != 1 {
		t.Errorf("the program: %+v", c)
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if c := byName["roots.pem"]; c.Type != "file" || c.Version != "" || !reflect.DeepEqual(c.Hashes, []hash{{"SHA-256", empty}}) {
		t.Errorf("the file: %+v", c)
	}
	version := strings.TrimPrefix(strings.Fields(runtime.Version())[0], "go")
	if c := byName["std"]; c.PURL != "pkg:golang/std@"+version {
		t.Errorf("Go: %+v, want version %s", c, version)
	}
	for _, dep := range d.Dependencies {
		for _, ref := range append(dep.DependsOn, dep.Ref) {
			if !refs[ref] {
				t.Errorf("%s needs %s, which is no component", dep.Ref, ref)
			}
		}
	}

	again, err := describe("1.2.3", at, []string{program, file})
	if err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(d)     // it has strings only
	two, _ := json.Marshal(again) // as above
	if string(one) != string(two) {
		t.Error("the same files gave another document")
	}
	if err := os.WriteFile(file, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if other, err := describe("1.2.3", at, []string{program, file}); err != nil || other.Serial == d.Serial {
		t.Errorf("another file: %v, and the same serial number", err)
	}
}
