// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/miekg/dns"
)

// maxName is in bytes, without the root label (RFC 1035, section 2.3.4).
const maxName = 254

// Name is a lower-case domain name in wire format (RFC 1035, section 3.1). A query has one on its stack.
type Name struct {
	wire    [maxName + 1]byte
	size    int // in bytes, without the root label
	offsets [maxName/2 + 1]uint8
	labels  int
}

// Set parses a fully qualified name. It reports whether s is valid.
func (n *Name) Set(s string) bool {
	n.size, n.labels = 0, 0
	if s == "." {
		return true
	}
	if strings.IndexByte(s, '\\') >= 0 || len(s) > maxName {
		return n.setEscaped(s)
	}
	begin := 0 // of the label, at its length
	for i := range len(s) {
		c := s[i]
		if c != '.' {
			n.wire[i+1] = lower(c)
			continue
		}
		length := i - begin
		if length < 1 || length > 63 {
			return false
		}
		n.wire[begin] = byte(length)
		n.offsets[n.labels] = uint8(begin)
		n.labels++
		begin = i + 1
	}
	n.size = begin
	return begin > 0 && begin == len(s)
}

// setEscaped is Set for a name with escapes (RFC 1035, section 5.1).
func (n *Name) setEscaped(s string) bool {
	var b [maxName + 1]byte
	size, err := dns.PackDomainName(s, b[:], 0, nil, false)
	if err != nil || size < 2 || b[size-1] != 0 {
		return false
	}
	copy(n.wire[:], b[:size])
	n.size = size - 1
	for at := 0; at < n.size; at += 1 + int(n.wire[at]) {
		n.offsets[n.labels] = uint8(at)
		n.labels++
		for i := at + 1; i <= at+int(n.wire[at]); i++ {
			n.wire[i] = lower(n.wire[i])
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func (n *Name) suffix(without int) []byte {
	if without >= n.labels {
		return nil
	}
	return n.wire[n.offsets[without]:n.size]
}

func (n *Name) label(i int) []byte {
	at := int(n.offsets[i])
	return n.wire[at+1 : at+1+int(n.wire[at])]
}

// isWildcard reports whether the first label is an asterisk (RFC 4592, section 2.1.1).
func (n *Name) isWildcard() bool { return n.labels > 0 && n.wire[0] == 1 && n.wire[1] == '*' }

// withoutAsterisk returns 1 for a wildcard, which is stored without its asterisk, else 0.
func (n *Name) withoutAsterisk() int {
	if n.isWildcard() {
		return 1
	}
	return 0
}

func (n *Name) setWire(wire []byte) {
	n.size, n.labels = copy(n.wire[:], wire), 0
	for at := 0; at < n.size; at += 1 + int(n.wire[at]) {
		n.offsets[n.labels] = uint8(at)
		n.labels++
	}
}

// cut removes the origin. It reports whether n is at or below the origin.
func (n *Name) cut(origin *Name) bool {
	keep := n.labels - origin.labels
	if keep < 0 || string(n.suffix(keep)) != string(origin.wire[:origin.size]) {
		return false
	}
	n.labels, n.size = keep, n.size-origin.size
	return true
}

// text takes wire format without the root label.
func text(wire []byte) string {
	s, _, err := dns.UnpackDomainName(append(wire[:len(wire):len(wire)], 0), 0)
	if err != nil {
		return "." // it was a name when it was set
	}
	return s
}
