// SPDX-License-Identifier: Apache-2.0

package names

import (
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

var (
	errEmptyName  = errors.New("it is empty")
	errSpace      = errors.New("it begins or ends with white space")
	errHalfEscape = errors.New("it is no domain name: it ends within an escape")
)

// presentation returns a name as in miekg/dns questions. It keeps the case.
func presentation(name string) (string, error) {
	if name == "" || name == "." {
		return "", errEmptyName
	}
	if strings.TrimSpace(name) != name {
		return "", errSpace
	}
	if endsInEscape(name) {
		return "", errHalfEscape // PackDomainName would drop the last label
	}
	if rest, dot := strings.CutSuffix(name, "."); !dot || endsInEscape(rest) {
		name += "."
	}
	var wire [255]byte
	n, err := dns.PackDomainName(name, wire[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("it is no domain name: %w", err)
	}
	out, _, err := dns.UnpackDomainName(wire[:n], 0)
	if err != nil {
		return "", fmt.Errorf("it is no domain name: %w", err)
	}
	return out, nil
}

// dns.IsFqdn miscounts after multi-byte characters.
func endsInEscape(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// Canonical returns a name fully qualified, in lower case, as miekg/dns presents it. The error is about RFC
// 1035, section 2.3.4.
func Canonical(name string) (string, error) {
	if isCanonical(name) {
		if !strings.HasSuffix(name, ".") {
			name += "."
		}
		return name, nil
	}
	name, err := presentation(name)
	if err != nil {
		return "", err
	}
	return dns.CanonicalName(name), nil
}

// isCanonical finds nearly all names without the wire format.
func isCanonical(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return false
	}
	label := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			if label++; label > 63 {
				return false
			}
		default:
			return false
		}
	}
	return label > 0
}

// join appends a domain unless the hostname ends with it. ok is false for a too long result.
func join(hostname, domain string) (string, bool) {
	if rest, ok := strings.CutSuffix(hostname, domain); ok && strings.HasSuffix(rest, ".") {
		return hostname, true
	}
	full := hostname + domain
	_, ok := dns.IsDomainName(full)
	return full, ok
}

// Under reports whether a name is the domain or below it. Both are canonical.
func Under(name, domain string) bool {
	at := len(name) - len(domain)
	switch {
	case domain == "" || at < 0 || name[at:] != domain:
		return false
	case at == 0:
		return true
	}
	return isLabelEnd(name, at-1)
}

// compareNames follows RFC 4034, section 6.1, on canonical names: the names below a name follow it. Labels
// keep their escapes.
func compareNames(a, b string) int {
	x, y := strings.IndexByte(a, '.'), strings.IndexByte(b, '.')
	if x > 0 && y > 0 && a[x:] == b[y:] && a[x-1] != '\\' && b[y-1] != '\\' {
		return strings.Compare(a[:x], b[:y])
	}
	i, j := len(a), len(b)
	for i > 0 && j > 0 && a[i-1] == b[j-1] {
		i, j = i-1, j-1
	}
	switch {
	case i == 0 && j == 0:
		return 0
	case i == 0 && isLabelEnd(b, j-1):
		return -1
	case j == 0 && isLabelEnd(a, i-1):
		return 1
	}
	// The names differ in the label before the first label end in their common suffix.
	end := 0
	for ; i+end < len(a); end++ {
		if isLabelEnd(a, i+end) && isLabelEnd(b, j+end) {
			break
		}
	}
	return strings.Compare(lastLabel(a[:i+end]), lastLabel(b[:j+end]))
}

func isLabelEnd(name string, i int) bool { return name[i] == '.' && !endsInEscape(name[:i]) }

func lastLabel(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if isLabelEnd(name, i) {
			return name[i+1:]
		}
	}
	return name
}
