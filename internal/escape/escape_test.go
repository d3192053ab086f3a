// SPDX-License-Identifier: Apache-2.0

package escape_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/puntdns/puntdns/internal/escape"
)

func TestValue(t *testing.T) {
	for _, tt := range []struct{ name, value, want, line string }{
		{"nothing", "", "", ""},
		{"a name", "vm1.red_2 'x' \"y\"", "vm1.red_2 'x' \"y\"", "vm1.red_2 'x' \"y\""},
		{"letters of all scripts, symbols", "bücher-€-名-\U0001f600", "bücher-€-名-\U0001f600", "bücher-€-名-\U0001f600"},
		{"line breaks", "a\nb\r\n", `a\nb\r\n`, `a\nb\r\n`},
		{"separators of lines", "a\u0085b\u2028c\u2029", `a\u0085b\u2028c\u2029`, `a\u0085b\u2028c\u2029`},
		{"commands of terminals", "\x1b[2J\x07\x7f\u009b2J", `\x1b[2J\a\x7f\u009b2J`, `\x1b[2J\a\x7f\u009b2J`},
		{"directions of text", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
			`\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c`, `\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c`},
		{"characters without a width", "a\u200bb\u200cc\u200dd\ufeffe\u00ad", `a\u200bb\u200cc\u200dd\ufeffe\u00ad`, `a\u200bb\u200cc\u200dd\ufeffe\u00ad`},
		{"format characters above U+FFFF", "\U000e0041\U0001d173", `\U000e0041\U0001d173`, `\U000e0041\U0001d173`},
		{"spaces that are none of ASCII", "a\u00a0b\u3000", `a\u00a0b\u3000`, `a\u00a0b\u3000`},
		{"a backslash", `a\nb\\`, `a\\nb\\\\`, `a\nb\\`},
		{"bytes that are no UTF-8", "a\xff\xc3(\xed\xa0\x80", `a\xff\xc3(\xed\xa0\x80`, `a\xff\xc3(\xed\xa0\x80`},
		{"the replacement character", "\ufffd", "\ufffd", "\ufffd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := escape.Value(tt.value)
			if got != tt.want {
				t.Errorf("the value is %q, want %q", got, tt.want)
			}
			if original, ok := escape.Original(got); original != tt.value || !ok {
				t.Errorf("the original is %q, %v", original, ok)
			}
			if got := escape.Line(tt.value); got != tt.line {
				t.Errorf("the line is %q, want %q", got, tt.line)
			}
			if got := escape.NeedsEscape(tt.value); got != (tt.line != tt.value) {
				t.Errorf("it needs escapes: %v", got)
			}
		})
	}
	for _, none := range []string{`a\`, `\q`, `\"`, `\u0061`, "a\n", `\u202E`} {
		if original, ok := escape.Original(none); ok {
			t.Errorf("%q has the original %q", none, original)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	for _, tt := range []struct{ name, s, want string }{
		{"nothing", "", `""`},
		{"text", "db.internal.", `"db.internal."`},
		{"quotation marks and backslashes", `a"b\c\\`, `"a\"b\\c\\\\"`},
		{"control characters", "a\x00\n\r\x1b\x7f\u0085", `"a\u0000\u000a\u000d\u001b\u007f\u0085"`},
		{"UTF-8", "bücher-€-\U0001f600", "\"bücher-€-\U0001f600\""},
		{"bytes that are none", "a\xff\xc3(\xed\xa0\x80", `"a\ufffd\ufffd(\ufffd\ufffd\ufffd"`},
		{"separators of lines", "a\u2028b\u2029", `"a\u2028b\u2029"`},
		{"directions of text", "a\u202eb\u2066", `"a\u202eb\u2066"`},
		{"a format character above U+FFFF", "\U000e0041", `"\udb40\udc41"`},
		{"the replacement itself", "\ufffd", "\"\ufffd\""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(escape.AppendJSON(nil, tt.s)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// unsafe reports whether a terminal or a log may act on a character.
func unsafe(r rune) bool {
	return unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029'
}

// For any bytes the result is safe, different values have different results, and JSON has the value itself if
// it is UTF-8.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "a\"\\", `\n`, "\x00\xff\u2028", "\U0001f600", "\xf0\x9f\x98", "\u202e\U000e0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		value, line, text := escape.Value(s), escape.Line(s), escape.AppendJSON([]byte("x"), s)[1:]
		if original, ok := escape.Original(value); original != s || !ok {
			t.Fatalf("%q: the original is %q, %v", value, original, ok)
		}
		if escape.Line(line) != line || escape.Line(value) != value {
			t.Fatalf("%q and %q change again", line, value)
		}
		var got string
		if err := json.Unmarshal(text, &got); err != nil || got != strings.ToValidUTF8(string([]rune(s)), "\ufffd") {
			t.Fatalf("%q: %q, %v", text, got, err)
		}
		for _, out := range []string{value, line, string(text)} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, unsafe) {
				t.Fatalf("%q", out)
			}
		}
	})
}
