// SPDX-License-Identifier: Apache-2.0

package trail

import "unicode/utf8"

// AppendString appends s as a string of JSON (RFC 8259, section 7). A byte that is no UTF-8
// becomes U+FFFD. What a terminal or a page may take for more than text is escaped, too: control
// characters, line separators.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, s[done:i]...)
			if c == '"' || c == '\\' {
				b = append(b, '\\', c)
			} else {
				b = appendEscape(b, rune(c))
			}
			i++
			done = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			b = appendEscape(append(b, s[done:i]...), r)
			done = i + n
		}
		i += n
	}
	return append(append(b, s[done:]...), '"')
}

const hexDigits = "0123456789abcdef"

// appendEscape appends a rune of the basic plane as \uXXXX.
func appendEscape(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}
