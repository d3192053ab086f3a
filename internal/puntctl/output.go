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

	"go.yaml.in/yaml/v3"

	"github.com/puntdns/puntdns/internal/escape"
)

const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML}

func (o *options) isForPeople() bool { return o.format == formatTable || o.format == formatWide }

// write writes an answer in the format of --output.
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
		p := o.newPage(w)
		table(p)
		text = p.text.Bytes()
	}
	_, err = w.Write(text)
	return err
}

// yamlOf converts JSON to block-style YAML in the same order. JSON is YAML once characters that YAML forbids
// are escaped.
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

// plain removes braces and needless quotation marks.
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

// page is output for a person.
type page struct {
	text    bytes.Buffer
	colours bool
	// columns is the terminal's width, 0 for no cutting and wrapping.
	columns int
	wide    bool
}

type cell struct {
	text   string
	colour colour
}

func said(text string) cell {
	if text == "" {
		text = "-"
	}
	return cell{text: escape.Line(text)}
}

func numberOf(n int) cell { return cell{text: strconv.Itoa(n)} }

func in(c colour, text string) cell { return cell{escape.Line(text), c} }

// newPage uses colours, cutting and wrapping only on a terminal. -o wide cuts nothing.
func (o *options) newPage(w io.Writer) *page {
	p := &page{wide: o.format == formatWide}
	if !isTerminal(w) {
		return p
	}
	p.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if !p.wide {
		_, p.columns = sizeOf(w.(*os.File)) // a terminal is a file
	}
	return p
}

func (p *page) paint(c cell) string {
	if !p.colours || c.colour == "" {
		return c.text
	}
	return "\x1b[" + string(c.colour) + "m" + c.text + "\x1b[0m"
}

func (p *page) line(cells ...cell) {
	for i, c := range cells {
		if i > 0 {
			p.text.WriteByte(' ')
		}
		p.text.WriteString(p.paint(c))
	}
	p.text.WriteByte('\n')
}

func (p *page) linef(format string, args ...any) {
	p.line(cell{text: escape.Line(fmt.Sprintf(format, args...))})
}

// seconds formats a duration: 250ms, 4.2s, 3m20s, 5h10m, 12d4h.
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
