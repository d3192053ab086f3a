// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// cache has one answer for all askers of a block. So an answer must not depend on who
// asks where there is a cache above the plugin that makes it, or above the upstream
// that is told of the asker. The plugins that can learn of him there are template and
// whoami below cache, and rewrite, by what it adds to the question. acl, log, dnstap
// and view stand above cache or beside it.

// perAsker is a place in a Corefile where an answer becomes that of one asker.
type perAsker struct {
	plugin string
	at     caddyfile.Token
	// reads is what it takes of him: a label, or a word of the plugin's own.
	reads string
}

// sharedAnswer looks for a cache and a plugin that makes answers for one asker under
// it. Its tokens are those of one server block.
func sharedAnswer(block caddyfile.ServerBlock) (cache caddyfile.Token, p perAsker, found bool) {
	tokens := block.Tokens["cache"]
	if len(tokens) == 0 {
		return cache, p, false
	}
	cached := cachedZones(block)
	fixed := fixedLabels(block.Tokens["view"])
	for _, p := range slices.Concat(templateAskers(block), rewriteAskers(block), whoamiAskers(block)) {
		if !slices.Contains(fixed, p.reads) && overlap(cached, p.zones) {
			return tokens[0], p.perAsker, true
		}
	}
	return cache, p, false
}

// zonedAsker is a perAsker for the names of some zones.
type zonedAsker struct {
	perAsker
	zones []string
}

// sharedError says what is wrong with a block of the file and what to write instead.
func sharedError(file string, b *block, cache caddyfile.Token, p perAsker) error {
	return fmt.Errorf("%s - ofpunt %s: cache at %s gives others what %s at %s makes for one asker (it reads %s); expected a block without cache for those names, or one for each asker with a view that compares metadata('%s/...') by ==",
		b, b.options.Bridge, placeOf(file, cache), p.plugin, placeOf(file, p.at), p.reads, name)
}

// placeOf is the file and line of a token, which has no file where nothing is imported.
func placeOf(file string, t caddyfile.Token) string {
	return fmt.Sprintf("%s:%d", cmp.Or(t.File, file), t.Line)
}

// cachedZones are the zones of the block's cache: "cache [TTL] [ZONES...]".
func cachedZones(block caddyfile.ServerBlock) []string {
	d := dispenser(block.Tokens["cache"])
	d.Next()
	args := d.RemainingArgs()
	if len(args) > 0 {
		if _, err := strconv.Atoi(args[0]); err == nil {
			args = args[1:]
		}
	}
	return plugin.OriginsFromArgsOrServerBlock(args, block.Keys)
}

func dispenser(tokens []caddyfile.Token) caddyfile.Dispenser {
	return caddyfile.NewDispenserTokens("", tokens)
}

// overlap reports whether a name may be in a zone of either list.
func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(a string) bool {
		return slices.ContainsFunc(b, func(b string) bool { return dns.IsSubDomain(a, b) || dns.IsSubDomain(b, a) })
	})
}

// templateAskers looks at what the templates of a block are filled in with.
func templateAskers(block caddyfile.ServerBlock) (all []zonedAsker) {
	d := dispenser(block.Tokens["template"])
	for d.Next() {
		var zones []string
		if args := d.RemainingArgs(); len(args) > 2 { // CLASS TYPE [ZONE...]
			zones = args[2:]
		}
		zones = plugin.OriginsFromArgsOrServerBlock(zones, block.Keys)
		for d.NextBlock() {
			at := caddyfile.Token{File: d.File(), Line: d.Line()}
			find := func(string) string { return "" }
			switch d.Val() {
			case "answer", "additional", "authority":
				find = readByTemplate
			case "var", "expr":
				find = readByExpression
			}
			if what := find(strings.Join(d.RemainingArgs(), " ")); what != "" {
				all = append(all, zonedAsker{perAsker{"template", at, what}, zones})
			}
		}
	}
	return all
}

var (
	actionText  = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	remoteField = regexp.MustCompile(`\.Remote\b`)
	metaCall    = regexp.MustCompile("\\.Meta\\b\\s*(?:\"([^\"]*)\"|`([^`]*)`)?")
)

// readByTemplate is what the text of a template says of the asker, or nothing
// (text/template; the fields are those of the plugin template).
func readByTemplate(text string) string {
	for _, action := range actionText.FindAllString(text, -1) {
		if remoteField.MatchString(action) {
			return ".Remote"
		}
		for _, m := range metaCall.FindAllStringSubmatch(action, -1) {
			if label := m[1] + m[2]; label == "" || ofAsker(label) {
				return cmp.Or(label, ".Meta")
			}
		}
	}
	return ""
}

var (
	metadataCall = regexp.MustCompile(`\bmetadata\b\s*(?:\(\s*(?:'([^']*)'|"([^"]*)")\s*\))?`)
	stringText   = regexp.MustCompile("'[^']*'|\"[^\"]*\"|`[^`]*`")
	askerFunc    = regexp.MustCompile(`\b(?:client_ip|port|server_ip|server_port)\b`)
)

// readByExpression is what an expression says of the asker, or nothing (the functions
// are those of CoreDNS's package expression).
func readByExpression(text string) string {
	for _, m := range metadataCall.FindAllStringSubmatch(text, -1) {
		if label := m[1] + m[2]; label == "" || ofAsker(label) {
			return cmp.Or(label, "metadata")
		}
	}
	return askerFunc.FindString(stringText.ReplaceAllString(text, ""))
}

// ofAsker reports whether a label of metadata differs between the askers of a block.
func ofAsker(label string) bool {
	return strings.HasPrefix(label, name+"/") && label != name+"/bridge"
}

// rewriteAskers looks at what the rewrite rules of a block tell the upstream:
// "rewrite [continue|stop] edns0 local|subnet|nsid set|append|replace ...". Rules for
// names change the key of cache too.
func rewriteAskers(block caddyfile.ServerBlock) (all []zonedAsker) {
	zones := plugin.OriginsFromArgsOrServerBlock(nil, block.Keys)
	d := dispenser(block.Tokens["rewrite"])
	for d.Next() {
		at := caddyfile.Token{File: d.File(), Line: d.Line()}
		args := d.RemainingArgs()
		if len(args) < 2 {
			for d.NextBlock() {
				args = append(args, d.Val())
			}
		}
		i := slices.IndexFunc(args[:min(2, len(args))], func(s string) bool { return strings.EqualFold(s, "edns0") })
		if i < 0 || len(args) < i+3 || strings.EqualFold(args[i+2], "unset") {
			continue
		}
		switch strings.ToLower(args[i+1]) {
		case "subnet":
			all = append(all, zonedAsker{perAsker{"rewrite", at, "the client's address"}, zones})
		case "local":
			if len(args) > i+4 {
				if what := readByVariable(args[i+4]); what != "" {
					all = append(all, zonedAsker{perAsker{"rewrite", at, what}, zones})
				}
			}
		}
	}
	return all
}

// readByVariable is what a variable of rewrite says of the asker, or nothing.
func readByVariable(value string) string {
	variable, ok := strings.CutPrefix(value, "{")
	if variable, closed := strings.CutSuffix(variable, "}"); ok && closed {
		switch variable {
		case "client_ip", "client_port", "server_ip", "server_port":
			return variable
		}
		if ofAsker(variable) {
			return variable
		}
	}
	return ""
}

// whoamiAskers: whoami answers with the client's address.
func whoamiAskers(block caddyfile.ServerBlock) []zonedAsker {
	tokens := block.Tokens["whoami"]
	if len(tokens) == 0 {
		return nil
	}
	zones := plugin.OriginsFromArgsOrServerBlock(nil, block.Keys)
	return []zonedAsker{{perAsker{"whoami", tokens[0], "the client's address"}, zones}}
}

var (
	fixedLabel = regexp.MustCompile(`\bmetadata\(\s*(?:'([^']*)'|"([^"]*)")\s*\)\s*==`)
	// alternative is an operator by which a comparison need not hold.
	alternative = regexp.MustCompile(`\|\||!|\?|\b(?:or|not|in)\b`)
)

// fixedLabels are the labels that have one value for all askers of a view's block.
func fixedLabels(view []caddyfile.Token) (labels []string) {
	d := dispenser(view)
	for d.Next() {
		d.RemainingArgs() // its name
		for d.NextBlock() {
			if d.Val() != "expr" {
				continue
			}
			text := strings.Join(d.RemainingArgs(), " ")
			if alternative.MatchString(stringText.ReplaceAllString(text, "''")) {
				continue
			}
			for _, m := range fixedLabel.FindAllStringSubmatch(text, -1) {
				labels = append(labels, m[1]+m[2])
			}
		}
	}
	if slices.Contains(labels, name+"/port") {
		// The port is on one switch, and at one place of the bridge.
		labels = append(labels, name+"/switch", name+"/in-port", name+"/vlan")
	}
	return labels
}
