// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/deploy/linked"
)

const head = `The programs are linked statically with the modules of Go below, under the licences that are named
beside them; their texts and notices follow. The source of a module is to be had by
"go mod download MODULE@VERSION", and that of the standard library (std) from https://go.dev/dl/.

`

const rule = "--------------------------------------------------------------------------------\n"

// write returns the modules of others and their texts, each text once, as the function prints it.
func write(modules []*linked.Module, text func(*linked.Text) string) string {
	modules = slices.DeleteFunc(slices.Clone(modules), func(m *linked.Module) bool { return m.Version == "" })
	var b strings.Builder
	b.WriteString(head)
	width := 0
	for _, m := range modules {
		width = max(width, len(m.String()))
	}
	for _, m := range modules {
		fmt.Fprintf(&b, "%-*s  %s\n", width, m, strings.Join(m.Licences(), ", "))
	}
	type group struct {
		text  string
		files []string
	}
	var groups []*group
	for _, m := range modules {
		for i := range m.Texts {
			t := text(&m.Texts[i])
			g := slices.IndexFunc(groups, func(g *group) bool { return g.text == t })
			if g < 0 {
				g = len(groups)
				groups = append(groups, &group{text: t})
			}
			groups[g].files = append(groups[g].files, m.String()+": "+m.Texts[i].Name)
		}
	}
	for _, g := range groups {
		b.WriteString("\n" + rule + strings.Join(g.files, "\n") + "\n" + rule + "\n" + g.text + "\n")
	}
	return b.String()
}

// verbatim is a text as it is.
func verbatim(t *linked.Text) string { return strings.ReplaceAll(t.Content, "\r\n", "\n") }

// holder matches a line that says who has the copyright. The appendix of the Apache License has
// one with brackets in the place of the year, for others to fill in.
var holder = regexp.MustCompile(`(?mi)^[ \t]*copyright (\(c\) |© )?[0-9].*$`)

// forDebian is a text that refers to the Apache License where it has that: Debian has it once for
// all packages. The lines that say who has the copyright stay.
func forDebian(t *linked.Text) string {
	var b strings.Builder
	end := 0
	for _, s := range t.Spans {
		if s.Licence != "Apache-2.0" || s.End-s.Start < 1000 { // a short one is the notice that the licence applies
			continue
		}
		b.WriteString(t.Content[end:s.Start])
		for _, line := range holder.FindAllString(t.Content[s.Start:s.End], -1) {
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
		b.WriteString("Apache License, Version 2.0: on Debian systems see /usr/share/common-licenses/Apache-2.0.\n")
		end = s.End
	}
	b.WriteString(t.Content[end:])
	return strings.TrimSpace(strings.ReplaceAll(b.String(), "\r\n", "\n"))
}
