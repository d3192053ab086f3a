// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"strings"

	"github.com/rivo/uniseg"
)

type column struct {
	heading string
	layout  layout
}

// layout says when a column is shown, and how a cell is fitted.
type layout uint8

const (
	// wide: only with -o wide.
	wide layout = 1 << iota
	cut
	// wrap continues on the next line. Only for the last column.
	wrap
)

const (
	gap = 2
	// leastCut and leastWrap are the smallest widths of such columns.
	leastCut  = 8
	leastWrap = 24
	ellipsis  = "…"
)

// widthOf returns the columns on a terminal.
func widthOf(text string) int { return uniseg.StringWidth(text) }

// cutTo ends a cut text with an ellipsis.
func cutTo(text string, width int) string {
	if widthOf(text) <= width {
		return text
	}
	fits, _ := splitAt(text, width-widthOf(ellipsis))
	return fits + ellipsis
}

// splitAt splits after the last grapheme that fits.
func splitAt(text string, width int) (fits, rest string) {
	rest = text
	for state := -1; rest != ""; {
		_, behind, n, next := uniseg.FirstGraphemeClusterInString(rest, state)
		if n > width {
			break
		}
		rest, state, width = behind, next, width-n
	}
	return text[:len(text)-len(rest)], rest
}

// wrapTo breaks at spaces, and within a word that is longer than a line.
func wrapTo(text string, width int) (lines []string) {
	if widthOf(text) <= width {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && widthOf(line)+1+widthOf(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for widthOf(word) > width {
			head, rest := splitAt(word, width)
			if head == "" {
				break // not even one character fits
			}
			lines, word = append(lines, head), rest
		}
		line = word
	}
	return append(lines, line)
}

// fit shrinks the widest columns down to least, until the row fits. least is 0 for a column that keeps its
// width.
func fit(widths, least []int, room int) {
	room -= gap * (len(widths) - 1)
	for _, w := range widths {
		room -= w
	}
	for ; room < 0; room++ {
		widest := -1
		for i, w := range widths {
			if least[i] > 0 && w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (p *page) table(columns []column, rows [][]cell) {
	var kept []int
	for i, c := range columns {
		if c.layout&wide == 0 || p.wide {
			kept = append(kept, i)
		}
	}
	heading := make([]cell, len(columns))
	for i, c := range columns {
		heading[i] = cell{text: c.heading}
	}
	all := make([][]cell, 0, len(rows)+1)
	widths, least := make([]int, len(kept)), make([]int, len(kept))
	for _, row := range append([][]cell{heading}, rows...) {
		shown := make([]cell, len(kept))
		for i, from := range kept {
			shown[i] = row[from]
			widths[i] = max(widths[i], widthOf(shown[i].text))
		}
		all = append(all, shown)
	}
	if p.columns > 0 {
		for i, from := range kept {
			switch columns[from].layout & (cut | wrap) {
			case cut:
				least[i] = max(leastCut, widthOf(columns[from].heading))
			case wrap:
				least[i] = leastWrap
			}
		}
		fit(widths, least, p.columns)
	}
	for _, row := range all {
		p.row(row, widths)
	}
}

// row continues a last cell that does not fit below.
func (p *page) row(cells []cell, widths []int) {
	var line strings.Builder
	indent, last := 0, len(cells)-1
	for i, c := range cells[:last] {
		if p.columns > 0 {
			c.text = cutTo(c.text, widths[i])
		}
		line.WriteString(p.paint(c))
		line.WriteString(strings.Repeat(" ", max(0, widths[i]-widthOf(c.text))+gap))
		indent += widths[i] + gap
	}
	parts := []string{cells[last].text}
	if p.columns > 0 {
		parts = wrapTo(parts[0], widths[last])
	}
	for i, part := range parts {
		if i > 0 {
			line.WriteString("\n" + strings.Repeat(" ", indent))
		}
		line.WriteString(p.paint(cell{part, cells[last].colour}))
	}
	p.text.WriteString(line.String() + "\n")
}

// facts writes a list of names and values.
func (p *page) facts(rows [][2]cell) {
	const indent = "  "
	width := 0
	for _, row := range rows {
		width = max(width, widthOf(row[0].text))
	}
	room := max(leastWrap, p.columns-len(indent)-width-gap)
	for _, row := range rows {
		row[0].text = indent + row[0].text
		p.row(row[:], []int{len(indent) + width, room})
	}
}

// sentence wraps a line at the terminal's width.
func (p *page) sentence(c cell) {
	if p.columns == 0 {
		p.line(c)
		return
	}
	for _, part := range wrapTo(c.text, p.columns) {
		p.line(cell{part, c.colour})
	}
}
