// SPDX-License-Identifier: Apache-2.0

// Package plugincfg reads a plugin.cfg, the list of the plugins of a distribution, and makes Go of
// it. The form is CoreDNS's: a line NAME:PACKAGE for each plugin, in the order of directives, between
// empty lines and comments.
package plugincfg

import (
	"bytes"
	"fmt"
	"go/format"
	"regexp"
	"slices"
	"strings"
)

// Plugin is a line of plugin.cfg.
type Plugin struct {
	// Name is the directive.
	Name string
	// Package is the import path of the plugin.
	Package string
}

// ofCoreDNS is the folder of CoreDNS's own plugins.
const ofCoreDNS = "github.com/coredns/coredns/plugin/"

// line matches NAME:PACKAGE.
var line = regexp.MustCompile(`^([a-z0-9_]+):([\w.~/-]+)$`)

// Parse returns the plugins of a plugin.cfg, in its order. An error begins with file and line, and
// says what was found and expected.
func Parse(file string, text []byte) (all []Plugin, err error) {
	lineOf := map[string]int{}
	n := 0
	for l := range strings.Lines(string(text)) {
		n++
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: %q, expected NAME:PACKAGE or a comment", file, n, l)
		}
		p := Plugin{Name: m[1], Package: m[2]}
		if first := lineOf[p.Name]; first != 0 {
			return nil, fmt.Errorf("%s:%d: %s is in line %d already, expected it once", file, n, p.Name, first)
		}
		lineOf[p.Name] = n
		// As in CoreDNS, whose own plugins are known by their folder alone.
		if host, _, _ := strings.Cut(p.Package, "/"); !strings.Contains(host, ".") {
			p.Package = ofCoreDNS + p.Package
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no plugin, expected lines NAME:PACKAGE", file)
	}
	if err := CheckOrder(Names(all)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// Names returns the directives.
func Names(all []Plugin) []string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return names
}

// licence matches the line of a plugin.cfg that says its licence.
var licence = regexp.MustCompile(`(?m)^# (SPDX-License-Identifier: .*)$`)

// Generate returns a Go file of a package that links the plugins of a plugin.cfg and has their
// order. The file has the licence of the text.
func Generate(pkg, file string, text []byte) ([]byte, error) {
	all, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if m := licence.FindSubmatch(text); m != nil {
		fmt.Fprintf(&b, "// %s\n\n", m[1])
	}
	fmt.Fprintf(&b, "// Code generated from plugin.cfg. DO NOT EDIT.\n\npackage %s\n\nimport (\n", pkg)
	var own, others []string
	for _, p := range all {
		if strings.HasPrefix(p.Package, ofCoreDNS) {
			own = append(own, p.Package)
		} else {
			others = append(others, p.Package)
		}
	}
	for _, group := range [][]string{own, others} {
		slices.Sort(group)
		for _, path := range slices.Compact(group) {
			fmt.Fprintf(&b, "\t_ %q\n", path)
		}
		fmt.Fprintln(&b)
	}
	b.WriteString(")\n\n// Directives are the names of the plugins, in the order in which they are set up and in which a\n// query passes them.\nvar Directives = []string{\n")
	for _, p := range all {
		fmt.Fprintf(&b, "\t%q,\n", p.Name)
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}
