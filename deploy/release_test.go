// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRelease makes the release of the last commit in a clone, as docs/release.md has it, and checks the
// files as a user does. make reproducible makes it twice.
func TestRelease(t *testing.T) {
	text, err := os.ReadFile("../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(text))
	clone := filepath.Join(t.TempDir(), "puntdns")
	command(t, "git", "clone", "--quiet", "..", clone)
	release := func(version string) (string, error) {
		// The tools as the program, whatever the tests are compiled as; and no flags of the make that runs them.
		out, err := exec.Command("env", "-u", "MAKEFLAGS", "CGO_ENABLED=0", "make", "-C", clone, "release", "VERSION="+version).CombinedOutput()
		return string(out), err
	}
	if out, err := release(version + ".1"); err == nil {
		t.Errorf("another version than in the file VERSION is released:\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(clone, "new.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := release(version); err == nil || !strings.Contains(out, "new.md") {
		t.Errorf("a tree with changes is released: %v\n%s", err, out)
	}
	command(t, "rm", filepath.Join(clone, "new.md"))
	if out, err := release(version); err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}

	folder := filepath.Join(clone, "dist", version)
	want := []string{"LICENSE", "NOTES.md", "SHA256SUMS", "THIRD-PARTY-LICENSES"}
	for _, name := range []string{
		"puntdns_V_amd64.deb", "puntdns_V_arm64.deb", "puntdns-V-1.x86_64.rpm", "puntdns-V-1.aarch64.rpm",
		"puntdns-image_V_amd64.tar", "puntdns-image_V_arm64.tar", "puntdns_V_amd64.cdx.json", "puntdns_V_arm64.cdx.json",
		"puntdns-image_V_amd64.cdx.json", "puntdns-image_V_arm64.cdx.json",
	} {
		want = append(want, strings.Replace(name, "V", version, 1))
	}
	slices.Sort(want)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	out := command(t, "sh", "-euc", `cd "$1"; sha256sum --check --strict SHA256SUMS`, "sh", folder)
	if n := strings.Count(out, ": OK\n"); n != len(want)-1 {
		t.Errorf("%d checksums, want one for each of %d files:\n%s", n, len(want)-1, out)
	}
	notes := command(t, "cat", filepath.Join(folder, "NOTES.md"))
	digest := command(t, "sh", "-euc", `go run ./image digest "$1"/*.tar`, "sh", folder)
	for _, want := range []string{"# puntdns " + version + "\n", "| 25.03.0 | 3.5.0 |", strings.TrimSpace(digest), strings.TrimSpace(command(t, "git", "rev-parse", "HEAD"))} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	for arch, machine := range map[string]string{"amd64": "EM_X86_64", "arm64": "EM_AARCH64"} {
		root := t.TempDir()
		command(t, "dpkg-deb", "--extract", filepath.Join(folder, "puntdns_"+version+"_"+arch+".deb"), root)
		checkProgram(t, filepath.Join(root, "usr/bin/puntdns"), machine)
	}
}

// checkProgram wants a static program for a machine, as debug/elf calls it.
func checkProgram(t *testing.T, path, machine string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); f.Machine.String() != machine || len(libraries) > 0 || err != nil {
		t.Errorf("%s: for %s, with the libraries %q, %v; want %s and none", path, f.Machine, libraries, err, machine)
	}
}
