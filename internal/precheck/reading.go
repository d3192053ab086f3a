// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
)

// reading is a Corefile with all that it imports.
type reading struct {
	path   string
	blocks []caddyfile.ServerBlock
	// texts include imports and unused snippets.
	texts     []text
	unmatched []unmatchedImport
}

// text is as written: with variables and imports.
type text struct {
	file  string
	lines []string
	words []caddyfile.Token
}

type unmatchedImport struct {
	pattern string
	at      corefile.Position
}

func read(in caddy.Input) *reading {
	r := &reading{path: in.Path()}
	if blocks, err := ParseBlocks(in); err == nil { // else a start returns the error
		r.blocks = blocks
	}
	r.add(in.Path(), in.Body())
	return r
}

// add adds a file and its imports, each once.
func (r *reading) add(file string, body []byte) {
	t := text{file: file, lines: strings.Split(string(body), "\n")}
	d := caddyfile.NewDispenser(file, bytes.NewReader(body))
	for d.Next() {
		t.words = append(t.words, caddyfile.Token{File: file, Line: d.Line(), Text: d.Val()})
	}
	r.texts = append(r.texts, t)
	for i, w := range t.words[:max(len(t.words)-1, 0)] {
		if w.Text == "import" && t.beginsLine(i) {
			r.addImport(w, expand(t.words[i+1].Text))
		}
	}
}

// addImport skips snippets. at is the word import.
func (r *reading) addImport(at caddyfile.Token, pattern string) {
	if r.isSnippet(pattern) {
		return
	}
	files, canBeNone := importedFiles(at.File, pattern)
	if len(files) == 0 && canBeNone {
		r.unmatched = append(r.unmatched, unmatchedImport{pattern, positionOf(at)})
	}
	for _, f := range files {
		if slices.ContainsFunc(r.texts, func(t text) bool { return t.file == f }) {
			continue
		}
		if body, err := os.ReadFile(f); err == nil { // else a start returns the error
			r.add(f, body)
		}
	}
}

// importedFiles finds files as caddy does. canBeNone is set for a pattern.
func importedFiles(file, pattern string) (files []string, canBeNone bool) {
	if !filepath.IsAbs(pattern) {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, false
		}
		pattern = filepath.Join(filepath.Dir(abs), pattern)
	}
	if strings.Count(pattern, "*") > 1 || strings.Count(pattern, "?") > 1 || strings.Contains(pattern, "[") {
		return nil, false // caddy refuses it
	}
	files, err := filepath.Glob(pattern)
	return files, err == nil && strings.ContainsAny(pattern, "*?")
}

func (r *reading) isSnippet(name string) bool {
	return slices.ContainsFunc(r.texts, func(t text) bool {
		return slices.ContainsFunc(t.words, func(w caddyfile.Token) bool { return w.Text == "("+name+")" })
	})
}

// beginsLine is about a line's first word.
func (t *text) beginsLine(i int) bool {
	return i == 0 || t.words[i-1].Line+strings.Count(t.words[i-1].Text, "\n") < t.words[i].Line
}

// line returns "" past the end.
func (t *text) line(n int) string {
	if n < 1 || n > len(t.lines) {
		return ""
	}
	return t.lines[n-1]
}

// textOf returns nil if the text was not read.
func (r *reading) textOf(t caddyfile.Token) *text {
	i := slices.IndexFunc(r.texts, func(of text) bool { return of.file == cmp.Or(t.File, r.path) })
	if i < 0 {
		return nil
	}
	return &r.texts[i]
}

func positionOf(t caddyfile.Token) corefile.Position {
	return corefile.Position{File: t.File, Line: t.Line}
}
