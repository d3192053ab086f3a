// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// uselessFallthroughs warns of fallthroughs behind which no plugin could answer.
func uselessFallthroughs(path string, b *caddyfile.ServerBlock) (warnings []string) {
	if resumes(b) {
		return nil
	}
	for _, directive := range caddy.ValidDirectives(ServerType) {
		at, found := propertyOf(path, b.Tokens[directive], "fallthrough")
		if !found || len(answerBehind(b, directive)) > 0 {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s - %s: fallthrough: no plugin behind it in the block answers by a name, so what it does not know gets SERVFAIL, and not NXDOMAIN; expected one there, such as forward, or no fallthrough", at, directive))
	}
	return warnings
}

// answerBehind returns the plugins of the block that answer by a name behind a directive.
func answerBehind(b *caddyfile.ServerBlock, directive string) (plugins []string) {
	directives := caddy.ValidDirectives(ServerType) // in the order of a query
	for _, d := range directives[slices.Index(directives, directive)+1:] {
		if len(b.Tokens[d]) > 0 && !traits.Has(d, traits.PassesOn) {
			plugins = append(plugins, d)
		}
	}
	return plugins
}

// closedHosts warns of *hosts* for all names without fallthrough, before plugins that answer by a name.
func closedHosts(path string, b *caddyfile.ServerBlock) []string {
	d := caddyfile.NewDispenserTokens("", b.Tokens["hosts"])
	if !d.Next() {
		return nil
	}
	at, args := corefile.Position{File: cmp.Or(d.File(), path), Line: d.Line()}, d.RemainingArgs()
	zones := plugin.OriginsFromArgsOrServerBlock(args[min(1, len(args)):], b.Keys) // the first word is the file
	_, falls := propertyOf(path, b.Tokens["hosts"], "fallthrough")
	behind := answerBehind(b, "hosts")
	if falls || len(behind) == 0 || !slices.Contains(zones, ".") {
		return nil
	}
	return []string{fmt.Sprintf("%s - hosts: it takes every name of . and has no fallthrough, so a name that it does not know gets SERVFAIL and does not reach %s behind it (queries of type PTR do); expected fallthrough, or zones behind the file", at, strings.Join(behind, ", "))}
}

// nothingOutside finds ofpunt blocks for all names without a plugin for names outside the guest's network.
func nothingOutside(path string, b *caddyfile.ServerBlock) []string {
	punts := positionsOf(path, []caddyfile.ServerBlock{*b}, "ofpunt")
	if len(punts) == 0 || !slices.Contains(zonesOf(b), ".") || resumes(b) || len(uselessFallthroughs(path, b)) > 0 {
		return nil
	}
	for directive := range b.Tokens {
		if !traits.Has(directive, traits.PassesOn|traits.OfGuest) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s - ofpunt: no plugin of the block has names outside the guest's network, such as forward has, so guests get no address for them", punts[0])}
}

// resumes reports hijack mode, which resumes unanswered queries to the guest's server.
func resumes(b *caddyfile.ServerBlock) bool {
	d := caddyfile.NewDispenserTokens("", b.Tokens["ofpunt"])
	for d.Next() {
		d.RemainingArgs()
		for d.NextBlock() {
			if d.Val() == "address" && slices.Contains(d.RemainingArgs(), "any") {
				return true
			}
		}
	}
	return false
}

// propertyOf returns the line of a property of the last directive. All tokens are of directives of one name.
func propertyOf(path string, tokens []caddyfile.Token, name string) (at corefile.Position, found bool) {
	d := caddyfile.NewDispenserTokens("", tokens)
	for d.Next() {
		found = false
		d.RemainingArgs()
		for d.NextBlock() {
			if d.Val() == name {
				at, found = corefile.Position{File: cmp.Or(d.File(), path), Line: d.Line()}, true
			}
			d.RemainingArgs()
		}
	}
	return at, found
}
