// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"strings"
)

// DidYouMean returns "; did you mean NAME?" with the name that is most like a word, or "" if no name is like it.
// Each of three letters may differ, up to three: a letter too many, too few, another one, or two that have
// changed places.
func DidYouMean(word string, names []string) string {
	best, least := "", len(word)
	for _, name := range names {
		if d := distance(strings.ToLower(word), name); d <= min(3, max(len(word), len(name))/3) && d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance returns how many letters two words differ by (optimal string alignment).
func distance(a, b string) int {
	before, last := []int{}, make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
