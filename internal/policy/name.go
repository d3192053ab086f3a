// SPDX-License-Identifier: Apache-2.0

package policy

const (
	// An octet of a name takes up to four characters.
	maxText   = 1024
	maxLabels = 127
)

// Name is a question's name for Policy.Name. It fits on the stack.
type Name struct {
	text [maxText]byte
	// The text is fully qualified, in lower case.
	length int
	// labels are the begins of labels, from the left.
	labels [maxLabels]uint16
	count  int
}

// Set takes the presentation form (RFC 1035, section 5.1) as package dns unpacks it. It reports false for no name.
func (n *Name) Set(qname string) bool {
	n.length, n.count = 0, 0
	if qname == "" || len(qname) >= maxText {
		return false
	}
	begins, escaped := true, 0
	for i := range len(qname) {
		c := qname[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if begins && (c != '.' || len(qname) > 1) {
			if n.count == maxLabels {
				return false
			}
			n.labels[n.count] = uint16(i)
			n.count++
		}
		begins = c == '.' && escaped == 0
		escaped = nextEscaped(c, escaped)
		n.text[i] = c
	}
	n.length = len(qname)
	if !begins {
		n.text[n.length] = '.'
		n.length++
	}
	return true
}

// nextEscaped returns how many characters behind c belong to an escape, one or three digits; escaped counts from c on.
func nextEscaped(c byte, escaped int) int {
	switch isDigit := '0' <= c && c <= '9'; {
	case escaped == 0 && c == '\\':
		return escapeBegins
	case escaped == escapeBegins && isDigit:
		return 2
	case escaped == 0 || escaped == escapeBegins:
		return 0
	}
	return escaped - 1
}

const escapeBegins = 4
