// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/plugins"
)

// Every Corefile in the documentation is one that this binary takes.
func TestDocumentedCorefiles(t *testing.T) {
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, corefile string) {
		input := caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"}
		if err := caddy.ValidateAndExecuteDirectives(input, nil, true); err != nil {
			t.Errorf("%v in\n%s", err, corefile)
		}
	}

	example, err := os.ReadFile("../../Corefile.example")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Corefile.example", func(t *testing.T) { check(t, string(example)) })
	t.Run("Corefile.example, all of it", func(t *testing.T) { check(t, uncommented(withDirectives(string(example)))) })

	for _, doc := range []struct{ file, fence, close string }{
		{"README.md", "```\n", "```"},
		{"docs/audit.md", "~~~ corefile\n", "~~~"},
		{"docs/guests.md", "```\n", "```"},
		{"docs/labels.md", "~~~ corefile\n", "~~~"},
		{"docs/openstack.md", "```\n", "```"},
		{"ofpunt/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/audit/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/neutronhosts/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/ovnforward/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/ovnhosts/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/passthrough/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/private/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/ready/README.md", "~~~ corefile\n", "~~~"},
		{"plugin/rpz/README.md", "~~~ corefile\n", "~~~"},
	} {
		text, err := os.ReadFile("../../" + doc.file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, part := range strings.Split(string(text), doc.close) {
			// Between two fences is every second part.
			block, ok := strings.CutPrefix(doc.close+part, doc.fence)
			block = strings.ReplaceAll(block, "\n   ", "\n")
			if !ok || i%2 == 0 || !isCorefile(block) {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s %d", doc.file, n), func(t *testing.T) { check(t, block) })
		}
		if n == 0 {
			t.Errorf("%s has no Corefile", doc.file)
		}
	}
}

// isCorefile reports whether a block of a document is a Corefile: one that begins with the
// root zone, after a comment perhaps.
func isCorefile(block string) bool {
	first := strings.TrimSpace(block)
	if strings.HasPrefix(first, "#") {
		_, first, _ = strings.Cut(first, "\n")
	}
	return strings.HasPrefix(first, ".")
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

// Each test that the threat model names is there: in test, or in the folder before the dot.
func TestThreatModelNamesTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		folder := strings.TrimPrefix(filepath.Dir(path), "../../")
		for _, m := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			there[folder+"."+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?:[a-z/]+\.)?\b(?:Test|Fuzz)[A-Z]\w*`).FindAllString(string(text), -1)
	if len(named) < 40 {
		t.Errorf("the threat model names %d tests only", len(named))
	}
	for _, name := range named {
		if !strings.Contains(name, ".") {
			name = "test." + name
		}
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
}
