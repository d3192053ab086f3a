// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"strings"

	"github.com/rivo/uniseg"
)

// column is a column of a table.
type column struct {
	heading string
	layout  layout
}

// layout says when a column is shown, and what happens to a cell that does not fit the terminal.
type layout uint8

const (
	// wide columns are shown with -o wide only.
	wide layout = 1 << iota
	// cut shortens a cell.
	cut
	// wrap continues a cell on the next line. It is for the last column.
	wrap
)

const (
	// gap is the number of spaces between two columns.
	gap = 2
	// leastCut and leastWrap are the smallest widths to which a column shrinks.
	leastCut  = 8
	leastWrap = 24
	// ellipsis ends a text that was cut.
	ellipsis = "…"
)

// widthOf returns how many columns of a terminal a text takes.
func widthOf(text string) int { return uniseg.StringWidth(text) }

// cutTo returns the beginning of a text that fits a width, with an ellipsis if the text is longer.
func cutTo(text string, width int) string {
	if widthOf(text) <= width {
		return text
	}
	fits, _ := splitAt(text, width-widthOf(ellipsis))
	return fits + ellipsis
}

// splitAt splits a text behind the last character that fits a width.
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

// wrapTo breaks a text at spaces into lines that fit a width. It breaks a word that does not fit a line.
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

// fit shrinks the widest columns that may shrink, until all columns fit the room, or none may shrink further.
// least has the smallest width of each column, 0 for a column that keeps its width.
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

// table writes a table. On a terminal it fits the terminal.
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

// row writes the cells of a row of a table. Text of the last cell that does not fit continues below.
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

// sentence writes a line, which continues on the next one where it does not fit the terminal.
func (p *page) sentence(c cell) {
	if p.columns == 0 {
		p.line(c)
		return
	}
	for _, part := range wrapTo(c.text, p.columns) {
		p.line(cell{part, c.colour})
	}
}
