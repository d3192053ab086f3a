// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
)

// SetupErrors sets up the plugins of all server blocks as caddy does (executeDirectives), but goes on after a
// plugin that fails. It returns the errors of all plugins, each with file and line. A plugin may fail only
// because a plugin that it needs has failed, so of each server block only the first error is certain.
// SetupErrors starts nothing; the setups can't be undone.
func SetupErrors(in caddy.Input) []error {
	blocks, err := ParseBlocks(in)
	if err != nil {
		return []error{err}
	}
	// It creates an instance that is never started.
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

// setUp sets up one plugin of one server block. A panic is its error.
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

// positioned returns an error with the lines of its directive in the block before it, if it does not say
// where it is.
func positioned(file string, block *caddyfile.ServerBlock, directive string, err error) error {
	if hasPosition.MatchString(err.Error()) {
		return err
	}
	return withPositions(positionsOf(file, []caddyfile.ServerBlock{*block}, directive), err)
}

// withPositions returns an error with places before it, which may be none.
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
