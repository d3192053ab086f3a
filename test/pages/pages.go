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
	"testing"
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
	// Sections are the texts below the headings, each up to the next heading, by the anchors that
	// GitHub gives the headings.
	Sections map[string]string
	Links    []Link
	Blocks   []Block
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
	Section  string // the page and the anchor of the last heading above, as PAGE#ANCHOR
	Number   int    // among the blocks of its language in its section, from 1
	Text     string // without the fences, and without the indentation that a list gives it
	// Prints is what stands in a block of the language txt right behind this one: what the
	// commands print. Empty if there is none.
	Prints string
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
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "dist" || entry.Name() == "testdata"):
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

// Load reads one page below the root of the project.
func Load(t testing.TB, root, path string) *Page {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return Parse(path, source)
}

// Section returns the text of a section and its blocks of one language. The section is named as by a
// link from the root of the project, PAGE#ANCHOR.
func Section(t testing.TB, root, section, language string) (text string, blocks []Block) {
	t.Helper()
	path, anchor, _ := strings.Cut(section, "#")
	page := Load(t, root, path)
	text, ok := page.Sections[anchor]
	if !ok {
		t.Fatalf("%s has no heading with the anchor #%s; if the heading has another name now, so has the section in this test", path, anchor)
	}
	for _, b := range page.Blocks {
		if b.Section == section && b.Language == language {
			blocks = append(blocks, b)
		}
	}
	return text, blocks
}

// Parse reads one page.
func Parse(path string, source []byte) *Page {
	p := &reader{Page: &Page{Path: path, Sections: map[string]string{}}, source: source, same: map[string]int{}, blocks: map[string]int{}}
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
	section string         // the anchor of the last heading
	same    map[string]int // how often there was an anchor
	blocks  map[string]int // how many blocks of a language the section has had
	line    int            // of the block that is being read
}

// node takes in one node of the tree.
func (p *reader) node(n ast.Node) {
	if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
		p.line = p.lineOf(n.Lines().At(0).Start)
	}
	switch n := n.(type) {
	case *ast.Heading:
		p.heading(n)
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
	language := string(n.Language(p.source))
	p.blocks[language]++
	b := Block{Line: p.line, Language: language, Section: p.Path + "#" + p.section, Number: p.blocks[language], Text: string(n.Lines().Value(p.source))}
	if next, ok := n.NextSibling().(*ast.FencedCodeBlock); ok && string(next.Language(p.source)) == "txt" {
		b.Prints = string(next.Lines().Value(p.source))
	}
	p.Blocks = append(p.Blocks, b)
}

// heading takes in a heading, which ends the section before and begins another.
func (p *reader) heading(n *ast.Heading) {
	if n.Lines().Len() == 0 {
		return // without a name
	}
	at := n.Lines().At(0)
	start := 1 + bytes.LastIndexByte(p.source[:at.Start], '\n')
	if before, ok := p.Sections[p.section]; ok {
		p.Sections[p.section] = strings.TrimSuffix(before, string(p.source[start:]))
	}
	p.section = p.anchor(words(n, p.source))
	_, text, _ := strings.Cut(string(p.source[at.Stop:]), "\n")
	p.Sections[p.section] = text
	clear(p.blocks)
}

// anchor returns the anchor of a heading, as GitHub makes it: letters, digits, hyphens and
// underscores, with a hyphen for each space, and a number behind one that was there before.
func (p *reader) anchor(heading string) string {
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
	return name
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
