// SPDX-License-Identifier: Apache-2.0

// Package remedy says what to do about a problem, a warning or a finding: a text, shell commands, and a
// section of the documentation. It knows [api.Codes], and neither OVN nor the switch.
//
// puntdns fills the remedies of the status and of explanations. puntctl fills those that a puntdns of another
// version leaves out.
//
// The package has no state.
package remedy

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

// Context is the case; unknown fields are empty.
type Context struct {
	// About is a bridge or a database.
	About string
	// Endpoint is the peer, such as unix:PATH or ssl:IP:PORT.
	Endpoint                string
	Failure                 *api.Failure
	Corefile                string
	Bridge, Interface, Port string
	// DHCPRow is the UUID of DHCP_Options.
	DHCPRow string
}

// Remedy is what to do about one code. Text and Commands may be empty.
type Remedy struct {
	Text     string
	Commands []string
	// Docs is PAGE#ANCHOR, from the root of the project.
	Docs string
}

// Of returns the remedy of a code, zero for an unknown code.
func Of(code string, c *Context) Remedy {
	r := find(code)
	out := Remedy{Text: r.Text, Commands: fillIn(r.Commands, c), Docs: r.Docs}
	if r.Peer != "" {
		out = connection(r, c)
	}
	return out
}

// IsNote reports whether a finding with this code does not clear Well.
func IsNote(code string) bool { return find(code).Note }

func find(name string) (c api.Code) {
	all := api.Codes()
	if i := slices.IndexFunc(all, func(c api.Code) bool { return c.Name == name }); i >= 0 {
		c = all[i]
	}
	return c
}

// Sort sorts problems: causes before effects.
func Sort(all []api.Problem) {
	slices.SortStableFunc(all, func(a, b api.Problem) int { return find(b.Code).Precedence - find(a.Code).Precedence })
}

// Well reports whether all problems or findings are notes.
func Well(all []api.Problem) bool {
	return !slices.ContainsFunc(all, func(p api.Problem) bool { return !IsNote(p.Code) })
}

// FillStatus fills the remedies of problems and warnings.
func FillStatus(s *api.Status) {
	for i := range s.Problems {
		fill(&s.Problems[i], contextOf(s, &s.Problems[i]))
	}
	for i := range s.Warnings {
		fill(&s.Warnings[i], contextOf(s, &s.Warnings[i]))
	}
}

// FillExplanation fills the remedies of findings.
func FillExplanation(e *api.Explanation) {
	for i := range e.Findings {
		fill(&e.Findings[i], contextOfGuest(&e.Guest))
	}
}

// FillGuest fills the remedies of a guest's problems.
func FillGuest(g *api.Guest) {
	for i := range g.Problems {
		fill(&g.Problems[i], contextOfGuest(g))
	}
}

func contextOfGuest(g *api.Guest) *Context {
	c := &Context{Bridge: g.Bridge, Interface: g.Interface, Port: g.Port}
	if g.DHCP != nil {
		c.DHCPRow = g.DHCP.Row
	}
	return c
}

// fill keeps a remedy that is already there.
func fill(p *api.Problem, c *Context) {
	if p.Docs != "" {
		return
	}
	r := Of(p.Code, c)
	p.Docs = r.Docs
	if p.Remedy == "" {
		p.Remedy, p.Commands = r.Text, slices.Concat(p.Commands, r.Commands)
	}
}

func contextOf(s *api.Status, p *api.Problem) *Context {
	c := &Context{About: p.About, Corefile: s.Corefile.Path}
	switch p.Code {
	case api.CodeSwitch:
		for i := range s.Bridges {
			if b := &s.Bridges[i]; b.Name == p.About {
				c.Endpoint, c.Failure = b.Connection.Endpoint, b.Connection.Failure
			}
		}
	case api.CodeLocalDatabase:
		for i := range s.Bridges {
			if b := &s.Bridges[i]; b.Name == p.About {
				c.Endpoint, c.Failure = b.LocalDatabase.Endpoint, b.LocalDatabase.Failure
			}
		}
	case api.CodeDatabase:
		for i := range s.Databases {
			// Several blocks may read databases of one name.
			if db := &s.Databases[i]; db.Name == p.About && c.Failure == nil {
				c.Endpoint, c.Failure = db.Endpoint, db.Failure
			}
		}
	}
	return c
}

// fillIn replaces placeholders ([api.Code]), and drops lines without a value.
func fillIn(lines []string, c *Context) (all []string) {
	match := ""
	if c.Port != "" {
		match = "logical_port=" + shell.OVNString(c.Port)
	}
	values := [][2]string{
		{"{about}", c.About}, {"{corefile}", c.Corefile}, {"{bridge}", c.Bridge}, {"{interface}", c.Interface}, {"{port}", c.Port}, {"{port-match}", match}, {"{dhcp-row}", c.DHCPRow},
	}
	var words []string
	for _, v := range values {
		words = append(words, v[0], shell.Word(v[1]))
	}
	r := strings.NewReplacer(words...)
	for _, line := range lines {
		if !slices.ContainsFunc(values, func(v [2]string) bool { return v[1] == "" && strings.Contains(line, v[0]) }) {
			all = append(all, r.Replace(line))
		}
	}
	return all
}
