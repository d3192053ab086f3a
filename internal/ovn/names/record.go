// SPDX-License-Identifier: Apache-2.0

package names

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Report is called for each unreadable value. value is empty if it is missing, or if the name is unreadable.
type Report func(where, value string, err error)

type Reports struct {
	// Begin is called before a key is read, and when it is removed. It revokes earlier reports about the key.
	Begin func(key string)
	Bad   Report
}

var errAddressForName = errors.New("expected a domain name, not an address")

func Words(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	})
}

func ParseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%.80q is not an IP address", s)
	}
	if a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%.80q has a zone", s)
	}
	return a, nil
}

// parseRecord reads a record (ovn-nb(5), table DNS): addresses, or domain names for a reverse name. It keeps
// the order within each family.
func parseRecord(name, value string, bad Report) entry {
	if isReverse(name) {
		return newEntry(nil, parseTargets(name, value, bad))
	}
	var v4, v6 []netip.Addr
	for _, word := range Words(value) {
		a, err := ParseAddress(word)
		switch {
		case err != nil:
			bad(name, word, err)
		case a.Is4():
			if !slices.Contains(v4, a) {
				v4 = append(v4, a)
			}
		default:
			if !slices.Contains(v6, a) {
				v6 = append(v6, a)
			}
		}
	}
	return newEntry(append(v4, v6...), nil)
}

func parseTargets(name, value string, bad Report) (targets []string) {
	for _, word := range Words(value) {
		if _, err := ParseAddress(word); err == nil {
			bad(name, word, errAddressForName)
			continue
		}
		target, err := presentation(word)
		if err != nil {
			bad(name, word, err)
		} else if !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	return targets
}
