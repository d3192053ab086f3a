// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/puntdns/puntdns/internal/escape"
)

// The formats of the option output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// write writes an answer in the format that was asked for; table writes it as a table.
func (o *options) write(w io.Writer, answer any, table func(*page)) error {
	text, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return err
	}
	switch o.format {
	case formatJSON:
		text = append(escape.JSON(text), '\n')
	case formatYAML:
		if text, err = yamlOf(text); err != nil {
			return err
		}
	default:
		p := newPage(w)
		table(p)
		text = p.text.Bytes()
	}
	_, err = w.Write(text)
	return err
}

// yamlOf turns JSON, which is YAML too once what YAML forbids is escaped, into what YAML looks like. The
// fields stay in their order.
func yamlOf(text []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(escape.YAML(text), &root); err != nil {
		return nil, err
	}
	plain(&root)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, err
	}
	return escape.YAML(b.Bytes()), nil
}

// plain takes the style of JSON from a node: braces, and quotation marks where they are not needed.
func plain(n *yaml.Node) {
	n.Style = 0
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
	case escape.NeedsEscape(n.Value):
		n.Style = yaml.DoubleQuotedStyle
	default:
		n.SetString(n.Value)
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// colour is a colour of ECMA-48, 8.3.117.
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// page is what is shown to a person.
type page struct {
	text    bytes.Buffer
	colours bool
}

// cell is a word of a table, in a colour or in none.
type cell struct {
	text   string
	colour colour
}

// said returns a cell without a colour, with - for no text.
func said(text string) cell {
	if text == "" {
		text = "-"
	}
	return cell{text: escape.Line(text)}
}

// numberOf returns a cell with a number.
func numberOf(n int) cell { return cell{text: strconv.Itoa(n)} }

// in returns a cell in a colour.
func in(c colour, text string) cell { return cell{escape.Line(text), c} }

// newPage returns a page for an output. Only a terminal gets colours.
func newPage(w io.Writer) *page {
	return &page{colours: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (p *page) paint(c cell) string {
	if !p.colours || c.colour == "" {
		return c.text
	}
	return "\x1b[" + string(c.colour) + "m" + c.text + "\x1b[0m"
}

// line writes a line of cells with spaces between.
func (p *page) line(cells ...cell) {
	for i, c := range cells {
		if i > 0 {
			p.text.WriteByte(' ')
		}
		p.text.WriteString(p.paint(c))
	}
	p.text.WriteByte('\n')
}

// linef writes a line, in no colour.
func (p *page) linef(format string, args ...any) {
	p.line(cell{text: escape.Line(fmt.Sprintf(format, args...))})
}

func headingCells(heading []string) []cell {
	cells := make([]cell, len(heading))
	for i, h := range heading {
		cells[i] = cell{text: h}
	}
	return cells
}

// table writes rows below a heading, in columns.
func (p *page) table(heading []string, rows [][]cell) {
	widths := make([]int, len(heading))
	rows = append([][]cell{headingCells(heading)}, rows...)
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		for i, c := range row {
			p.text.WriteString(p.paint(c))
			if i < len(row)-1 {
				p.text.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		p.text.WriteByte('\n')
	}
}

// facts writes names and values in two columns, indented.
func (p *page) facts(rows [][2]cell) {
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[0].text))
	}
	for _, row := range rows {
		p.text.WriteString("  " + p.paint(row[0]) + strings.Repeat(" ", width-utf8.RuneCountInString(row[0].text)+2) + p.paint(row[1]) + "\n")
	}
}

// seconds returns a duration as a person reads it: 250ms, 4.2s, 3m20s, 5h10m, 12d4h.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	days := d / (24 * time.Hour)
	return fmt.Sprintf("%dd%dh", days, (d-days*24*time.Hour)/time.Hour)
}
