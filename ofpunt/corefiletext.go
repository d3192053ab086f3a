// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/coredns/caddy/caddyfile"
)

// How the text of a Corefile is read, beside what each directive reads of its own.

// locationOf returns the file and line of a token, which has no file unless it was imported.
func locationOf(file string, t caddyfile.Token) string {
	return fmt.Sprintf("%s:%d", cmp.Or(t.File, file), t.Line)
}

func dispenser(tokens []caddyfile.Token) caddyfile.Dispenser {
	return caddyfile.NewDispenserTokens("", tokens)
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

// Calls in expressions and templates that read a label of metadata. The groups are empty where the
// label is computed.
var (
	metadataCall = regexp.MustCompile(`\bmetadata\b\s*(?:\(\s*(?:'([^']*)'|"([^"]*)")\s*\))?`)
	metaCall     = regexp.MustCompile("\\.Meta\\b\\s*(?:\"([^\"]*)\"|`([^`]*)`)?")
)
