// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// index is the page that names all others.
const index = "docs/README.md"

// repository is where links from outside lead to.
const repository = "https://github.com/puntdns/puntdns/blob/main/"

// target returns the file that a link of a page leads to, and the place in it. ok is false for a link
// that leads out of the project.
func target(page, link string) (file, anchor string, ok bool) {
	link, absolute := strings.CutPrefix(link, repository)
	link, anchor, _ = strings.Cut(link, "#")
	switch {
	case strings.Contains(link, ":"):
		return "", "", false
	case absolute:
		return path.Clean(link), anchor, true
	case link == "":
		return page, anchor, true
	}
	return path.Join(path.Dir(page), link), anchor, true
}

// Links within the documentation, and paths that it names, lead somewhere: to a file that there is,
// and to one of its headings.
func TestDocumentedPaths(t *testing.T) {
	all := readPages(t)
	sections := map[string]map[string]string{}
	for _, p := range all {
		sections[p.Path] = p.Sections
	}
	exists := func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil
	}
	label := regexp.MustCompile(`^ofpunt/(?:[a-z-]+|external-id/.+)$`)
	named := regexp.MustCompile(`^(?:cmd|deploy|docs|internal|ofpunt|plugin|plugins|test)/[\w./-]*$`)
	for _, p := range all {
		for _, l := range p.Links {
			file, anchor, ok := target(p.Path, l.To)
			if !ok {
				continue
			}
			switch _, has := sections[file][anchor]; {
			case !exists(file):
				t.Errorf("%s:%d: no file for the link %s", p.Path, l.Line, l.To)
			case anchor != "" && !has:
				t.Errorf("%s:%d: %s has no heading for the link %s", p.Path, l.Line, file, l.To)
			}
		}
		for _, c := range p.Code {
			// A label of metadata looks like a path, too.
			if named.MatchString(c.Text) && !label.MatchString(c.Text) && !exists(c.Text) {
				t.Errorf("%s:%d: there is no %s", p.Path, c.Line, c.Text)
			}
		}
	}
}

// The index leads to every page, and the first page of the project to the index.
func TestDocumentedIndex(t *testing.T) {
	leads := map[string]map[string]bool{}
	all := readPages(t)
	for _, p := range all {
		leads[p.Path] = map[string]bool{}
		for _, l := range p.Links {
			if file, _, ok := target(p.Path, l.To); ok {
				leads[p.Path][file] = true
			}
		}
	}
	if !leads["README.md"][index] {
		t.Errorf("README.md does not lead to %s", index)
	}
	for _, p := range all {
		if p.Path != index && !leads[index][p.Path] {
			t.Errorf("%s does not lead to %s", index, p.Path)
		}
	}
}
