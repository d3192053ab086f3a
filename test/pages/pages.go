// SPDX-License-Identifier: Apache-2.0

// Package pages reads the documentation: the Markdown files of the project, as the tests see them
// that hold it to the code. It knows what is a block, a heading, a link and a word of code, by
// CommonMark, and nothing of what these say.
package pages

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is a Markdown file.
type Page struct {
	// Path is relative to the root of the project, with slashes.
	Path string
	// Anchors are the fragments that links may have: those that GitHub gives the headings.
	Anchors map[string]bool
	Links   []Link
	Blocks  []Block
	// Code are the words in backquotes.
	Code []Code
}

// Link is a link or a picture of a page.
type Link struct {
	Line int // of the paragraph or row that it is in, from 1
	To   string
}

// Block is a fenced block.
type Block struct {
	Line     int    // of its text, from 1
	Language string // the first word behind the fence, empty for none
	Heading  string // the last one above it
	Text     string // without the fences, and without the indentation that a list gives it
	// Prints is what stands in a block of the language txt right behind this one: what the
	// commands print. Empty if there is none.
	Prints string
}

// First returns the first line of the text.
func (b *Block) First() string {
	first, _, _ := strings.Cut(b.Text, "\n")
	return first
}

// Code is what stands between backquotes in a sentence.
type Code struct {
	Line int // from 1
	Text string
}

// Read reads all pages below the root of the project, sorted by their paths.
func Read(root string) ([]*Page, error) {
	var all []*Page
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, Parse(filepath.ToSlash(relative), source))
		return nil
	})
	return all, err
}

// Parse reads one page.
func Parse(path string, source []byte) *Page {
	p := &reader{Page: &Page{Path: path, Anchors: map[string]bool{}}, source: source, same: map[string]int{}}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	// The function never returns an error.
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			p.node(n)
		}
		return ast.WalkContinue, nil
	})
	return p.Page
}

// reader is what is known of a page while it is read.
type reader struct {
	*Page
	source  []byte
	heading string
	same    map[string]int // how often there was an anchor
	line    int            // of the block that is being read
}

// node takes in one node of the tree.
func (p *reader) node(n ast.Node) {
	if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
		p.line = p.lineOf(n.Lines().At(0).Start)
	}
	switch n := n.(type) {
	case *ast.Heading:
		p.heading = words(n, p.source)
		p.anchor(p.heading)
	case *ast.FencedCodeBlock:
		p.block(n)
	case *ast.CodeSpan:
		p.Code = append(p.Code, Code{Line: p.line, Text: words(n, p.source)})
	case *ast.Link:
		p.Links = append(p.Links, Link{Line: p.line, To: string(n.Destination)})
	case *ast.Image:
		p.Links = append(p.Links, Link{Line: p.line, To: string(n.Destination)})
	}
}

// block takes in a fenced block.
func (p *reader) block(n *ast.FencedCodeBlock) {
	b := Block{Line: p.line, Language: string(n.Language(p.source)), Heading: p.heading, Text: string(n.Lines().Value(p.source))}
	if next, ok := n.NextSibling().(*ast.FencedCodeBlock); ok && string(next.Language(p.source)) == "txt" {
		b.Prints = string(next.Lines().Value(p.source))
	}
	p.Blocks = append(p.Blocks, b)
}

// anchor takes in the anchor of a heading, as GitHub makes it: letters, digits, hyphens and
// underscores, with a hyphen for each space, and a number behind one that was there before.
func (p *reader) anchor(heading string) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	n := p.same[name]
	p.same[name]++
	if n > 0 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	p.Anchors[name] = true
}

// lineOf returns the number of the line that an offset is in, from 1.
func (p *reader) lineOf(offset int) int { return 1 + bytes.Count(p.source[:offset], []byte("\n")) }

// words returns the text below a node, without its marks.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(source))
			if c.SoftLineBreak() {
				b.WriteByte(' ')
			}
		default:
			b.WriteString(words(c, source))
		}
	}
	return b.String()
}
