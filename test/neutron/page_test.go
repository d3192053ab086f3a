// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// page is docs/openstack.md: its blocks by their first lines, which are comments.
type page map[string]string

// run has the blocks that a test has run, by their titles. Tests are not parallel.
var run = map[string]bool{}

// readPage reads the page. A block without a comment at its top is no block of a test.
func readPage(t *testing.T) page {
	t.Helper()
	text, err := os.ReadFile("../../docs/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	p := page{}
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue // between two blocks
		}
		_, body, _ := strings.Cut(part, "\n")
		first, _, _ := strings.Cut(body, "\n")
		title, ok := strings.CutPrefix(first, "# ")
		if !ok {
			continue
		}
		if p[title] != "" {
			t.Fatalf("docs/openstack.md has two blocks %q", title)
		}
		p[title] = body
	}
	return p
}

// block returns a block of the page.
func (p page) block(t *testing.T, title string) string {
	t.Helper()
	if p[title] == "" {
		t.Fatalf("docs/openstack.md has no block that begins with %q", "# "+title)
	}
	run[title] = true
	return p[title]
}

// TestPage runs last: by then every block of the page has been run.
func TestPage(t *testing.T) {
	if some := flag.Lookup("test.run").Value.String(); some != "" {
		t.Skipf("only %s are run", some)
	}
	for title := range readPage(t) {
		if !run[title] {
			t.Errorf("docs/openstack.md: nothing has run %q", title)
		}
	}
}
