// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"fmt"
	"os"
	"regexp"
	"slices"
)

// variable is {$NAME} or {%NAME%}, which caddy replaces.
var variable = regexp.MustCompile(`\{\$([^}]+)\}|\{%(.+?)%\}`)

func expand(word string) string {
	return variable.ReplaceAllStringFunc(word, func(reference string) string {
		m := variable.FindStringSubmatch(reference)
		return os.Getenv(m[1] + m[2])
	})
}

// emptyVariables finds empty variables, each once in a line: the rest may be valid by accident, as a path in
// another folder.
func emptyVariables(r *reading) (all []string) {
	for _, t := range r.texts {
		for _, w := range t.words {
			for _, m := range variable.FindAllStringSubmatch(w.Text, -1) {
				text := fmt.Sprintf("%s: %s is unset or empty in the environment of this process, and is replaced by nothing; expected a value", positionOf(w), m[0])
				if os.Getenv(m[1]+m[2]) == "" && !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
	}
	return all
}
