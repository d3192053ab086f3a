// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestAppendString(t *testing.T) {
	tests := []struct{ name, s, want string }{
		{"nothing", "", `""`},
		{"text", "db.internal.", `"db.internal."`},
		{"quotation marks and backslashes", `a"b\c\\`, `"a\"b\\c\\\\"`},
		{"control characters", "a\x00\n\r\x1b\x7f\u0085", `"a\u0000\u000a\u000d\u001b\u007f\u0085"`},
		{"UTF-8", "bücher-€-\U0001f600", "\"bücher-€-\U0001f600\""},
		{"bytes that are none", "a\xff\xc3(\xed\xa0\x80", `"a\ufffd\ufffd(\ufffd\ufffd\ufffd"`},
		{"separators of lines", "a\u2028b\u2029", `"a\u2028b\u2029"`},
		{"the replacement itself", "\ufffd", "\"\ufffd\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendString(nil, tt.s)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Whatever the bytes are, the string is of JSON, in UTF-8, without a control character, and says
// what they are as far as they are UTF-8.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a\"\\", "\x00\xff\u2028", "\U0001f600", "\xf0\x9f\x98"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := AppendString([]byte("x"), s)[1:]
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if want := string([]rune(s)); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		if !utf8.Valid(b) || strings.ContainsFunc(string(b), func(r rune) bool { return unicode.IsControl(r) }) {
			t.Fatalf("%q", b)
		}
	})
}
