// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// figures has the tables of a page of results: the cells of each row behind the first, by the first
// cells of the table's header and of the row.
type figures struct {
	rows map[string]map[string][]string
	errs []string // what was asked for and is not there
}

// readFigures reads the tables of a page.
func readFigures(path string) (*figures, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &figures{rows: map[string]map[string][]string{}}
	table := ""
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			table = ""
		case strings.HasPrefix(cells[0], "---"):
		case table == "":
			table = cells[0]
			f.rows[table] = map[string][]string{}
		default:
			f.rows[table][cells[0]] = cells[1:]
		}
	}
	return f, nil
}

// figure is a median and the range of the rounds.
type figure struct{ median, low, high float64 }

// of returns the figure of a row. Without one it is added to the errors.
func (f *figures) of(table, row string) figure {
	cells := f.rows[table][row]
	if len(cells) < 2 {
		f.errs = append(f.errs, fmt.Sprintf("no row %q in the table %q", row, table))
		return figure{1, 1, 1}
	}
	low, high, ok := strings.Cut(cells[1], " to ")
	if !ok { // of the bars
		low, high = cells[0], cells[0]
	}
	return figure{f.number(cells[0]), f.number(low), f.number(high)}
}

func (f *figures) number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		f.errs = append(f.errs, err.Error())
	}
	return v
}

// rounded writes a number with two or three digits that count, and commas between thousands.
func rounded(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	step := math.Pow(10, max(0, math.Floor(math.Log10(v))-2))
	s := fmt.Sprintf("%.0f", math.Round(v/step)*step)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
