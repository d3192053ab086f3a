// SPDX-License-Identifier: Apache-2.0

package svg_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/svg"
)

// A text that leaves a drawing or overlaps another one is found.
func TestProblems(t *testing.T) {
	d := svg.New("", 100)
	d.Text(svg.At(20, 50), svg.Start, "", "one text")
	d.Text(svg.At(20, 80), svg.Start, "", "below it")
	if got := d.Problems(); got != nil {
		t.Errorf("%q", got)
	}
	d.Text(svg.At(60, 55), svg.Start, "", "over it")
	d.Text(svg.At(svg.Width-20, 20), svg.Start, "strong", "at the end")
	if got, want := d.Problems(), []string{`"one text" and "over it" overlap`, `"at the end" is cut off`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A long line of a recording goes on in the next one, and a line without a space is too long.
func TestRecording(t *testing.T) {
	r := svg.NewRecording("", "$ run\n"+strings.Repeat("word ", 30)+"end\n")
	if got := r.Problems(); got != nil {
		t.Errorf("%q", got)
	}
	document := r.String()
	for _, want := range []string{`<tspan class="command">run</tspan>`, ">word word", ">  word", "word end<", "prefers-reduced-motion"} {
		if !strings.Contains(document, want) {
			t.Errorf("it lacks %q:\n%s", want, document)
		}
	}
	if got := svg.NewRecording("", strings.Repeat("x", svg.Columns+1)).Problems(); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
