// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Columns is how many letters a line of a terminal has at most.
const Columns = 103

const (
	terminalRows  = 26
	lineHeight    = 18
	margin        = 12
	letterWidth   = 7.83 // of the widest usual family
	prompt        = "$ "
	typing        = .025 // seconds a letter of a command takes
	printing      = .07  // seconds between two lines of an output
	thinking      = .5   // seconds from an empty prompt to the first letter
	reading       = 2.2  // seconds for what a command has printed
	readingAtLast = 4.5  // the same, before it all begins again
)

// A Recording is a session of a terminal, as a picture that moves: commands are typed, and their outputs
// scroll by. Where nothing moves, it is the end of the session.
type Recording struct {
	title string
	lines []line
	took  float64 // seconds
}

// line is a line of the terminal, from a time on.
type line struct {
	says  string
	at    float64 // seconds
	typed float64 // seconds that typing it takes, 0 for an output
}

// NewRecording returns the recording of a transcript: commands behind the prompt "$ ", and what they
// print. The pace is the recording's own; a line that is too long goes on in the next one.
func NewRecording(title, transcript string) *Recording {
	r := &Recording{title: title}
	now := 0.
	for text := range strings.Lines(transcript) {
		text = strings.TrimRight(text, "\n ")
		command, typed := strings.CutPrefix(text, prompt)
		if typed {
			if n := len(r.lines); n > 0 && r.lines[n-1].typed == 0 {
				now += reading
			}
			takes := thinking + typing*float64(len(command))
			r.lines = append(r.lines, line{says: text, at: now, typed: takes})
			now += takes + printing
			continue
		}
		for _, part := range wrapped(text) {
			r.lines = append(r.lines, line{says: part, at: now})
		}
		now += printing
	}
	r.lines = append(r.lines, line{says: prompt + "█", at: now})
	r.took = now + readingAtLast
	return r
}

// wrapped breaks a line between words, so that each part fits the terminal.
func wrapped(text string) (parts []string) {
	for utf8.RuneCountInString(text) > Columns {
		cut := strings.LastIndex(string([]rune(text)[:Columns+1]), " ")
		if strings.TrimSpace(text[:max(cut, 0)]) == "" {
			break
		}
		parts = append(parts, text[:cut])
		text = "  " + text[cut+1:]
	}
	return append(parts, text)
}

// Problems returns the lines that are too long.
func (r *Recording) Problems() (all []string) {
	for _, l := range r.lines {
		if utf8.RuneCountInString(l.says) > Columns {
			all = append(all, fmt.Sprintf("%q is cut off", l.says))
		}
	}
	if r.took > 20 {
		all = append(all, fmt.Sprintf("it takes %.0f s", r.took))
	}
	return all
}

// String returns the document.
func (r *Recording) String() string {
	const height = terminalRows*lineHeight + 2*margin
	var rules, body strings.Builder
	rule := func(name, timing, frames string) {
		fmt.Fprintf(&rules, ".%s{animation:%[1]s %[2]ss %[3]s infinite}@keyframes %[1]s{%[4]s}\n", name, number(r.took), timing, frames)
	}
	percent := func(at float64) string { return fmt.Sprintf("%.2f%%", 100*at/r.took) }
	scroll := "0%{transform:none}"
	for i, l := range r.lines {
		if above := i + 1 - terminalRows; above > 0 {
			scroll += fmt.Sprintf("%s{transform:translateY(-%dpx)}", percent(l.at), above*lineHeight)
		}
		class := fmt.Sprintf("l%d", i)
		if l.at > 0 {
			rule(class, "step-end", "0%{opacity:0}"+percent(l.at)+"{opacity:1}")
		}
		y := margin + i*lineHeight
		says := escape(l.says)
		if command, ok := strings.CutPrefix(says, prompt); ok {
			says = `<tspan class="prompt">$</tspan> <tspan class="command">` + command + "</tspan>"
		}
		fmt.Fprintf(&body, `<text xml:space="preserve" class="%s" x="%d" y="%d">%s</text>`+"\n", class, margin, y+13, says)
		if l.typed == 0 {
			continue
		}
		// A cover over the command, which gives its letters free from the left.
		letters := utf8.RuneCountInString(l.says) - len(prompt)
		first := l.at + thinking
		rule(fmt.Sprintf("c%d", i), "step-end", fmt.Sprintf("0%%{visibility:visible}%s{visibility:visible;transform:none;animation-timing-function:steps(%d)}%s{visibility:visible;transform:scaleX(0)}",
			percent(first), letters, percent(first+typing*float64(letters))))
		fmt.Fprintf(&body, `<rect class="cover c%d" x="%s" y="%d" width="%s" height="%d"/>`+"\n", i, number(margin+letterWidth*2), y, number(letterWidth*float64(letters)), lineHeight)
	}
	if above := len(r.lines) - terminalRows; above > 0 {
		rule("scroll", "step-end", scroll)
		return r.document(height, above*lineHeight, rules.String(), body.String())
	}
	return r.document(height, 0, rules.String(), body.String())
}

// document puts the parts together. The lines scroll below a window of the terminal's size.
func (r *Recording) document(height, above int, rules, body string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<style>text{font:13px %[4]s;fill:#d1d7e0;white-space:pre}
.prompt{fill:#3fb950}.command{fill:#fff;font-weight:600}
.page{fill:#0d1117;stroke:#3d444d}.cover{fill:#0d1117;visibility:hidden;transform-box:fill-box;transform-origin:100%% 0}
@media (prefers-reduced-motion:no-preference){
%[5]s}</style>
<rect class="page" x=".5" y=".5" width="%[6]d" height="%[7]d" rx="6"/>
<svg y="%[8]d" width="%[1]d" height="%[9]d" viewBox="0 %[8]d %[1]d %[9]d"><g class="scroll" transform="translate(0 -%[10]d)">
%[11]s</g></svg>
</svg>
`, Width, height, escape(r.title), mono, rules, Width-1, height-1, margin, height-2*margin, above, body)
}
