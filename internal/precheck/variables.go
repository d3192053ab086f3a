// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"bytes"
	"cmp"
	"os"
	"regexp"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/corefile"
)

// variable matches a reference to the environment, which caddy replaces by its value:
// {$NAME} or {%NAME%}.
var variable = regexp.MustCompile(`\{\$([^}]+)\}|\{%(.+?)%\}`)

// emptyVariable is a reference to a variable of the environment that is unset or empty.
type emptyVariable struct {
	reference string
	at        corefile.Position
}

// emptyVariables returns those of a Corefile and of the files that it imports, each once, in the
// order of their lines. Those of snippets that nobody imports are among them.
func emptyVariables(in caddy.Input) (empty []emptyVariable) {
	for file, text := range texts(in) {
		d := caddyfile.NewDispenser(file, bytes.NewReader(text)) // of the words as they are written
		for d.Next() {
			for _, m := range variable.FindAllStringSubmatch(d.Val(), -1) {
				if v := (emptyVariable{m[0], corefile.Position{File: file, Line: d.Line()}}); os.Getenv(m[1]+m[2]) == "" && !slices.Contains(empty, v) {
					empty = append(empty, v)
				}
			}
		}
	}
	slices.SortStableFunc(empty, func(a, b emptyVariable) int {
		return cmp.Or(cmp.Compare(a.at.File, b.at.File), cmp.Compare(a.at.Line, b.at.Line))
	})
	return empty
}

// texts returns what a Corefile and the files that it imports say, by path. Of an imported file it
// is known only if any word of it is in a server block.
func texts(in caddy.Input) map[string][]byte {
	all := map[string][]byte{in.Path(): in.Body()}
	blocks, err := ParseBlocks(in)
	if err != nil {
		return all // the start returns the error
	}
	for _, b := range blocks {
		for _, tokens := range b.Tokens {
			for _, t := range tokens {
				if _, known := all[t.File]; t.File != "" && !known {
					all[t.File], _ = os.ReadFile(t.File) // which ParseBlocks has just read
				}
			}
		}
	}
	return all
}

// warnOfVariables warns of variables that are replaced by nothing: what is left may be another
// value that is right, as a path in another folder.
func warnOfVariables(in caddy.Input) {
	for _, v := range emptyVariables(in) {
		log.Warningf("%s: %s is unset or empty in the environment of this process, and is replaced by nothing; expected a value", v.at, v.reference)
	}
}
