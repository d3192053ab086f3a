// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
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

// Duration returns the only word of a property as a duration. want is what the error says was expected, and valid reports whether
// a duration is that.
func Duration(words []string, want string, valid func(time.Duration) bool) (time.Duration, error) {
	word, err := One(words, want)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(word)
	if err != nil || !valid(d) {
		return 0, fmt.Errorf("%q: expected %s", word, want)
	}
	return d, nil
}

// Number returns the only word of a property as a number from least to most.
func Number(words []string, least, most int) (int, error) {
	want := fmt.Sprintf("a number from %d to %d", least, most)
	word, err := One(words, want)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q: expected %s", word, want)
	}
	return n, nil
}

var errSize = errors.New("expected a whole number with KiB, MiB or GiB")

// ParseSize returns the number of bytes that a word stands for, such as 64KiB.
func ParseSize(word string) (int64, error) {
	for unit, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if digits, ok := strings.CutSuffix(word, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 32)
			if err != nil {
				return 0, errSize
			}
			return int64(n) * bytes, nil
		}
	}
	return 0, errSize
}

// CheckNetwork returns an error for a word IP/LENGTH that is no network, such as 10.0.0.0/33. CoreDNS would
// take it for a domain name.
func CheckNetwork(word string) error {
	ip, _, _ := strings.Cut(word, "/")
	_, noAddress := netip.ParseAddr(ip)
	if _, err := netip.ParsePrefix(word); err != nil && noAddress == nil && ip != word {
		return fmt.Errorf("%q: expected a network such as 10.0.0.0/8 or fd00::/8", word)
	}
	return nil
}
