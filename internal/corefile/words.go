// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"slices"
	"strings"
)

// One returns the only word of a property. want is what the error says was expected.
func One(words []string, want string) (string, error) {
	if len(words) != 1 {
		return "", fmt.Errorf("%q: expected %s", words, want)
	}
	return words[0], nil
}

// Choice returns the only word of a property, which is one of some.
func Choice(words []string, some ...string) (string, error) {
	want := strings.Join(some, " or ")
	word, err := One(words, want)
	if err == nil && !slices.Contains(some, word) {
		err = fmt.Errorf("%q: expected %s", word, want)
	}
	return word, err
}
