// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEntry reads the newest section of a changelog.
func TestEntry(t *testing.T) {
	const changelog = "# Changelog\nWords.\n\n## 1.1.0 - 2026-12-01\nMore.\n\n### Fixed\n- one\n\n## 1.0.0 - 2026-11-25\nThe first.\n"
	e, err := entryOf(changelog, "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if want := (entry{"1.1.0", "2026-12-01", "More.\n\n### Fixed\n- one", "1.0.0"}); *e != want {
		t.Errorf("got %+v, want %+v", *e, want)
	}
	_, first, _ := strings.Cut(changelog, "- one\n\n")
	if e, err = entryOf(first, "1.0.0"); err != nil || e.previous != "" || e.text != "The first." {
		t.Errorf("the first release: %+v, %v", e, err)
	}
	for _, version := range []string{"1.0.0", "1.1", "2.0.0"} {
		if e, err := entryOf(changelog, version); err == nil {
			t.Errorf("%s is taken: %+v", version, e)
		}
	}
}

// TestVersion wants the file VERSION to be the newest section of the changelog.
func TestVersion(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if _, err := entryOf(read("CHANGELOG.md"), strings.TrimSpace(read("VERSION"))); err != nil {
		t.Error(err)
	}
}

// TestNotes looks for what a user checks.
func TestNotes(t *testing.T) {
	f := &facts{
		image: "registry.example:5000/puntdns:1.1.0", digest: "sha256:0123", commit: "abcd", golang: "go1.2.3",
		tested: "# Tested with\nWords:\n\n| command | OVN |\n|---|---|\n| `make test` | 23.03.1 |\n\n[not this](x)\n", commits: []string{"Add b", "Add a"},
		files: []string{"LICENSE", "THIRD-PARTY-LICENSES", "puntdns-1.1.0-1.x86_64.rpm", "puntdns-image_1.1.0_amd64.tar", "puntdns_1.1.0_amd64.cdx.json", "puntdns_1.1.0_amd64.deb"},
	}
	e := &entry{version: "1.1.0", text: "Words with [a link](docs/x.md#y).\n\n### Fixed\n- one", previous: "1.0.0"}
	got, err := notes(e, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# puntdns 1.1.0\nWords with [a link](https://github.com/puntdns/puntdns/blob/v1.1.0/docs/x.md#y).\n\n## Fixed\n- one\n",
		"| `make test` | 23.03.1 |\n\n", "| Debian and its derivatives | `puntdns_1.1.0_amd64.deb` |", "| licence of puntdns | `LICENSE` |",
		"refs/tags/v1.1.0", "cosign verify $SIGNER registry.example:5000/puntdns@sha256:0123", "commit abcd with go1.2.3", "## Commits since 1.0.0\n- Add b\n- Add a\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the notes:\n%s", want, got)
		}
	}
	e.previous, f.commits = "", nil
	if got, err = notes(e, f); err != nil || strings.Contains(got, "Commits") {
		t.Errorf("the first release: %v\n%s", err, got)
	}
	f.files = f.files[1:]
	if _, err := notes(e, f); err == nil {
		t.Error("a release without its licence is taken")
	}
}
