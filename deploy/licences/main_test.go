// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/deploy/linked"
)

// TestRun writes the licences of a program.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "puntctl")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/puntctl")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := run(dir, []string{program}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, want := range map[string]struct{ has, lacks []string }{
		"SPDX": {has: []string{"Apache-2.0 AND BSD-3-Clause AND MIT\n"}},
		"THIRD-PARTY-LICENSES": {
			has: []string{
				"\ngo.yaml.in/yaml/v3 v3.", ": NOTICE\n", "\nstd 1.",
				"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", "Copyright (c) 2012 Alex Ogier. All rights reserved.",
			},
			lacks: []string{"github.com/puntdns/puntdns", "common-licenses"},
		},
		"THIRD-PARTY-LICENSES.debian": {
			has:   []string{"\ngo.yaml.in/yaml/v3 v3.", "/usr/share/common-licenses/Apache-2.0.", "Copyright (c) 2012 Alex Ogier. All rights reserved."},
			lacks: []string{"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"},
		},
	} {
		text := read(name)
		for _, part := range want.has {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
		for _, part := range want.lacks {
			if strings.Contains(text, part) {
				t.Errorf("%s has %q", name, part)
			}
		}
	}
	before := read("THIRD-PARTY-LICENSES")
	if err := run(dir, []string{program, program}); err != nil || read("THIRD-PARTY-LICENSES") != before {
		t.Errorf("the same once more: %v, or another text", err)
	}
	if err := run(dir, []string{"main.go"}); err == nil {
		t.Error("a file that is no program is taken")
	}
}

// TestWrite has each text once, and what is before and behind the Apache License in it.
func TestWrite(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.Replace(string(apache), "Copyright [yyyy] [name of copyright owner]", "Copyright 2017 Somebody", 1)
	text := "before\n" + filled + "behind\n"
	span := linked.Span{Licence: "Apache-2.0", Start: len("before\n"), End: len(text) - len("behind\n")}
	modules := []*linked.Module{
		{Path: "own", Texts: []linked.Text{{Name: "LICENSE", Content: "own"}}},
		{Path: "a", Version: "v1", Texts: []linked.Text{{Name: "LICENSE", Content: strings.TrimSpace(text), Licences: []string{"Apache-2.0"}, Spans: []linked.Span{span}}}},
		{Path: "b", Version: "v2", Texts: []linked.Text{{Name: "LICENSE", Content: strings.TrimSpace(text), Licences: []string{"Apache-2.0"}, Spans: []linked.Span{span}}, {Name: "NOTICE", Content: "notice"}}},
	}
	const list = head + "a v1  Apache-2.0\nb v2  Apache-2.0\n\n" + rule + "a v1: LICENSE\nb v2: LICENSE\n" + rule + "\n"
	const rest = "\n\n" + rule + "b v2: NOTICE\n" + rule + "\nnotice\n"
	if got, want := write(modules, verbatim), list+strings.TrimSpace(text)+rest; got != want {
		t.Errorf("verbatim:\n%s\nwant\n%s", got, want)
	}
	reference := "before\nCopyright 2017 Somebody\nApache License, Version 2.0: on Debian systems see /usr/share/common-licenses/Apache-2.0.\nbehind"
	if got, want := write(modules, forDebian), list+reference+rest; got != want {
		t.Errorf("for Debian:\n%s\nwant\n%s", got, want)
	}
}
