// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/ofpunt/config"
)

var (
	ofPlugin         = regexp.MustCompile(`^plugin/([a-z0-9_]+): `)
	unknownDirective = regexp.MustCompile(`Unknown directive '(.*)'$`)
	// servedTwice is about two blocks with one zone.
	servedTwice = regexp.MustCompile(`^cannot serve [a-z0-9]+://(\S+):\d+ (?:on \S+ )?- it is already defined$`)
	hasPosition = regexp.MustCompile(`:\d+ - `)
)

// WithPosition adds positions to a plugin's error: of all directives with its name, as caddy does not report
// which one failed. For an unknown directive it suggests a known one, or ofpunt's block for a property.
func WithPosition(in caddy.Input, err error) error {
	if err == nil {
		return nil
	}
	m := unknownDirective.FindStringSubmatch(err.Error())
	switch {
	case m != nil && config.HasProperty(m[1]):
		return fmt.Errorf("%w; %s is a property of ofpunt, expected it between { and } behind ofpunt", err, m[1])
	case m != nil:
		return fmt.Errorf("%w; expected one that -plugins lists%s", err, corefile.DidYouMean(m[1], caddy.ValidDirectives(ServerType)))
	}
	blocks, parseErr := ParseBlocks(in)
	if parseErr != nil {
		return err
	}
	if m := servedTwice.FindStringSubmatch(err.Error()); m != nil {
		return withPositions(positionsOfZone(in.Path(), blocks, m[1]), err)
	}
	m = ofPlugin.FindStringSubmatch(err.Error())
	if m == nil || hasPosition.MatchString(err.Error()) {
		return err
	}
	return withPositions(positionsOf(in.Path(), blocks, m[1]), err)
}

// positionsOfZone returns the first directive of each block.
func positionsOfZone(file string, blocks []caddyfile.ServerBlock, zone string) (all []corefile.Position) {
	for i := range blocks {
		if at := positionOfBlock(file, &blocks[i]); slices.Contains(zonesOf(&blocks[i]), zone) && at.Line > 0 {
			all = append(all, at)
		}
	}
	return all
}

// positionsOf returns each position once, in order.
func positionsOf(file string, blocks []caddyfile.ServerBlock, directive string) (all []corefile.Position) {
	for _, b := range blocks {
		depth, last := 0, corefile.Position{}
		tokens := b.Tokens[directive]
		for i, t := range tokens {
			at := corefile.Position{File: cmp.Or(t.File, file), Line: t.Line}
			switch {
			case t.Text == "{" && (i+1 == len(tokens) || tokens[i+1].Line != t.Line): // else a quoted word
				depth++
			case t.Text == "}" && at != last:
				depth--
			case depth == 0 && at != last && t.Text == directive && !slices.Contains(all, at):
				all = append(all, at)
			}
			last = at
		}
	}
	slices.SortFunc(all, func(a, b corefile.Position) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return all
}
