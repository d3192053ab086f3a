// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/pages"
)

// page is docs/openstack.md: its blocks by the anchor of the heading above, language and number in the
// section, as "ml2ovs ini 2".
type page map[string]string

// run has the blocks that a test has run, by their keys. Tests are not parallel.
var run = map[string]bool{}

// elsewhere has the blocks that other tests run.
var elsewhere = map[string]string{
	"from-nothing-to-a-guest-that-resolves sh 1": "deploy.TestNewUser",
	"from-nothing-to-a-guest-that-resolves sh 2": "deploy.TestNewUser",
	"from-neutrons-forwarder corefile 1":         "test.TestDocumentedCorefilesStart",
}

func readPage(t *testing.T) page {
	t.Helper()
	p := page{}
	for _, b := range pages.Load(t, "../..", "docs/openstack.md").Blocks {
		_, anchor, _ := strings.Cut(b.Section, "#")
		p[fmt.Sprintf("%s %s %d", anchor, b.Language, b.Number)] = b.Text
	}
	return p
}

// block returns a block of the page.
func (p page) block(t *testing.T, key string) string {
	t.Helper()
	if p[key] == "" {
		t.Fatalf("docs/openstack.md has no block %s", key)
	}
	run[key] = true
	return p[key]
}

// TestPage runs last: by then every block of the page has been run.
func TestPage(t *testing.T) {
	if some := flag.Lookup("test.run").Value.String(); some != "" {
		t.Skipf("only %s are run", some)
	}
	for key := range readPage(t) {
		if !run[key] && elsewhere[key] == "" {
			t.Errorf("docs/openstack.md: nothing has run the block %s", key)
		}
	}
}
