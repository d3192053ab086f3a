// SPDX-License-Identifier: Apache-2.0

package svg

import "slices"

// A Bar is a row of Bars. It has a value for each part, from the left.
type Bar struct {
	Name string
	// Ours sets it apart from what it is compared with.
	Ours bool
	// Parts are written into the bar if they have names.
	Parts []Part
	// Says is written behind the bar.
	Says string
	// Low and High are the ends of a line over the bar, both 0 for none.
	Low, High float64
}

// A Part of a bar.
type Part struct {
	Name  string
	Value float64
}

func (b *Bar) sum() (all float64) {
	for _, p := range b.Parts {
		all += p.Value
	}
	return all
}

// Bars draws one measure of several things: what follows from it, the measure with its unit, and a bar
// for each, all at one scale from 0.
func Bars(finding, measure string, bars []Bar) *Drawing {
	const (
		first, row, thick = 76, 38, 26
		zero, end         = 236, 720 // the bars' own place; what they say is behind it
	)
	d := New(finding+" ("+measure+")", float64(first+row*len(bars)+4))
	d.Text(At(16, 32), Start, "title", finding)
	d.Text(At(16, 56), Start, "dim", measure)
	most := 0.
	for i := range bars {
		most = slices.Max([]float64{most, bars[i].sum(), bars[i].High})
	}
	scale := (end - zero) / most
	for i, b := range bars {
		y := float64(first + i*row)
		base := y + thick/2 + Size*.35
		style, label := "theirs", ""
		if b.Ours {
			style, label = "ours", "strong"
		}
		d.Text(At(zero-10, base), End, label, b.Name)
		x := float64(zero)
		for n, p := range b.Parts {
			class := style
			if n > 0 {
				class += " more"
			}
			d.Rect(Area(x, y, p.Value*scale, thick), class, 0)
			if p.Name != "" {
				d.Text(At(x+8, base), Start, "", p.Name)
			}
			x += p.Value * scale
		}
		if b.High > 0 {
			d.Line("range", At(zero+b.Low*scale, y+thick/2), At(zero+b.High*scale, y+thick/2))
		}
		d.Text(At(max(x, zero+b.High*scale)+8, base), Start, "strong", b.Says)
	}
	d.Line("thin", At(zero, first-6), At(zero, float64(first+row*(len(bars)-1)+thick+6)))
	return d
}
