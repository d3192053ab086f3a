// SPDX-License-Identifier: Apache-2.0

// Package remedy says what an operator does about a problem, a warning or a finding: a text, lines to
// paste into a shell, and the section of the pages that explains the code. It knows the codes of
// internal/control/api, and neither OVN nor the switch.
//
// A code has one [row] in rows. puntdns fills the remedies of the status and of explanations from the
// rows. puntctl fills the ones that a process of another version leaves out.
//
// The package has no state: all functions may be called from any goroutine.
package remedy

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

// Context is the case at hand. A field that is not known is empty.
type Context struct {
	// About is the bridge or the database that the code is about.
	About string
	// Endpoint is the peer of a connection that is down, such as unix:PATH or ssl:IP:PORT, and Failure
	// why it is down.
	Endpoint string
	Failure  *api.Failure
	// Corefile is the path of the Corefile in force.
	Corefile string
	// Bridge, Interface and Port are the bridge, the local interface and the logical port of a guest.
	Bridge, Interface, Port string
	// DHCPRow is the UUID of the guest's row in DHCP_Options.
	DHCPRow string
}

// Remedy is what to do about one code. Text and Commands are empty if there is nothing to do.
type Remedy struct {
	Text     string
	Commands []string
	// Docs is a section of the pages: PAGE#ANCHOR, from the root of the project.
	Docs string
}

// Of returns the remedy of a code. It is zero for a code of another version.
func Of(code string, c *Context) Remedy {
	r := rowOf(code)
	if r == nil {
		return Remedy{}
	}
	out := Remedy{Text: r.text, Commands: fillIn(r.commands, c), Docs: r.docs}
	if r.peer != "" {
		out = connection(r, c)
	}
	return out
}

// IsNote reports whether a finding with this code leaves Well of an explanation alone.
func IsNote(code string) bool {
	r := rowOf(code)
	return r != nil && r.note
}

// Well reports whether all problems, or all findings of an explanation, are notes.
func Well(all []api.Problem) bool {
	return !slices.ContainsFunc(all, func(p api.Problem) bool { return !IsNote(p.Code) })
}

// FillStatus fills the remedies of the problems and warnings of a status.
func FillStatus(s *api.Status) {
	for i := range s.Problems {
		fill(&s.Problems[i], contextOf(s, &s.Problems[i]))
	}
	for i := range s.Warnings {
		fill(&s.Warnings[i], contextOf(s, &s.Warnings[i]))
	}
}

// FillExplanation fills the remedies of the findings of an explanation.
func FillExplanation(e *api.Explanation) {
	for i := range e.Findings {
		fill(&e.Findings[i], contextOfGuest(&e.Guest))
	}
}

// FillGuest fills the remedies of the problems of a guest.
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

// fill fills the remedy of a problem, unless the problem has been filled before, by this process or
// by one of another version. A text that the finder of the problem has written stays.
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

// contextOf returns the case of a problem or a warning in a status.
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
			// Two blocks may read databases of one name: a connection that works has no failure.
			if db := &s.Databases[i]; db.Name == p.About && c.Failure == nil {
				c.Endpoint, c.Failure = db.Endpoint, db.Failure
			}
		}
	}
	return c
}

// fillIn replaces the placeholders of lines, see [row]. A line with a placeholder whose value is not
// known is left out.
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
