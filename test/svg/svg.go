// SPDX-License-Identifier: Apache-2.0

// Package svg makes the drawings of the documentation: text, boxes, arrows and bars, at the width of
// a page. It knows nothing of what a drawing shows.
//
// A drawing has its own background, in light and in dark, since a page may have either behind it. It
// also knows where its texts are, so that a test can find texts that overlap or are cut off.
package svg

import (
	"encoding/xml"
	"fmt"
	"strings"
)

const (
	// Width is the width of a README, in pixels. A drawing is shown in its own size there.
	Width = 830
	// Size is the height of the usual letters, in pixels, and the least of all.
	Size = 14
)

// The families are those of the system that shows the drawing: a picture of a page loads no font.
const (
	sans = `-apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif`
	mono = `ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace`
)

// A Drawing is an SVG document in the making.
type Drawing struct {
	title  string
	height float64
	// shapes and words are apart, so that words are above shapes.
	shapes, words strings.Builder
	texts         []text
}

// text is where a text is.
type text struct {
	says                     string
	left, top, right, bottom float64
}

// Point is a place in a drawing, in pixels from its left upper corner.
type Point struct{ X, Y float64 }

// At returns a place.
func At(x, y float64) Point { return Point{x, y} }

// New returns an empty drawing. A reader that can't see it gets the title.
func New(title string, height float64) *Drawing { return &Drawing{title: title, height: height} }

// Anchor is the side of a text that its place is at.
type Anchor string

// Anchors of texts.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Text writes a line at a place of its baseline. The class is one of the style sheet, or empty.
func (d *Drawing) Text(at Point, anchor Anchor, class, says string) {
	size := float64(Size)
	if strings.Contains(class, "title") {
		size = titleSize
	}
	wide := TextWidth(says, size)
	if strings.Contains(class, "title") || strings.Contains(class, "strong") {
		wide *= bolder
	}
	left := at.X
	switch anchor {
	case Middle:
		left -= wide / 2
	case End:
		left -= wide
	}
	d.texts = append(d.texts, text{says, left, at.Y - .75*size, left + wide, at.Y + .2*size})
	fmt.Fprintf(&d.words, `<text x="%s" y="%s"%s%s>%s</text>`+"\n", number(at.X), number(at.Y), attribute("text-anchor", strings.TrimPrefix(string(anchor), "start")), attribute("class", class), escape(says))
}

// Box is a rectangle of a drawing.
type Box struct{ X, Y, W, H float64 }

// Area returns a box with its left upper corner at a place.
func Area(x, y, w, h float64) Box { return Box{x, y, w, h} }

// Left, Right, Top and Bottom return the place on that side, part of the way from its left or upper end.
func (b Box) Left(part float64) Point   { return Point{b.X, b.Y + part*b.H} }
func (b Box) Right(part float64) Point  { return Point{b.X + b.W, b.Y + part*b.H} }
func (b Box) Top(part float64) Point    { return Point{b.X + part*b.W, b.Y} }
func (b Box) Bottom(part float64) Point { return Point{b.X + part*b.W, b.Y + b.H} }

// Box draws a box with lines in its middle, the first of them strong.
func (d *Drawing) Box(b Box, class string, lines ...string) Box {
	d.Rect(b, class, 6)
	const step = 19
	y := b.Y + b.H/2 - float64(len(lines)-1)*step/2 + Size*.35
	for i, line := range lines {
		style := "dim"
		if i == 0 {
			style = "strong"
		}
		d.Text(Point{b.X + b.W/2, y + float64(i)*step}, Middle, style, line)
	}
	return b
}

// Rect draws a rectangle without text.
func (d *Drawing) Rect(b Box, class string, round float64) {
	fmt.Fprintf(&d.shapes, `<rect x="%s" y="%s" width="%s" height="%s" rx="%s"%s/>`+"\n", number(b.X), number(b.Y), number(b.W), number(b.H), number(round), attribute("class", class))
}

// Arrow draws a line through points, with a head at its end.
func (d *Drawing) Arrow(class string, points ...Point) {
	d.line(strings.TrimSpace("line "+class), ` marker-end="url(#head)"`, points)
}

// Line draws a line through points.
func (d *Drawing) Line(class string, points ...Point) {
	d.line(strings.TrimSpace("line "+class), "", points)
}

func (d *Drawing) line(class, more string, points []Point) {
	var path strings.Builder
	for i, p := range points {
		fmt.Fprintf(&path, "%s%s %s", map[bool]string{true: "M", false: "L"}[i == 0], number(p.X), number(p.Y))
	}
	fmt.Fprintf(&d.shapes, `<path d="%s"%s%s/>`+"\n", path.String(), attribute("class", class), more)
}

const (
	titleSize = 18
	bolder    = 1.1 // how much wider bold letters are
)

// style has a light half, and a dark one of which only colours differ.
const style = `text{font:14px ` + sans + `;fill:#1f2328}
.title{font-size:18px}.title,.strong{font-weight:600}.dim{fill:#59636e}
.page{fill:#fff;stroke:#d1d9e0}.box{fill:#f6f8fa;stroke:#818b98}.main{fill:#dafbe1;stroke:#1a7f37}
.red{fill:#ffebe9;stroke:#cf222e}.blue{fill:#ddf4ff;stroke:#0969da}.inner{fill:#fff;stroke:#1a7f37}
.node{fill:none;stroke:#818b98;stroke-dasharray:5 4}
.line{fill:none;stroke:#59636e;stroke-width:1.5}.thin{stroke-width:1}.range{stroke:#1f2328}#head{fill:#59636e}
.ours{fill:#2da44e}.theirs{fill:#afb8c1}.more{fill:#8fd6a2}.theirs.more{fill:#d8dee4}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.dim{fill:#9198a1}
.page{fill:#0d1117;stroke:#3d444d}.box{fill:#151b23;stroke:#656c76}.main{fill:#12261e;stroke:#3fb950}
.red{fill:#25171c;stroke:#f85149}.blue{fill:#121d2f;stroke:#4493f8}.inner{fill:#0d1117;stroke:#3fb950}
.node{fill:none;stroke:#656c76}.line{stroke:#9198a1}.range{stroke:#f0f6fc}#head{fill:#9198a1}
.ours{fill:#238636}.theirs{fill:#656c76}.more{fill:#1d6b35}.theirs.more{fill:#3d444d}}
`

// String returns the document.
func (d *Drawing) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s" viewBox="0 0 %[1]d %[2]s" role="img">
<title>%s</title>
<style>%s</style>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"/></marker>
<rect class="page" x=".5" y=".5" width="%d" height="%s" rx="6"/>
%s%s</svg>
`, Width, number(d.height), escape(d.title), style, Width-1, number(d.height-1), d.shapes.String(), d.words.String())
}

// Problems returns what is wrong with the texts: each that leaves the drawing or overlaps another one.
func (d *Drawing) Problems() (all []string) {
	for i, t := range d.texts {
		if t.left < 0 || t.right > Width || t.top < 0 || t.bottom > d.height {
			all = append(all, fmt.Sprintf("%q is cut off", t.says))
		}
		for _, o := range d.texts[:i] {
			if t.left < o.right && o.left < t.right && t.top < o.bottom && o.top < t.bottom {
				all = append(all, fmt.Sprintf("%q and %q overlap", o.says, t.says))
			}
		}
	}
	return all
}

// TextWidth returns how wide a text of a size is at most, in pixels: as wide as in DejaVu Sans, the
// widest of the usual families.
func TextWidth(says string, size float64) float64 {
	var wide float64
	for _, r := range says {
		wide += letter(r)
	}
	return wide * size
}

// letter returns the width of a letter, as a part of the size.
func letter(r rune) float64 {
	switch {
	case strings.ContainsRune("',.IJijl ", r):
		return .32
	case strings.ContainsRune(`!()[]rt-/:;\f|`, r):
		return .4
	case strings.ContainsRune("#+<=>M^~%m@W&OQw", r):
		return .87
	case strings.ContainsRune("ABCRVXZDGHNUT", r):
		return .74
	}
	return .63
}

// number writes a length with a digit behind the point at most.
func number(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// attribute returns an attribute with a space before it, or nothing for an empty value.
func attribute(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" %s=%q", name, value)
}

func escape(s string) string {
	var b strings.Builder
	// A builder takes everything.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
