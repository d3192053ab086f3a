// SPDX-License-Identifier: Apache-2.0

package corefile

import "testing"

func TestDidYouMean(t *testing.T) {
	names := []string{"arp", "fallthrough", "forward", "log", "northbound", "ovnforward", "ovnhosts", "snapshot", "southbound", "tls"}
	for _, tt := range []struct{ word, want string }{
		{"falltrough", "fallthrough"}, // a letter less
		{"fallthru", "fallthrough"},
		{"ovnhostss", "ovnhosts"},    // a letter more
		{"nortbhound", "northbound"}, // two that have changed places
		{"southbount", "southbound"}, // another letter
		{"Forward", "forward"},       // a capital
		{"logs", "log"},
		{"apr", "arp"},
		{"zzz", ""},
		{"x", ""}, // each word of one letter is as near
		{"to", ""},
		{"whatever_else", ""},
		{"", ""},
	} {
		want := ""
		if tt.want != "" {
			want = "; did you mean " + tt.want + "?"
		}
		if got := DidYouMean(tt.word, names); got != want {
			t.Errorf("%s: %q, want %q", tt.word, got, want)
		}
	}
}
