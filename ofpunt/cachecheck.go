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

// cache has one answer for all askers of a block. So it is refused above a plugin whose answer
// depends on the asker, and above an upstream that is told who asks. The plugins that can do so
// are template and whoami below cache, and rewrite, by what it adds to the question. acl, log,
// dnstap, audit and view are above cache or beside it.

// askerUse is where in a Corefile a plugin makes an answer depend on the asker.
type askerUse struct {
	plugin string
	at     caddyfile.Token
	// reads is what the plugin reads of the asker: a label, or a word of its own.
	reads string
}

// findAskerUse looks in a server block for a cache, and an answer that it would store and that
// depends on the asker. It reports whether it has found them.
func findAskerUse(block caddyfile.ServerBlock) (cache caddyfile.Token, p askerUse, found bool) {
	tokens := block.Tokens["cache"]
	if len(tokens) == 0 {
		return cache, p, false
	}
	cached := cachedZones(block)
	fixed := fixedLabels(block.Tokens["view"])
	for _, p := range slices.Concat(templateUses(block), rewriteUses(block), whoamiUses(block)) {
		if !isFixed(fixed, p.reads) && overlap(cached, p.zones) {
			return tokens[0], p.askerUse, true
		}
	}
	return cache, p, false
}

// zonedAskerUse is an askerUse for the names of some zones.
type zonedAskerUse struct {
	askerUse
	zones []string
}

// askerUseError says what is wrong with a block of the file and what to write instead.
func askerUseError(file string, b *block, cache caddyfile.Token, p askerUse) error {
	return fmt.Errorf("%s - ofpunt %s: cache at %s gives others what %s at %s makes for one asker (it reads %s); expected a block without cache for those names, or one for each asker with a view that compares metadata('%s/...') by ==",
		b, b.options.Bridge, locationOf(file, cache), p.plugin, locationOf(file, p.at), p.reads, name)
}

// locationOf returns the file and line of a token, which has no file unless it was imported.
func locationOf(file string, t caddyfile.Token) string {
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

// templateUses returns the templates of a block that read something of the asker.
func templateUses(block caddyfile.ServerBlock) (all []zonedAskerUse) {
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
				all = append(all, zonedAskerUse{askerUse{"template", at, what}, zones})
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

// readByTemplate returns what the text of a template reads of the asker, empty for nothing
// (text/template; the fields are those of the plugin template).
func readByTemplate(text string) string {
	for _, action := range actionText.FindAllString(text, -1) {
		if remoteField.MatchString(action) {
			return ".Remote"
		}
		for _, m := range metaCall.FindAllStringSubmatch(action, -1) {
			if label := m[1] + m[2]; label == "" || dependsOnAsker(label) {
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

// readByExpression returns what an expression reads of the asker, empty for nothing (the
// functions are those of CoreDNS's package expression).
func readByExpression(text string) string {
	for _, m := range metadataCall.FindAllStringSubmatch(text, -1) {
		if label := m[1] + m[2]; label == "" || dependsOnAsker(label) {
			return cmp.Or(label, "metadata")
		}
	}
	return askerFunc.FindString(stringText.ReplaceAllString(text, ""))
}

// dependsOnAsker reports whether a label of metadata differs between the askers of a block.
func dependsOnAsker(label string) bool {
	return strings.HasPrefix(label, name+"/") && label != name+"/bridge"
}

// rewriteUses returns the rewrite rules of a block that tell the upstream who asks:
// "rewrite [continue|stop] edns0 local|subnet|nsid set|append|replace ...". Rules for names are
// none: they change the key of cache too.
func rewriteUses(block caddyfile.ServerBlock) (all []zonedAskerUse) {
	zones := plugin.OriginsFromArgsOrServerBlock(nil, block.Keys)
	d := dispenser(block.Tokens["rewrite"])
	for d.Next() {
		at := caddyfile.Token{File: d.File(), Line: d.Line()}
		args := rewriteArgs(&d)
		i := slices.IndexFunc(args[:min(2, len(args))], func(s string) bool { return strings.EqualFold(s, "edns0") })
		if i < 0 || len(args) < i+3 || strings.EqualFold(args[i+2], "unset") {
			continue
		}
		switch strings.ToLower(args[i+1]) {
		case "subnet":
			all = append(all, zonedAskerUse{askerUse{"rewrite", at, "the client's address"}, zones})
		case "local":
			if len(args) > i+4 {
				if what := readByVariable(args[i+4]); what != "" {
					all = append(all, zonedAskerUse{askerUse{"rewrite", at, what}, zones})
				}
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

// readByVariable returns what a variable of rewrite says of the asker, empty for nothing.
func readByVariable(value string) string {
	variable, ok := strings.CutPrefix(value, "{")
	if variable, closed := strings.CutSuffix(variable, "}"); ok && closed {
		switch variable {
		case "client_ip", "client_port", "server_ip", "server_port":
			return variable
		}
		if dependsOnAsker(variable) {
			return variable
		}
	}
	return ""
}

// whoamiUses returns the use of whoami, which answers with the client's address.
func whoamiUses(block caddyfile.ServerBlock) []zonedAskerUse {
	tokens := block.Tokens["whoami"]
	if len(tokens) == 0 {
		return nil
	}
	zones := plugin.OriginsFromArgsOrServerBlock(nil, block.Keys)
	return []zonedAskerUse{{askerUse{"whoami", tokens[0], "the client's address"}, zones}}
}

var (
	fixedLabel = regexp.MustCompile(`\bmetadata\(\s*(?:'([^']*)'|"([^"]*)")\s*\)\s*==`)
	// alternative matches an operator by which a comparison need not hold.
	alternative = regexp.MustCompile(`\|\||!|\?|\b(?:or|not|in)\b`)
)

// fixedLabels returns the labels that have one value for all queries that a view lets through;
// externalIDLabel stands for those of all keys.
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
		// A logical port is of one switch, has one OpenFlow port and tag, and external_ids of
		// its own.
		labels = append(labels, networkLabel, name+"/in-port", name+"/vlan", externalIDLabel)
	}
	if slices.Contains(labels, networkLabel) {
		labels = append(labels, switchLabel, routerLabel) // but not the other way round: switches may share a name, or a router
	}
	return labels
}

// isFixed reports whether a label is among those that fixedLabels has returned.
func isFixed(fixed []string, label string) bool {
	return slices.Contains(fixed, label) || strings.HasPrefix(label, externalIDLabel) && slices.Contains(fixed, externalIDLabel)
}
