// SPDX-License-Identifier: Apache-2.0

// Package escape makes text of tenants and of other foreign sources safe to print: in a log, a metric, a
// terminal, JSON and YAML. A tenant could otherwise write extra lines into a log, and commands or reordered
// text to a terminal.
//
// A character is escaped unless strconv.IsPrint accepts it. Escaped are control characters with the newline
// and ESC, DEL, bytes that are no UTF-8, and all of Unicode's format characters and separators except the
// space, such as the right-to-left override U+202E. Value and Line escape as a Go string does: \n, \x1b,
// \u202e.
//
//	Value   one value, which another program may compare
//	Line    a text that was composed, such as a line of a log
//	JSON    a document of JSON; AppendJSON a string
//	YAML    a document of YAML
package escape

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Value returns a value with its escapes, and the value itself if it needs none. It doubles a
// backslash, so that different values stay different: a tenant that chooses a backslash and an n
// does not get what another one has with a newline.
func Value(value string) string {
	if isPlain(value, true) {
		return value
	}
	quoted := strconv.Quote(value)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Original returns the value of which Value makes escaped. It reports whether there is one.
func Original(escaped string) (value string, ok bool) {
	value, err := strconv.Unquote(`"` + strings.ReplaceAll(escaped, `"`, `\"`) + `"`)
	return value, err == nil && Value(value) == escaped
}

// Line returns a text with its escapes, a newline included. It leaves backslashes alone, since parts
// of the text may have escapes already: names in presentation format (RFC 1035, section 5.1), and
// what %q has written.
func Line(text string) string {
	if isPlain(text, false) {
		return text
	}
	b := make([]byte, 0, len(text)+16)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if isPrintable(r, n) {
			b = append(b, text[i:i+n]...)
		} else {
			quoted := strconv.Quote(text[i : i+n])
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += n
	}
	return string(b)
}

// isPlain reports whether a text needs no escape. backslash says whether a backslash does.
func isPlain(text string, backslash bool) bool {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f || c == '\\' && backslash {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if !isPrintable(r, n) {
			return false
		}
		i += n
	}
	return true
}

// isPrintable reports whether a character of n bytes needs no escape.
func isPrintable(r rune, n int) bool {
	return strconv.IsPrint(r) && (r != utf8.RuneError || n > 1)
}

// AppendJSON appends a string of JSON (RFC 8259, section 7). It has all of s but bytes that are no
// UTF-8, which become U+FFFD.
func AppendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if c != '"' && c != '\\' && isPrintable(r, n) {
			i += n
			continue
		}
		b = append(b, s[done:i]...)
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = appendJSONEscape(b, r)
		}
		i += n
		done = i
	}
	return append(append(b, s[done:]...), '"')
}

const hexDigits = "0123456789abcdef"

// appendJSONEscape appends a character as \uXXXX, or as two of these above U+FFFF.
func appendJSONEscape(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return appendJSONEscape(appendJSONEscape(b, high), low)
	}
	return append(b, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

// JSON returns a document of JSON with escapes in its strings. Newlines are kept: in JSON they stand
// between values only.
func JSON(document []byte) []byte { return escapeDocument(document, appendJSONEscape) }

// YAML returns a document of YAML with escapes. The strings that need them have to be in double
// quotation marks; NeedsEscape says which strings these are.
func YAML(document []byte) []byte {
	return escapeDocument(document, func(b []byte, r rune) []byte {
		if r > 0xffff {
			return fmt.Appendf(b, `\U%08x`, r)
		}
		return appendJSONEscape(b, r)
	})
}

// NeedsEscape reports whether a text has a character that is escaped.
func NeedsEscape(text string) bool { return !isPlain(text, false) }

func escapeDocument(document []byte, appendEscape func([]byte, rune) []byte) []byte {
	out := make([]byte, 0, len(document))
	for i := 0; i < len(document); {
		r, n := utf8.DecodeRune(document[i:])
		if r == '\n' || isPrintable(r, n) {
			out = append(out, document[i:i+n]...)
		} else {
			out = appendEscape(out, r)
		}
		i += n
	}
	return out
}
