// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"fmt"

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
