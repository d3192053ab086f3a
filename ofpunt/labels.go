// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// label is a label of metadata. Its name is whole, so that no query has to put it together.
type label struct {
	name string
	// raw returns what the switch and the databases say.
	raw func(*origin.Origin) string
}

// value returns the value of the label for a query. Tenants choose some values, and plugins write
// them into logs: so what can't be printed is escaped.
func (l *label) value(o *origin.Origin) string { return escape.Value(l.raw(o)) }

// labels are those that need no key.
var labels = [...]label{
	{name + "/bridge", func(o *origin.Origin) string { return o.Bridge }},
	{inPortLabel, func(o *origin.Origin) string { return strconv.FormatUint(uint64(o.InPort), 10) }},
	{networkLabel, func(o *origin.Origin) string {
		if o.Network.IsZero() {
			return ""
		}
		return o.Network.String()
	}},
	{name + "/port", func(o *origin.Origin) string { return o.Port }},
	{routerLabel, func(o *origin.Origin) string {
		if o.Attributes == nil {
			return ""
		}
		return o.Attributes.Routers()
	}},
	{switchLabel, func(o *origin.Origin) string { return o.Switch }},
	{vlanLabel, func(o *origin.Origin) string { return strconv.Itoa(int(o.VLAN)) }},
	{name + "/client-mac", func(o *origin.Origin) string { return o.MAC.String() }},
	{name + "/destination", func(o *origin.Origin) string { return o.Destination.String() }},
}

const (
	networkLabel = name + "/network"
	switchLabel  = name + "/switch"
	routerLabel  = name + "/router"
	// externalIDLabel begins the labels for keys of the port's external_ids.
	externalIDLabel = name + "/external-id/"
)

// newExternalIDLabel returns the label for a key of external_ids.
func newExternalIDLabel(key string) label {
	return label{externalIDLabel + key, func(o *origin.Origin) string {
		if o.Attributes == nil {
			return ""
		}
		return o.Attributes.ExternalID(key)
	}}
}

// externalIDKey matches a key that a label may have: none of its characters ends a label, or has
// a meaning, in the syntax of a plugin that reads labels.
var externalIDKey = regexp.MustCompile(`^[A-Za-z0-9_.:/-]+$`)

// externalIDKeyOf returns the key of a label for external_ids. It reports whether the label is
// one, and its key one that a label may have.
func externalIDKeyOf(label string) (key string, ok bool) {
	key, ok = strings.CutPrefix(label, externalIDLabel)
	return key, ok && externalIDKey.MatchString(key)
}

// labelReaders are the plugins of the build that read labels of metadata: audit in its
// property fields, dnstap in its property extra, log in its format, rewrite in edns0 and in names with metadata, template in
// its texts and expressions, view in its expressions.
var labelReaders = []string{"audit", "dnstap", "log", "rewrite", "template", "view"}

// labelUse is a place in a Corefile where a plugin reads a label of ofpunt.
type labelUse struct {
	plugin, label string
	// closed is set if the text ends there: if not, it goes on with a character that no
	// label has.
	closed bool
	// computed is set if the text is no label by itself, but what the name of one is made of.
	computed bool
	at       caddyfile.Token
}

var (
	// labelText matches a label up to what closes it in the syntax of a reader: a quotation
	// mark or a brace. The group is empty if something else follows.
	labelText = regexp.MustCompile(`\b` + name + "/[^\\s'\"`{}]*(['\"`}]?)")
	// labelPart matches what labels for external_ids end in, behind a quotation mark.
	labelPart = regexp.MustCompile("['\"`]/?(external-id/[^\\s'\"`{}]*)(['\"`])")
)

// labelUses returns those of a block, in the order of labelReaders.
func labelUses(block caddyfile.ServerBlock) (uses []labelUse) {
	for _, reader := range labelReaders {
		whole, computes := readMetadata(reader, block)
		for _, t := range block.Tokens[reader] {
			for _, m := range labelText.FindAllStringSubmatch(t.Text, -1) {
				label := strings.TrimSuffix(m[0], m[1])
				uses = append(uses, labelUse{reader, label, m[1] != "", computes && !whole[label], t})
			}
			if computes {
				for _, m := range labelPart.FindAllStringSubmatch(t.Text, -1) {
					uses = append(uses, labelUse{reader, m[1], true, true, t})
				}
			}
		}
	}
	return uses
}

// wrongLabel says why a use has no value in its block, empty if it has one, or that is not
// known. The reader would see an empty string, or the text as it is written.
func wrongLabel(u labelUse, block caddyfile.ServerBlock) string {
	_, isKey := externalIDKeyOf(u.label)
	switch {
	case u.computed && !isKey:
		if strings.Contains(u.label, "external-id/") && !namesKey(block) {
			return fmt.Sprintf("is empty where its name is computed, as only keys that the block names in full are read; expected %sKEY in one text", externalIDLabel)
		}
	case !u.closed || !isKey && !slices.Contains(labelNames(), u.label):
		return fmt.Sprintf("is none of ofpunt's; expected one of %s, %sKEY with a key of letters, digits and _ . : / -", strings.Join(labelNames(), ", "), externalIDLabel)
	}
	if len(block.Tokens["metadata"]) == 0 {
		return "is empty without metadata; expected a line with metadata in the block"
	}
	return ""
}

// namesKey reports whether the block names a label for a key of external_ids in full.
func namesKey(block caddyfile.ServerBlock) bool {
	return slices.ContainsFunc(namedLabels(block), func(l label) bool {
		_, isKey := externalIDKeyOf(l.name)
		return isKey
	})
}

// literalLabel is a label that a rule of rewrite does not replace by its value.
type literalLabel struct {
	label string
	at    caddyfile.Token
}

var bracedLabel = regexp.MustCompile(`\{(` + name + `/[^\s{}]*)\}`)

// literalLabels returns the labels in braces in the names of rewrite rules that lack the word
// metadata: "rewrite [continue|stop] name [TYPE] FROM TO [metadata]".
func literalLabels(block caddyfile.ServerBlock) (literals []literalLabel) {
	d := dispenser(block.Tokens["rewrite"])
	for d.Next() {
		at := caddyfile.Token{File: d.File(), Line: d.Line()}
		args := rewriteArgs(&d)
		i := slices.IndexFunc(args[:min(2, len(args))], func(s string) bool { return strings.EqualFold(s, "name") })
		if i < 0 || len(args) > i+4 && args[i+4] == "metadata" {
			continue
		}
		for _, arg := range args[i+1:] {
			for _, m := range bracedLabel.FindAllStringSubmatch(arg, -1) {
				literals = append(literals, literalLabel{m[1], at})
			}
		}
	}
	return literals
}

// warnOfLiterals warns of labels that rewrite takes for a part of a name.
func (b *block) warnOfLiterals(block caddyfile.ServerBlock) {
	for _, l := range literalLabels(block) {
		log.Warningf("%s - ofpunt %s: rewrite at %s has {%s} in a rule without the word metadata, and takes it as it is written; expected rewrite name regex FROM TO metadata",
			b, b.options.Bridge, locationOf(b.file, l.at), l.label)
	}
}

// labelNames returns the names of all labels that need no key.
func labelNames() []string {
	names := make([]string, len(labels))
	for i := range labels {
		names[i] = labels[i].name
	}
	return names
}

// readLabels reads from a block of the file which labels it names. It returns an error for a
// view by a label that no query of the block has: it would match no query, or all. It warns of
// other plugins that read such a label.
func (b *block) readLabels(file string, block caddyfile.ServerBlock) error {
	b.file, b.labelUses = file, labelUses(block)
	b.labels, b.comparedNames = namedLabels(block), comparedNames(block)
	var all []error
	for _, u := range b.labelUses {
		all = append(all, b.refuseLabel(u, wrongLabel(u, block)))
	}
	b.warnOfLiterals(block)
	return errors.Join(all...)
}

// refuseLabel returns an error for a view by a label that is wrong, and warns of other plugins
// that read it. An empty text says that it is right.
func (b *block) refuseLabel(u labelUse, wrong string) error {
	if wrong == "" {
		return nil
	}
	err := fmt.Errorf("%s - ofpunt %s: %s at %s reads the label %s, which %s", b, b.options.Bridge, u.plugin, locationOf(b.file, u.at), u.label, wrong)
	if u.plugin == "view" {
		return err
	}
	log.Warning(err)
	return nil
}

// checkLabelsWithoutDatabase does so for labels that only the OVN databases have values for, if
// the bridge reads none.
func checkLabelsWithoutDatabase(blocks []*block) error {
	var all []error
	for _, b := range blocks {
		for _, u := range b.labelUses {
			if u.label != networkLabel && u.label != routerLabel {
				continue
			}
			all = append(all, b.refuseLabel(u, "is empty without an OVN database; expected ovnhosts in a block of this bridge"))
		}
	}
	return errors.Join(all...)
}

// namedLabels returns the labels that a block names, in whatever directive but ofpunt, whose limits
// are of guests and not of queries: its queries need no others. If the block computes names of
// labels, or has a plugin that may read labels which the Corefile does not name, each one may be
// meant.
func namedLabels(block caddyfile.ServerBlock) (named []label) {
	texts := make(map[string]bool)
	for directive, tokens := range block.Tokens {
		if directive == name {
			continue
		}
		for _, t := range tokens {
			for _, m := range labelText.FindAllStringSubmatch(t.Text, -1) {
				texts[strings.TrimSuffix(m[0], m[1])] = true
			}
		}
	}
	all := computesLabels(block) || slices.ContainsFunc(slices.Collect(maps.Keys(block.Tokens)), isForeign)
	for _, l := range labels {
		if all || texts[l.name] {
			named = append(named, l)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if key, ok := externalIDKeyOf(text); ok {
			named = append(named, newExternalIDLabel(key))
		}
	}
	return named
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

// computesLabels reports whether a plugin of the block reads a label whose name is no text in
// the Corefile.
func computesLabels(block caddyfile.ServerBlock) bool {
	return slices.ContainsFunc(labelReaders, func(reader string) bool {
		_, computes := readMetadata(reader, block)
		return computes
	})
}

// readMetadata returns the labels that a plugin of the block reads by a text that is the whole
// name. It reports whether the plugin computes the names of others.
func readMetadata(reader string, block caddyfile.ServerBlock) (whole map[string]bool, computes bool) {
	if reader != "template" && reader != "view" {
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

// addLabelRequests adds to r what labels need of the databases, and the names that one of them is
// compared with.
func addLabelRequests(r *ovndb.Requests, of []label, comparedNames []string) {
	r.ComparedNames = slices.Concat(r.ComparedNames, comparedNames)
	for _, l := range of {
		if key, ok := externalIDKeyOf(l.name); ok && !slices.Contains(r.ExternalIDs, key) {
			r.ExternalIDs = append(r.ExternalIDs, key)
		}
		r.RouterNames = r.RouterNames || l.name == routerLabel
	}
}
