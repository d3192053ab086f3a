// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/test/pages"
)

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
	for plugin, doc := range map[string]struct{ readme, line string }{
		"ofpunt":       {"ofpunt/README.md", "ofpunt br-int"},
		"audit":        {"plugin/audit/README.md", "audit /var/log/puntdns/audit.json"},
		"egress":       {"plugin/egress/README.md", "egress"},
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

			syntax := ""
			_, blocks := pages.Section(t, root, doc.readme+"#syntax", "txt")
			for _, b := range blocks {
				syntax += b.Text
			}
			compare(t, "property", code, found(`(?m)^    (\w+)`, syntax))
			if plugin == "neutronhosts" {
				return
			}

			_, block, _ := strings.Cut(withDirectives(readFile(t, "Corefile.example")), "    "+doc.line+" {\n")
			block, _, _ = strings.Cut(block, "\n    }")
			compare(t, "property", code, found(`(?m)^        (?:# )?([a-z]\w*)`, block))
		})
	}
}

// The README of a plugin has the plugin's metrics, and no others with their prefix.
func TestDocumentedMetrics(t *testing.T) {
	const made = `\.(?:Scraped|Query)?(?:Counter|Gauge|Histogram)\("(\w+)"` // as package metricset makes them
	for plugin, source := range map[string]string{
		"ofpunt":              "ofpunt/metric/metric.go ofpunt/metric/network.go",
		"plugin/audit":        "plugin/audit/metrics.go",
		"plugin/egress":       "plugin/egress/metrics.go",
		"plugin/neutronhosts": "plugin/neutronhosts/metrics.go",
		"plugin/private":      "plugin/private/metrics.go",
		"plugin/ovnforward":   "plugin/ovnforward/metrics.go",
		"plugin/ovnhosts":     "plugin/ovnhosts/metrics.go",
		"plugin/rpz":          "plugin/rpz/metrics.go",
	} {
		code, prefix := "", "coredns_"+path.Base(plugin)+"_"
		for _, file := range strings.Fields(source) {
			code += readFile(t, file)
		}
		compare(t, "metric "+prefix, found(made, code), found("`"+prefix+"(\\w+)[`{]", readFile(t, plugin+"/README.md")))
	}
	table, _ := pages.Section(t, root, "ofpunt/README.md#metrics", "")
	var doc []string
	for _, cell := range found(`(?m)^\|(.*?)\|`, table) {
		doc = append(doc, found("`([a-z-]+)`", cell)...)
	}
	compare(t, "reason", found(`Reason\w+ += "([a-z-]+)"`, readFile(t, "ofpunt/metric/metric.go")), doc)
}

// The page of labels has each label.
func TestDocumentedLabels(t *testing.T) {
	code := []string{label.OfKey("KEY").Name}
	for _, l := range label.All() {
		code = append(code, l.Name)
	}
	slices.Sort(code)
	table, _ := pages.Section(t, root, "docs/labels.md#labels", "")
	var doc []string
	for _, cell := range found(`(?m)^\|(.*?)\|`, table) {
		doc = append(doc, found("`(ofpunt/[^`]+)`", cell)...)
	}
	slices.Sort(doc)
	compare(t, "label", code, doc)
}

// The manual page has each option of the program, and no other.
func TestDocumentedOptions(t *testing.T) {
	options, _ := pages.Section(t, root, "docs/puntdns.8.md#options", "")
	known := knownFlags(t)
	if documented := found(`\*\*(-[a-z.-]+)\*\*`, options); !slices.Equal(documented, known) || len(known) < 9 {
		t.Errorf("documented are %q, known %q", documented, known)
	}
}
