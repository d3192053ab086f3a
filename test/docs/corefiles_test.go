// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/plugins"
	"github.com/puntdns/puntdns/test/pages"
)

// Every Corefile in the documentation is one that this binary takes.
func TestDocumentedCorefiles(t *testing.T) {
	check := func(t *testing.T, corefile string) {
		input := caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"}
		if err := caddy.ValidateAndExecuteDirectives(input, nil, true); err != nil {
			t.Errorf("%v in\n%s", err, corefile)
		}
	}

	example := readFile(t, "Corefile.example")
	t.Run("Corefile.example", func(t *testing.T) { check(t, example) })
	t.Run("Corefile.example, all of it", func(t *testing.T) { check(t, uncommented(withDirectives(example))) })

	documented := 0
	for _, page := range readPages(t) {
		for _, block := range page.Blocks {
			if corefile, ok := corefileOf(&block); ok {
				documented++
				t.Run(fmt.Sprintf("%s:%d", page.Path, block.Line), func(t *testing.T) { check(t, corefile) })
			}
		}
	}
	if documented < 20 {
		t.Errorf("%d Corefiles were found on the pages", documented)
	}
}

// written matches a Corefile that commands write.
var written = regexp.MustCompile(`(?s)Corefile <<'EOF'\n(.*?\n)EOF\n`)

// corefileOf returns the Corefile of a block: what is marked as one, or begins as one, or is written
// by commands, or is a plugin with its properties, which is put into a block with what *ofpunt* needs.
// A description of the syntax is none, nor what a program prints.
func corefileOf(b *pages.Block) (string, bool) {
	if m := written.FindStringSubmatch(b.Text); m != nil && b.Language == "sh" {
		return m[1], true
	}
	first := strings.TrimSpace(b.Text)
	for strings.HasPrefix(first, "#") {
		_, first, _ = strings.Cut(first, "\n")
	}
	plugin, _, _ := strings.Cut(first, " ")
	switch {
	case b.Language == "corefile", b.Language == "" && strings.HasPrefix(first, ". {"):
		return b.Text, true
	case b.Language == "" && slices.Contains(plugins.Directives, plugin) && strings.Contains(b.Text, "{\n"):
		return ". {\n" + b.Text + "\novnhosts\n}\n", true
	}
	return "", false
}

// No Corefile is on a page without being found as one.
func TestDocumentedCorefilesAreMarked(t *testing.T) {
	usesBridge := regexp.MustCompile(`(?m)^\s*ofpunt br-`)
	for _, page := range readPages(t) {
		for _, b := range page.Blocks {
			if _, ok := corefileOf(&b); !ok && usesBridge.MatchString(b.Text) {
				t.Errorf("%s:%d: a Corefile in a block of the language %q in the section %s; write ```corefile", page.Path, b.Line, b.Language, b.Section)
			}
		}
	}
}

// wholeDirective matches a directive that Corefile.example has as a whole behind #.
var wholeDirective = regexp.MustCompile(`(?m)^    # [a-z]+ .*\{\n(?:    # .*\n)*?    # \}\n`)

// withDirectives takes the # away from the lines of such directives.
func withDirectives(corefile string) string {
	return wholeDirective.ReplaceAllStringFunc(corefile, func(directive string) string {
		return strings.ReplaceAll("\n"+directive, "\n    # ", "\n    ")[1:]
	})
}

// uncommented takes the # away from the properties that have one.
func uncommented(corefile string) string {
	var b strings.Builder
	for line := range strings.Lines(corefile) {
		text := strings.TrimSpace(line)
		if property, ok := strings.CutPrefix(text, "# "); ok && strings.HasPrefix(line, "        ") {
			if name, _, _ := strings.Cut(property, " "); name == strings.ToLower(name) && name != "what" {
				fmt.Fprintln(&b, property)
			}
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}
