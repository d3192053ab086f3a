// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

const repository = "https://github.com/puntdns/puntdns"

// entry is what CHANGELOG.md has about a release.
type entry struct {
	version, date string
	text          string // below the heading
	previous      string // the version before, empty for the first release
}

var heading = regexp.MustCompile(`(?m)^## (\d\S*) - (\d{4}-\d\d-\d\d)$`)

// entryOf returns the entry of a version, which is the newest.
func entryOf(changelog, version string) (*entry, error) {
	all := heading.FindAllStringSubmatchIndex(changelog, 2)
	if len(all) == 0 || changelog[all[0][2]:all[0][3]] != version {
		return nil, fmt.Errorf("CHANGELOG.md: expected its first section to be ## %s - DATE", version)
	}
	e := &entry{version: version, date: changelog[all[0][4]:all[0][5]]}
	end := len(changelog)
	if len(all) > 1 {
		end, e.previous = all[1][0], changelog[all[1][2]:all[1][3]]
	}
	e.text = strings.TrimSpace(changelog[all[0][1]:end])
	return e, nil
}

// facts are what the notes have beside the entry.
type facts struct {
	image   string   // with its tag
	digest  string   // of the image
	commit  string   // that was built
	golang  string   // version of Go, as go1.2.3
	tested  string   // the page tested-with.md
	commits []string // subjects since the release before, newest first
	files   []string // of the folder, sorted
}

// purposes say what files are for, by how their names end; the first that fits.
var purposes = []struct{ end, purpose string }{
	{".deb", "Debian and its derivatives"},
	{".rpm", "Fedora and its derivatives"},
	{".tar", "container image, for `docker load`, `podman load` and `skopeo copy oci-archive:`"},
	{".cdx.json", "bill of materials (SBOM, CycloneDX 1.6)"},
	{"THIRD-PARTY-LICENSES", "licences of all linked modules, with their texts"},
	{"LICENSE", "licence of puntdns"},
}

// notes returns the page of a release.
func notes(e *entry, f *facts) (string, error) {
	var b strings.Builder
	text := regexp.MustCompile(`(?m)^###`).ReplaceAllString(e.text, "##")
	fmt.Fprintf(&b, "# puntdns %s\n%s\n", e.version, text)

	_, table, ok := strings.Cut(f.tested, "\n|")
	if !ok {
		return "", fmt.Errorf("tested-with.md: expected a table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	fmt.Fprintf(&b, "\n## Tested with\n|%s\n\n[Clients, Kubernetes and known faults](docs/tested-with.md).\n", table)

	b.WriteString("\n## Files\n| for | files |\n|---|---|\n")
	for _, p := range purposes {
		var names []string
		for _, name := range f.files {
			if strings.HasSuffix(name, p.end) && !(p.end == "LICENSE" && name != p.end) {
				names = append(names, "`"+name+"`")
			}
		}
		if len(names) == 0 {
			return "", fmt.Errorf("the folder has no file for: %s", p.purpose)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", p.purpose, strings.Join(names, ", "))
	}
	fmt.Fprintf(&b, "\nThe image is `%s`, for amd64 and arm64, with the digest `%s`.\n", f.image, f.digest)

	name := f.image[:strings.LastIndex(f.image, ":")]
	fmt.Fprintf(&b, `
## Check what you downloaded
Checksums, in the folder with the files:

`+"```sh"+`
sha256sum --check --ignore-missing SHA256SUMS
`+"```"+`

Signatures of the checksums and of the image, by [cosign](https://docs.sigstore.dev/cosign/system_config/installation/) 3:

`+"```sh"+`
SIGNER="--certificate-oidc-issuer https://token.actions.githubusercontent.com \
    --certificate-identity %[1]s/.github/workflows/release.yml@refs/tags/v%[2]s"
cosign verify-blob $SIGNER --bundle SHA256SUMS.sigstore.json SHA256SUMS
cosign verify $SIGNER %[3]s@%[4]s
`+"```"+`

Built from commit %[5]s with %[6]s. `+"`make release VERSION=%[2]s`"+` in a clone of the tag v%[2]s makes the same bytes, except for the signatures. [More about checks](docs/release.md).
`, repository, e.version, name, f.digest, f.commit, f.golang)

	if e.previous != "" {
		fmt.Fprintf(&b, "\n## Commits since %s\n", e.previous)
		for _, subject := range f.commits {
			fmt.Fprintf(&b, "- %s\n", subject)
		}
	}
	return absolute(b.String(), e.version), nil
}

var relative = regexp.MustCompile(`\]\(([^)#:]+(?:#[^)]*)?)\)`)

// absolute makes links of the repository lead to the files of a release.
func absolute(page, version string) string {
	return relative.ReplaceAllString(page, "]("+repository+"/blob/v"+version+"/$1)")
}
