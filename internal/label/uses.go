// SPDX-License-Identifier: Apache-2.0

package label

import (
	"maps"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// Use is a place in a Corefile where a plugin reads a label of ofpunt.
type Use struct {
	Plugin, Label string
	At            caddyfile.Token
	// closed is set if the text ends behind the label: if not, it goes on with a character that no
	// label has.
	closed bool
}

// Block is what a server block reads.
type Block struct {
	// Uses are sorted by plugin.
	Uses []Use
	// Labels are the labels that queries of the block need a value of: those that the block names, in
	// whatever directive but ofpunt, whose limits are of guests and not of queries. They are all labels if
	// the block computes names of labels, or has a plugin that may read labels which the Corefile does not
	// name.
	Labels []Label
	// Policies are the labels of the policies of egress, which reads them without metadata.
	Policies []Use
	// ComparedNames are the names of switches that views and policies of egress compare, sorted, each once.
	ComparedNames []string
	// hasMetadata is set if the block has the directive metadata.
	hasMetadata bool
	// Literals are labels that rewrite takes for a part of a name.
	Literals []Literal
}

// Read reads a server block of a Corefile.
func Read(block caddyfile.ServerBlock) *Block {
	b := &Block{hasMetadata: len(block.Tokens["metadata"]) > 0, Literals: literals(block)}
	names := comparedNames(block)
	b.Policies = policies(block, func(name string) { names = append(names, name) })
	slices.Sort(names)
	b.ComparedNames = slices.Compact(names)
	computes := slices.ContainsFunc(slices.Collect(maps.Keys(block.Tokens)), isForeign)
	for _, reader := range slices.Sorted(slices.Values(traits.With(traits.ReadsLabels))) {
		whole, computed := computedLabels(reader, block)
		computes = computes || computed
		for _, t := range block.Tokens[reader] {
			for _, m := range labelText.FindAllStringSubmatch(t.Text, -1) {
				u := Use{Plugin: reader, Label: strings.TrimSuffix(m[0], m[1]), closed: m[1] != "", At: t}
				// Where the plugin computes names, a text may be a part of one.
				if !computed || whole[u.Label] {
					b.Uses = append(b.Uses, u)
				}
			}
		}
	}
	b.Labels = neededLabels(block, computes)
	return b
}

// policies returns the labels of the policies of egress: "policy LABEL VALUE". It calls onSwitch with each value that
// is the name of a switch.
func policies(block caddyfile.ServerBlock, onSwitch func(name string)) (all []Use) {
	tokens := block.Tokens["egress"]
	for i := 1; i+1 < len(tokens); i++ {
		before, t, value := &tokens[i-1], tokens[i], &tokens[i+1]
		if before.Text != "policy" || before.Line != t.Line || value.Line != t.Line {
			continue
		}
		if _, known := Named(t.Text); known {
			all = append(all, Use{Plugin: "egress", Label: t.Text, At: t, closed: true})
		}
		if name, ok := escape.Original(value.Text); ok && t.Text == Switch {
			onSwitch(name)
		}
	}
	return all
}

// labelText matches a label up to what closes it in the syntax of a reader: a quotation
// mark or a brace. The group is empty if something else follows.
var labelText = regexp.MustCompile(`\b` + prefix + "[^\\s'\"`{}]*(['\"`}]?)")

// Wrong says why a use has no value in its block, empty if it has one. The plugin would see an empty
// string, or the text as it is written.
func (b *Block) Wrong(u *Use) string {
	switch _, known := Named(u.Label); {
	case !u.closed || !known:
		return "is not a label of ofpunt; expected one of " + Expected(false)
	case !b.hasMetadata:
		return "is empty without metadata; expected a line with metadata in the block"
	}
	return ""
}

// IsFromOVN reports whether only the OVN databases have values of the label.
func (u *Use) IsFromOVN() bool {
	l, _ := Named(u.Label)
	return l.FromOVN
}

// neededLabels returns the labels of Block.Labels. With all they are all labels without a key, beside the
// named ones.
func neededLabels(block caddyfile.ServerBlock, all bool) (needed []Label) {
	texts := make(map[string]bool)
	for directive, tokens := range block.Tokens {
		if directive+"/" == prefix {
			continue
		}
		for _, t := range tokens {
			for _, m := range labelText.FindAllStringSubmatch(t.Text, -1) {
				texts[strings.TrimSuffix(m[0], m[1])] = true
			}
		}
	}
	for _, l := range labels {
		if all || texts[l.Name] {
			needed = append(needed, l)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if key, ok := keyOf(text); ok {
			needed = append(needed, OfKey(key))
		}
	}
	return needed
}

// isForeign reports whether a directive is of a plugin that is neither CoreDNS's nor of this
// project. Which labels its code reads is not known.
func isForeign(directive string) bool {
	setup, err := caddy.DirectiveAction("dns", directive)
	if err != nil {
		return false // a directive of the parser
	}
	return isForeignCode(runtime.FuncForPC(reflect.ValueOf(setup).Pointer()).Name())
}

// isForeignCode is isForeign by the name of the setup function, with its package.
func isForeignCode(function string) bool {
	return !strings.HasPrefix(function, "github.com/coredns/coredns/") && !strings.HasPrefix(function, "github.com/puntdns/puntdns/")
}

// Calls in expressions and templates that read a label of metadata. The groups are empty where the
// label is computed.
var (
	metadataCall = regexp.MustCompile(`\bmetadata\b\s*(?:\(\s*(?:'([^']*)'|"([^"]*)")\s*\))?`)
	metaCall     = regexp.MustCompile("\\.Meta\\b\\s*(?:\"([^\"]*)\"|`([^`]*)`)?")
)

// computedLabels returns the labels that a plugin of the block reads by a text that is the whole
// name. It reports whether the plugin computes the names of others.
func computedLabels(reader string, block caddyfile.ServerBlock) (whole map[string]bool, computes bool) {
	if !traits.Has(reader, traits.ComputesLabels) {
		return nil, false
	}
	var text strings.Builder
	for _, t := range block.Tokens[reader] {
		text.WriteString(t.Text + " ")
	}
	whole = make(map[string]bool)
	for _, call := range []*regexp.Regexp{metadataCall, metaCall} {
		for _, m := range call.FindAllStringSubmatch(text.String(), -1) {
			if label := m[1] + m[2]; label != "" {
				whole[label] = true
			} else {
				computes = true
			}
		}
	}
	return whole, computes
}

// Literal is a label that a rule of rewrite does not replace by its value.
type Literal struct {
	Label string
	At    caddyfile.Token
}

var bracedLabel = regexp.MustCompile(`\{(` + prefix + `[^\s{}]*)\}`)

// literals returns the labels in braces in the names of rewrite rules that lack the word
// metadata: "rewrite [continue|stop] name [TYPE] FROM TO [metadata]".
func literals(block caddyfile.ServerBlock) (all []Literal) {
	d := caddyfile.NewDispenserTokens("", block.Tokens["rewrite"])
	for d.Next() {
		at := caddyfile.Token{File: d.File(), Line: d.Line()}
		args := rewriteArgs(&d)
		i := slices.IndexFunc(args[:min(2, len(args))], func(s string) bool { return strings.EqualFold(s, "name") })
		if i < 0 || len(args) > i+4 && args[i+4] == "metadata" {
			continue
		}
		for _, arg := range args[i+1:] {
			for _, m := range bracedLabel.FindAllStringSubmatch(arg, -1) {
				all = append(all, Literal{m[1], at})
			}
		}
	}
	return all
}

// rewriteArgs returns the words of the rule that d stands before, those in braces included.
func rewriteArgs(d *caddyfile.Dispenser) []string {
	args := d.RemainingArgs()
	if len(args) < 2 {
		for d.NextBlock() {
			args = append(args, d.Val())
		}
	}
	return args
}
