// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/test/pages"
)

// What a page has is found wherever it stands: in lists, tables and below other marks.
func TestParse(t *testing.T) {
	const page = "# A *page*: `one`, & more\n\n" +
		"A [link](other.md#there) and `code`\n over ``two ` lines``.\n\n" +
		"1. In a list:\n\n   ```sh\n   ls \\\n     -l\n   ```\n\n   ```txt\n   total 0\n   ```\n" +
		"2. More.\n\n" +
		"~~~ corefile\n. {\n}\n~~~\n\n" +
		"## Again\nText.\n\n## Again\n\n" +
		"| a | b |\n|---|---|\n| `x \\| y` | [z](#again-1) ![p](p.svg) |\n\n" +
		"```\nplain\n```\n\nBetween.\n\n```txt\nalone\n```\n\nMore.\n\n```txt\nmore\n```\n"
	got := pages.Parse("a.md", []byte(page))
	want := &pages.Page{
		Path: "a.md",
		Sections: map[string]string{
			"a-page-one--more": page[strings.Index(page, "\nA [link]"):strings.Index(page, "## Again")],
			"again":            "Text.\n\n",
			"again-1":          page[strings.Index(page, "\n| a | b |"):],
		},
		Links: []pages.Link{{Line: 3, To: "other.md#there"}, {Line: 30, To: "#again-1"}, {Line: 30, To: "p.svg"}},
		Blocks: []pages.Block{
			{Line: 9, Language: "sh", Section: "a.md#a-page-one--more", Number: 1, Text: "ls \\\n  -l\n", Prints: "total 0\n"},
			{Line: 14, Language: "txt", Section: "a.md#a-page-one--more", Number: 1, Text: "total 0\n"},
			{Line: 19, Language: "corefile", Section: "a.md#a-page-one--more", Number: 1, Text: ". {\n}\n"},
			{Line: 33, Section: "a.md#again-1", Number: 1, Text: "plain\n"},
			{Line: 39, Language: "txt", Section: "a.md#again-1", Number: 1, Text: "alone\n"},
			{Line: 45, Language: "txt", Section: "a.md#again-1", Number: 2, Text: "more\n"},
		},
		Code: []pages.Code{{Line: 1, Text: "one"}, {Line: 3, Text: "code"}, {Line: 3, Text: "two ` lines"}, {Line: 30, Text: "x | y"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The pages of this project are all found.
func TestRead(t *testing.T) {
	all, err := pages.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, p := range all {
		paths = append(paths, p.Path)
	}
	list := strings.Join(paths, " ")
	for _, path := range []string{"README.md", "docs/design.md", "ofpunt/README.md", "plugin/ovnhosts/README.md"} {
		if !strings.Contains(" "+list+" ", " "+path+" ") {
			t.Errorf("no %s among %s", path, list)
		}
	}
}

// What commands print is compared but for the gaps.
func TestPrinted(t *testing.T) {
	for _, tt := range []struct {
		name, page, output string
		same               bool
	}{
		{"equal", "a\nb\n", "a\nb\n", true},
		{"another line", "a\nb\n", "a\nc\n", false},
		{"a line more", "a\n", "a\nb\n", false},
		{"a line less", "a\nb\n", "a\n", false},
		{"signs of expressions", "a.*(\n", "a.*(\n", true},
		{"signs that are none", "a.b\n", "acb\n", false},
		{"a gap in a line", "from … to b\n", "from a to b\n", true},
		{"a gap in a line, and another line", "from … to b\n", "from a\n to b\n", false},
		{"lines left out", "a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"no lines left out", "a\n…\nd\n", "a\nd\n", true},
		{"the end left out", "a\n…\n", "a\nb\n", true},
		{"the wrong end", "a\n…\nd\n", "a\nb\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := pages.Printed(tt.page, tt.output); (err == nil) != tt.same {
				t.Errorf("%q, %q: %v", tt.page, tt.output, err)
			}
		})
	}
}
