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
	// closed is set if the text ends behind the label; else a character follows that no label has.
	closed bool
}

// Block is what a server block reads.
type Block struct {
	// Uses are sorted by plugin.
	Uses []Use
	// Labels are needed by queries: named in any directive but ofpunt, whose limits are of guests. They are
	// all if the block computes names, or has a foreign plugin.
	Labels []Label
	// Policies are labels of egress policies, which need no metadata.
	Policies []Use
	// ComparedNames are sorted switch names of views and egress policies.
	ComparedNames []string
	hasMetadata   bool
	Literals      []Literal
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
				// If the plugin computes names, a text may be a part of one.
				if !computed || whole[u.Label] {
					b.Uses = append(b.Uses, u)
				}
			}
		}
	}
	b.Labels = neededLabels(block, computes)
	return b
}

// policies returns the labels in "policy LABEL VALUE". It calls onSwitch with each name of a switch.
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

// labelText matches a label up to its closing quote or brace. The group is empty if something else follows.
var labelText = regexp.MustCompile(`\b` + prefix + "[^\\s'\"`{}]*(['\"`}]?)")

// Wrong says why a use has no value, else "". The plugin would see an empty string, or the text.
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

// neededLabels returns Block.Labels, with all including every label without a key.
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

// isForeign reports whether a plugin is neither CoreDNS's nor this project's, so its labels are unknown.
func isForeign(directive string) bool {
	setup, err := caddy.DirectiveAction("dns", directive)
	if err != nil {
		return false // a directive of the parser
	}
	return isForeignCode(runtime.FuncForPC(reflect.ValueOf(setup).Pointer()).Name())
}

// isForeignCode takes the setup function's name with its package.
func isForeignCode(function string) bool {
	return !strings.HasPrefix(function, "github.com/coredns/coredns/") && !strings.HasPrefix(function, "github.com/puntdns/puntdns/")
}

// Calls that read a label. The groups are empty for a computed name.
var (
	metadataCall = regexp.MustCompile(`\bmetadata\b\s*(?:\(\s*(?:'([^']*)'|"([^"]*)")\s*\))?`)
	metaCall     = regexp.MustCompile("\\.Meta\\b\\s*(?:\"([^\"]*)\"|`([^`]*)`)?")
)

// computedLabels returns labels read by their whole name, and whether the plugin computes others.
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

// Literal is a label that rewrite does not replace.
type Literal struct {
	Label string
	At    caddyfile.Token
}

var bracedLabel = regexp.MustCompile(`\{(` + prefix + `[^\s{}]*)\}`)

// literals returns labels in braces in rules without metadata: "rewrite [continue|stop] name [TYPE] FROM TO
// [metadata]".
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

func rewriteArgs(d *caddyfile.Dispenser) []string {
	args := d.RemainingArgs()
	if len(args) < 2 {
		for d.NextBlock() {
			args = append(args, d.Val())
		}
	}
	return args
}
