// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
)

// SetupErrors sets up all plugins as caddy does (executeDirectives), but goes on after an error. Only the
// first error of a block is certain: others may follow from it. The setups can't be undone.
func SetupErrors(in caddy.Input) []error {
	blocks, err := ParseBlocks(in)
	if err != nil {
		return []error{err}
	}
	c := caddy.NewTestController(ServerType, "")
	if blocks, err = c.Context().InspectServerBlocks(in.Path(), blocks); err != nil {
		return []error{err}
	}
	var all []error
	for _, directive := range caddy.ValidDirectives(ServerType) {
		for i := range blocks {
			if len(blocks[i].Tokens[directive]) == 0 {
				continue
			}
			at := *c
			at.Dispenser = caddyfile.NewDispenserTokens(in.Path(), blocks[i].Tokens[directive])
			at.ServerBlockIndex, at.ServerBlockKeys = i, blocks[i].Keys
			if len(blocks[i].Keys) > 0 {
				at.Key = blocks[i].Keys[0]
			}
			if err := setUp(&at, directive); err != nil {
				all = append(all, positioned(in.Path(), &blocks[i], directive, err))
			}
		}
	}
	return all
}

// setUp turns a panic into an error.
func setUp(c *caddy.Controller, directive string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("plugin/%s: panic: %v", directive, p)
		}
	}()
	setup, err := caddy.DirectiveAction(ServerType, directive)
	if err != nil {
		return err
	}
	return setup(c)
}

// positioned adds the directive's lines if missing.
func positioned(file string, block *caddyfile.ServerBlock, directive string, err error) error {
	if hasPosition.MatchString(err.Error()) {
		return err
	}
	return withPositions(positionsOf(file, []caddyfile.ServerBlock{*block}, directive), err)
}

func withPositions(all []corefile.Position, err error) error {
	text := ""
	for i, p := range all {
		if i > 0 {
			text += " or "
		}
		text += p.String()
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%s - %w", text, err)
}
