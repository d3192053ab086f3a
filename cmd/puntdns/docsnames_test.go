// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/plugins"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// found returns the first group of each match, sorted and without repetition.
func found(pattern, text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// compare reports what is in one of two sorted lists only.
func compare(t *testing.T, what string, code, doc []string) {
	t.Helper()
	if len(code) == 0 {
		t.Errorf("no %s found in the code", what)
	}
	for _, s := range code {
		if !slices.Contains(doc, s) {
			t.Errorf("%s %s is not documented", what, s)
		}
	}
	for _, s := range doc {
		if !slices.Contains(code, s) {
			t.Errorf("%s %s is documented, but there is none", what, s)
		}
	}
}

// The syntax in the README of a plugin has the plugin's properties, and so has
// Corefile.example, which is for OVN.
func TestDocumentedProperties(t *testing.T) {
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	for plugin, doc := range map[string]struct{ readme, line string }{
		"ofpunt":       {"ofpunt/README.md", "ofpunt br-int"},
		"audit":        {"plugin/audit/README.md", "audit /var/log/puntdns/audit.json"},
		"neutronhosts": {"plugin/neutronhosts/README.md", "neutronhosts"},
		"ovnforward":   {"plugin/ovnforward/README.md", "ovnforward"},
		"ovnhosts":     {"plugin/ovnhosts/README.md", "ovnhosts"},
		"private":      {"plugin/private/README.md", "private"},
		"rpz":          {"plugin/rpz/README.md", "rpz"},
	} {
		t.Run(plugin, func(t *testing.T) {
			wrong := ". {\n" + doc.line + " {\nnosuch\n}\n}\n"
			err := caddy.ValidateAndExecuteDirectives(caddy.CaddyfileInput{Contents: []byte(wrong), Filepath: "Corefile", ServerTypeName: "dns"}, nil, true)
			if err == nil {
				t.Fatal("a property that is none was taken")
			}
			var code []string
			if m := regexp.MustCompile(`one of \[([^]]*)\]`).FindStringSubmatch(err.Error()); m != nil {
				code = strings.Fields(m[1])
			}

			_, syntax, _ := strings.Cut(readDoc(t, doc.readme), "~~~ txt\n")
			syntax, _, _ = strings.Cut(syntax, "~~~")
			compare(t, "property", code, found(`(?m)^    (\w+)`, syntax))
			if plugin == "neutronhosts" {
				return
			}

			_, block, _ := strings.Cut(withDirectives(readDoc(t, "Corefile.example")), "    "+doc.line+" {\n")
			block, _, _ = strings.Cut(block, "\n    }")
			compare(t, "property", code, found(`(?m)^        (?:# )?([a-z]\w*)`, block))
		})
	}
}

func TestDocumentedMetrics(t *testing.T) {
	for _, of := range []struct{ prefix, source, name, readme string }{
		{"coredns_ofpunt_", "ofpunt/metric/metric.go ofpunt/metric/network.go", `(?:Name: |desc\()"(\w+)"`, "ofpunt/README.md"},
		{"coredns_audit_", "plugin/audit/metrics.go", `(?:Name: |Desc\()"(\w+)"`, "plugin/audit/README.md"},
		{"coredns_neutronhosts_", "plugin/neutronhosts/metrics.go", `(?:Name: |Desc\()"(\w+)"`, "plugin/neutronhosts/README.md"},
		{"coredns_private_", "plugin/private/metrics.go", `Name: "(\w+)"`, "plugin/private/README.md"},
		{"coredns_ovnforward_", "plugin/ovnforward/metrics.go", `(?:Name: |Desc\()"(\w+)"`, "plugin/ovnforward/README.md"},
		{"coredns_ovnhosts_", "plugin/ovnhosts/metrics.go", `(?:Name: |Desc\()"(\w+)"`, "plugin/ovnhosts/README.md"},
		{"coredns_rpz_", "plugin/rpz/metrics.go", `(?:Name: |Desc\()"(\w+)"`, "plugin/rpz/README.md"},
	} {
		_, section, _ := strings.Cut(readDoc(t, of.readme), "\n## Metrics\n")
		section, _, _ = strings.Cut(section, "\n## ")
		source := ""
		for _, file := range strings.Fields(of.source) {
			source += readDoc(t, file)
		}
		compare(t, "metric "+of.prefix, found(of.name, source), found("`"+of.prefix+`(\w+)`, section))
	}
	_, table, _ := strings.Cut(readDoc(t, "ofpunt/README.md"), "| reason | packets |\n")
	table, _, _ = strings.Cut(table, "| others |")
	var doc []string
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		doc = append(doc, found("`([a-z-]+)`", cell)...)
	}
	compare(t, "reason", found(`Reason\w+ += "([a-z-]+)"`, readDoc(t, "ofpunt/metric/metric.go")), doc)
}
