// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// picture is one of the report.
type picture struct{ name, title, svg string }

const (
	width, height = 720, 320
	left, right   = 260, 40
	top, bottom   = 50, 50
)

var colours = []string{"#1f77b4", "#7f7f7f", "#ff7f0e", "#2ca02c", "#d62728"}

// drawing is an SVG document in the making.
type drawing struct{ strings.Builder }

func newDrawing(title string, height int) *drawing {
	d := &drawing{}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, width, height)
	fmt.Fprintf(d, `<rect width="100%%" height="100%%" fill="white"/>`)
	d.text(width/2, 24, "middle", title)
	return d
}

func (d *drawing) text(x, y float64, anchor, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(s))
}

func (d *drawing) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x1, y1, x2, y2, colour)
}

func (d *drawing) done() string { return d.String() + "</svg>\n" }

// bars draws the medians of a table, with the range of the rounds.
func barsOf(t *table) string {
	const row = 34 // for each, in the height of the picture
	height := max(height, top+20+row*len(t.peers))
	d := newDrawing(t.name, height)
	most := 0.
	for _, p := range t.peers {
		most = max(most, slices.Max(t.values[p]))
	}
	step := float64(height-top-20) / float64(len(t.peers))
	scale := float64(width-left-right-60) / most
	for i, p := range t.peers {
		y := top + float64(i)*step
		v := t.values[p]
		fmt.Fprintf(d, `<rect x="%d" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, left, y+4, median(v)*scale, step-14, colours[i%len(colours)])
		middle := y + 4 + (step-14)/2
		d.line(left+slices.Min(v)*scale, middle, left+slices.Max(v)*scale, middle, "black")
		d.text(left-8, middle+4, "end", p)
		d.text(left+slices.Max(v)*scale+6, middle+4, "start", figure(median(v)))
	}
	return d.done()
}

// axis is one of a diagram with a logarithmic scale.
type axis struct{ from, to float64 }

func axisOf(values []float64) axis {
	a := axis{math.Inf(1), 0}
	for _, v := range values {
		a.from, a.to = min(a.from, v), max(a.to, v)
	}
	a.from = math.Pow(10, math.Floor(math.Log10(max(a.from, 1e-6))))
	a.to = math.Pow(10, math.Ceil(math.Log10(max(a.to, a.from*1.01))))
	return a
}

// at is where a value stands between 0 and 1.
func (a axis) at(v float64) float64 {
	return (math.Log10(max(v, a.from)) - math.Log10(a.from)) / (math.Log10(a.to) - math.Log10(a.from))
}

func (a axis) decades(yield func(float64) bool) {
	for v := a.from; v <= a.to*1.001; v *= 10 {
		if !yield(v) {
			return
		}
	}
}

type point struct{ x, y float64 }

// diagram draws a line for each series.
func diagram(title, xName string, names []string, series [][]point, linearY bool) string {
	d := newDrawing(title, height)
	var xs, ys []float64
	for _, s := range series {
		for _, p := range s {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	xAxis, yAxis := axisOf(xs), axisOf(ys)
	const x0, x1, y0, y1 = 70, width - 190, height - bottom, top
	px := func(v float64) float64 { return x0 + xAxis.at(v)*(x1-x0) }
	py := func(v float64) float64 {
		if linearY {
			return y0 + v*(y1-y0)
		}
		return y0 + yAxis.at(v)*(y1-y0)
	}
	for v := range xAxis.decades {
		d.line(px(v), y0, px(v), y1, "#dddddd")
		d.text(px(v), y0+18, "middle", strconv.FormatFloat(v, 'f', -1, 64))
	}
	if linearY {
		for _, v := range []float64{0, .25, .5, .75, 1} {
			d.line(x0, py(v), x1, py(v), "#dddddd")
			d.text(x0-8, py(v)+4, "end", fmt.Sprintf("%g %%", 100*v))
		}
	} else {
		for v := range yAxis.decades {
			d.line(x0, py(v), x1, py(v), "#dddddd")
			d.text(x0-8, py(v)+4, "end", strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	d.text((x0+x1)/2, height-12, "middle", xName)
	for i, s := range series {
		colour := colours[i%len(colours)]
		var path strings.Builder
		for _, p := range s {
			fmt.Fprintf(&path, "%.1f,%.1f ", px(p.x), py(p.y))
		}
		fmt.Fprintf(d, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, path.String(), colour)
		y := float64(y1 + 20*i + 10)
		d.line(x1+12, y-4, x1+32, y-4, colour)
		d.text(x1+38, y, "start", names[i])
	}
	return d.done()
}

// pictures draws what was measured.
func (r *report) pictures(sizes []size) []picture {
	var all []picture
	for name, table := range map[string]string{"local": tLocal, "cpu": tCPU, "forward": tForward500} {
		if t := r.measured(table); len(t.peers) > 0 {
			all = append(all, picture{name, t.name, barsOf(t)})
		}
	}
	if len(r.spread) > 0 {
		var names []string
		var series [][]point
		for _, p := range r.measured(tMedian).peers {
			names = append(names, p)
			series = append(series, cumulative(r.spread[p]))
		}
		const title = "latency at 2,000 queries/s: answered within"
		all = append(all, picture{"latency", title, diagram(title, "µs", names, series, true)})
	}
	for name, of := range map[string][]string{"memory": {tRSS, tHeap, tLocalMB}, "update": {tChanged, tRebuild}} {
		var series [][]point
		for _, table := range of {
			var s []point
			for _, size := range sizes {
				if v := r.measured(table).values[size.String()]; len(v) > 0 {
					s = append(s, point{float64(size.switches * size.names), median(v)})
				}
			}
			series = append(series, s)
		}
		if len(series[0]) > 0 {
			title := map[string]string{"memory": "memory by number of names, MB", "update": "one record changed, by number of names, ms"}[name]
			all = append(all, picture{name, title, diagram(title, "names", short(of), series, false)})
		}
	}
	slices.SortFunc(all, func(a, b picture) int { return strings.Compare(a.name, b.name) })
	return all
}

// short cuts the names of measures to what fits beside a diagram.
func short(names []string) []string {
	var all []string
	for _, n := range names {
		head, _, _ := strings.Cut(n, ", MB")
		head = strings.NewReplacer("one record changed, median ms", "in the answers", "rebuild after one record, ms", "rebuild", "resident memory after the sync", "resident",
			"live heap, everything", "live heap", "live heap, a node with 20 ports", "20 ports only").Replace(head)
		all = append(all, head)
	}
	return all
}

// cumulative is the share of answers that took so long at most.
func cumulative(took []time.Duration) []point {
	slices.Sort(took)
	var s []point
	for i := range 200 {
		q := float64(i) / 199
		s = append(s, point{float64(quantile(took, q).Nanoseconds()) / 1e3, q})
	}
	return s
}
