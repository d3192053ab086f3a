// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/parse"

	"github.com/puntdns/puntdns/internal/corefile"
)

// rules find what a start takes and is hardly meant. A text begins with file and line.
var rules = []func(*reading) []string{
	emptyVariables,
	unmatchedImports,
	unpairedBraces,
	namelessBlocks,
	typographicQuotes,
	gluedComments,
	lostQuotes,
	eachBlock(privateForwards),
	eachBlock(resolvConfs),
	eachBlock(behindForward),
	uselessHedges,
	eachBlock(uselessFallthroughs),
	eachBlock(closedHosts),
	eachBlock(oddZones),
	eachBlock(unusedKeys),
	openSockets,
}

// notes find what may be intended. Only -check reports them.
var notes = []func(*reading) []string{eachBlock(nothingOutside)}

// Warn logs the warnings about a Corefile as a whole.
func Warn(in caddy.Input) { say(in, rules, log.Warning) }

// Note logs what an operator may have forgotten in a Corefile.
func Note(in caddy.Input) { say(in, notes, log.Info) }

func say(in caddy.Input, rules []func(*reading) []string, log func(...any)) {
	r := read(in)
	for _, find := range rules {
		for _, text := range find(r) {
			log(text)
		}
	}
}

func eachBlock(find func(path string, b *caddyfile.ServerBlock) []string) func(*reading) []string {
	return func(r *reading) (all []string) {
		for i := range r.blocks {
			all = append(all, find(r.path, &r.blocks[i])...)
		}
		return all
	}
}

func unmatchedImports(r *reading) (all []string) {
	for _, u := range r.unmatched {
		all = append(all, fmt.Sprintf("%s - import %s: no file matches; expected one, or no import", u.at, u.pattern))
	}
	return all
}

// typographicQuotes finds quotes of a word processor, which caddy takes for letters.
func typographicQuotes(r *reading) (all []string) {
	const quotes = "“”„‟‘’‚«»"
	for _, t := range r.texts {
		for _, w := range t.words {
			if plain := strings.Trim(w.Text, quotes); plain != w.Text {
				all = append(all, fmt.Sprintf("%s - %s: the typographic quotes are a part of the word; expected %s, or %q", positionOf(w), w.Text, plain, plain))
			}
		}
	}
	return all
}

// gluedComments finds comments without a space, as in 192.0.2.1#5353.
func gluedComments(r *reading) (all []string) {
	for _, t := range r.texts {
		line, end := 0, 0
		for i, w := range t.words {
			if w.Line != line {
				line, end = w.Line, 0
			}
			text := t.line(line)
			at := strings.Index(text[end:], w.Text)
			if at < 0 {
				continue // it has several lines, or escaped quotes
			}
			end += at + len(w.Text)
			if last := i+1 == len(t.words) || t.words[i+1].Line != line; last && strings.HasPrefix(text[end:], "#") {
				all = append(all, fmt.Sprintf("%s - %s: the comment that follows has no space before it; expected one if %s is a comment, and double quotes around the word if not", positionOf(w), w.Text, text[end:]))
			}
		}
	}
	return all
}

// lostQuotes finds double quotes in *view*: caddy removes them, and turns a text into a name, unless they
// enclose the expression.
func lostQuotes(r *reading) (all []string) {
	for i := range r.blocks {
		d := caddyfile.NewDispenserTokens(r.path, r.blocks[i].Tokens["view"])
		for d.Next() {
			d.RemainingArgs()
			for d.NextBlock() {
				at := caddyfile.Token{File: d.File(), Line: d.Line()}
				all = append(all, r.lostQuotesOf(at, d.RemainingArgs())...)
			}
		}
	}
	return all
}

func (r *reading) lostQuotesOf(at caddyfile.Token, words []string) (all []string) {
	t := r.textOf(at)
	if len(words) < 2 || t == nil {
		return nil
	}
	line := strings.ReplaceAll(t.line(at.Line), "\t", " ")
	for _, w := range words {
		quoted := `"` + strings.ReplaceAll(w, `"`, `\"`) + `"`
		if strings.Contains(line, " "+quoted) && !strings.HasPrefix(w, "'") && !strings.HasPrefix(w, "`") {
			all = append(all, fmt.Sprintf("%s - view: the double quotes of %s are lost before the expression is read; expected '%s' or `%s`", positionOf(at), quoted, w, w))
		}
	}
	return all
}

// oddZones finds networks and names that CoreDNS takes for a domain name.
func oddZones(path string, b *caddyfile.ServerBlock) (all []string) {
	if len(b.Keys) > 1 && slices.Contains(caddy.ValidDirectives(ServerType), b.Keys[0]) {
		all = append(all, fmt.Sprintf("%s: the server block has the name %s, which begins with a plugin; expected a zone such as . and the plugins between { and }", positionOfBlock(path, b), strings.Join(b.Keys, " ")))
	}
	for _, zone := range zonesOf(b) {
		if err := corefile.CheckNetwork(strings.TrimSuffix(zone, ".")); err != nil {
			all = append(all, fmt.Sprintf("%s: the server block %s: %v", positionOfBlock(path, b), strings.Join(b.Keys, " "), err))
		}
		if zone == "*." {
			all = append(all, fmt.Sprintf("%s: the server block %s is for the name * alone, and takes no other query; expected . for all names", positionOfBlock(path, b), strings.Join(b.Keys, " ")))
		}
	}
	for _, f := range forwardsOf(path, b) {
		if err := corefile.CheckNetwork(f.from); err != nil {
			all = append(all, fmt.Sprintf("%s - forward: %v", f.at, err))
		}
	}
	return all
}

// unusedKeys finds transports and ports of ofpunt blocks without a socket.
func unusedKeys(path string, b *caddyfile.ServerBlock) (all []string) {
	punts := positionsOf(path, []caddyfile.ServerBlock{*b}, "ofpunt")
	if len(punts) == 0 || len(b.Tokens["bind"]) > 0 {
		return nil
	}
	for _, key := range b.Keys {
		_, address := parse.Transport(key)
		if _, port, err := plugin.SplitHostPort(address); err == nil && (port != "" || address != key) {
			all = append(all, fmt.Sprintf("%s - ofpunt: without bind the block has no socket, so transport and port of %s mean nothing; address says which port guests ask", punts[0], key))
		}
	}
	return all
}

// openSockets finds open resolvers, and blocks beside ofpunt blocks that serve all who reach the node.
func openSockets(r *reading) (all []string) {
	puntsElsewhere := slices.ContainsFunc(r.blocks, func(b caddyfile.ServerBlock) bool { return len(b.Tokens["ofpunt"]) > 0 })
	for i := range r.blocks {
		b := &r.blocks[i]
		text := fmt.Sprintf("%s: the server block %s answers on all addresses of this node, on port %s unless its name has another", positionOfBlock(r.path, b), strings.Join(b.Keys, " "), dnsserver.Port)
		switch {
		case !onAllAddresses(b):
		case isResolver(r.path, b):
			all = append(all, text+", and forward asks for every name: it is an open resolver, which others use to attack third parties; expected ofpunt, bind with an address that only clients of yours reach, or acl")
		case puntsElsewhere && len(b.Tokens["bind"]) == 0:
			all = append(all, text+", as it has neither ofpunt nor bind; expected one of the two")
		}
	}
	return all
}

func onAllAddresses(b *caddyfile.ServerBlock) bool {
	if len(b.Tokens["bind"]) == 0 {
		return len(b.Tokens["ofpunt"]) == 0
	}
	return slices.ContainsFunc(b.Tokens["bind"], func(t caddyfile.Token) bool {
		a, err := netip.ParseAddr(t.Text)
		return err == nil && a.IsUnspecified()
	})
}

// isResolver reports whether a block forwards all names.
func isResolver(path string, b *caddyfile.ServerBlock) bool {
	for _, limits := range []string{"acl", "view", "tsig"} {
		if len(b.Tokens[limits]) > 0 {
			return false
		}
	}
	all := slices.ContainsFunc(zonesOf(b), func(zone string) bool { return zone == "." || zone == "*." })
	return all && slices.ContainsFunc(forwardsOf(path, b), func(f forwardLine) bool { return f.from == "." })
}

// zonesOf returns FQDNs.
func zonesOf(b *caddyfile.ServerBlock) (all []string) {
	for _, key := range b.Keys {
		all = append(all, plugin.Host(key).NormalizeExact()...)
	}
	return all
}

// positionOfBlock returns the first directive: caddy does not store the line of the names.
func positionOfBlock(path string, b *caddyfile.ServerBlock) corefile.Position {
	at := caddyfile.Token{}
	for _, tokens := range b.Tokens {
		if at.Line == 0 || tokens[0].Line < at.Line {
			at = tokens[0]
		}
	}
	return corefile.Position{File: cmp.Or(at.File, path), Line: at.Line}
}
