// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
)

// checkBraces reports unpaired braces that caddy refuses or takes for a block's name. caddy's own error names
// a line far behind, or the wrong word.
func checkBraces(in caddy.Input, r *reading) error {
	_, err := caddyfile.Parse(in.Path(), strings.NewReader(string(in.Body())), caddy.ValidDirectives(ServerType))
	if err == nil && !slices.ContainsFunc(r.blocks, func(b caddyfile.ServerBlock) bool {
		return slices.Contains(b.Keys, "}") || slices.Contains(b.Keys, "{")
	}) {
		return nil
	}
	if all := unpairedBraces(r); len(all) > 0 {
		return errors.New(all[0])
	}
	return nil
}

// unpairedBraces finds each file's first brace without a partner. caddy takes some: the end of the file
// closes a block if its last word is }.
func unpairedBraces(r *reading) (all []string) {
	for i := range r.texts {
		t := &r.texts[i]
		stray, open := t.unpaired()
		if glued := t.gluedBrace(); glued != nil && (stray != nil || open != nil) {
			all = append(all, fmt.Sprintf("%s - %s: expected a space before the brace", positionOf(*glued), glued.Text))
			continue
		}
		switch last := t.words[max(len(t.words)-1, 0):]; {
		case stray != nil:
			all = append(all, fmt.Sprintf("%s - this } closes nothing; expected a block that is open, or no }", positionOf(*stray)))
		case open != nil && strings.Contains(last[0].Text, "\n"):
			all = append(all, fmt.Sprintf("%s - the double quote that begins here is not closed: %s", positionOf(last[0]), strings.TrimSpace(t.line(last[0].Line))))
		case open != nil:
			all = append(all, fmt.Sprintf("%s - the block that begins here is not closed: %s; expected } on a line of its own at its end", positionOf(*open), strings.TrimSpace(t.line(open.Line))))
		}
	}
	return all
}

// unpaired returns the first } that closes nothing, else an unclosed {: of several, the first whose line is
// indented further than the } that would close it.
func (t *text) unpaired() (stray, open *caddyfile.Token) {
	var opened []*caddyfile.Token
	var suspect *caddyfile.Token
	for i := range t.words {
		w := &t.words[i]
		switch {
		case w.Text == "{":
			opened = append(opened, w)
		case w.Text != "}":
		case len(opened) == 0:
			return w, nil
		default:
			last := opened[len(opened)-1]
			opened = opened[:len(opened)-1]
			if suspect == nil && t.beginsLine(i) && indent(t.line(w.Line)) < indent(t.line(last.Line)) {
				suspect = last
			}
		}
	}
	switch {
	case len(opened) == 0:
		return nil, nil
	case suspect != nil:
		return nil, suspect
	default:
		return nil, opened[len(opened)-1]
	}
}

// gluedBrace returns the first word that ends its line with a brace, which caddy takes for a letter.
func (t *text) gluedBrace() *caddyfile.Token {
	for i, w := range t.words {
		ends := i+1 == len(t.words) || t.beginsLine(i+1)
		if ends && len(w.Text) > 1 && (strings.HasSuffix(w.Text, "{") || strings.HasSuffix(w.Text, "}") && !strings.Contains(w.Text, "{")) {
			return &t.words[i]
		}
	}
	return nil
}

// namelessBlocks finds blocks that caddy ignores.
func namelessBlocks(r *reading) (all []string) {
	for _, t := range r.texts {
		depth := 0
		for i, w := range t.words {
			switch w.Text {
			case "{":
				if depth == 0 && (i == 0 || t.words[i-1].Text == "}") {
					all = append(all, fmt.Sprintf("%s - the server block has no name, and nobody is served by it; expected . { for all names", positionOf(w)))
				}
				depth++
			case "}":
				depth--
			}
		}
	}
	return all
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
