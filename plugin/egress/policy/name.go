// SPDX-License-Identifier: Apache-2.0

package policy

const (
	// maxText is more than the longest name in presentation form, in which an octet takes up to four characters.
	maxText = 1024
	// maxLabels is the largest number of labels of a name, without the root.
	maxLabels = 127
)

// Name is the name of a question, prepared for Policy.Name. It needs no memory beside itself, so a caller may have
// the Name on its stack.
type Name struct {
	text [maxText]byte
	// length is the length of the text. The text is fully qualified and in lower case.
	length int
	// labels are where the labels begin, from the left.
	labels [maxLabels]uint16
	count  int
}

// Set sets the name: a domain name in presentation form (RFC 1035, section 5.1), as package dns unpacks names. It reports
// whether the text may be a name.
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

// nextEscaped returns how many of the characters behind c belong to an escape: one or three digits behind a backslash.
// escaped is how many of those from c on do.
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

// escapeBegins is the value of nextEscaped behind a backslash.
const escapeBegins = 4
