// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// gap stands in what a page says that commands print for what is left out: in a line for any words,
// alone in a line for any lines.
const gap = "…"

// Printed returns an error if an output is not what a page says, whose gaps stand for anything.
func Printed(page, output string) error {
	var expr strings.Builder
	expr.WriteString(`\A`)
	for line := range strings.Lines(page) {
		if strings.TrimSpace(line) == gap {
			expr.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, gap) {
			if i > 0 {
				expr.WriteString(`.*`)
			}
			expr.WriteString(regexp.QuoteMeta(part))
		}
	}
	expr.WriteString(`\z`)
	if !regexp.MustCompile(expr.String()).MatchString(output) {
		return fmt.Errorf("it prints\n%sexpected\n%s", output, page)
	}
	return nil
}
