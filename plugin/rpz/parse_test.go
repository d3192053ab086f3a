// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"regexp"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestParseRefuses(t *testing.T) {
	// Where another package refuses, want has what the error names; else testdata/messages.golden has the error.
	for _, tt := range []struct{ name, input, want string }{
		{"unknown property", "rpz . {\n colour red\n}", `:2 .*"colour".*\[break_dnssec `},
		{"twice", "rpz . {\n zone a file /a\n}\nrpz", `:4 .*rpz`},
		{"a bad zone", "rpz a..b", `:1 .*"a\.\.b"`},
		{"ede of another word", "rpz . {\n ede 15\n}", `:2 .* ede: "15": .*blocked or censored`},
		{"tsig of no base64", "rpz . {\n tsig k !\n}", `:2 .* tsig: .*k.*base64`},
		{"no zone", "rpz .", ""},
		{"zone with a name alone", "rpz . {\n zone a\n}", ""},
		{"zone that is the root", "rpz . {\n zone . file /a\n}", ""},
		{"zone twice", "rpz . {\n zone a file /a\n zone A. file /b\n}", ""},
		{"zone of another kind", "rpz . {\n zone a url http://a\n}", ""},
		{"zone of a relative path", "rpz . {\n zone a file a\n}", ""},
		{"zone of another policy", "rpz . {\n zone a file /a policy block\n}", ""},
		{"zone with a word too many", "rpz . {\n zone a file /a /b\n}", ""},
		{"tsig of a file", "rpz . {\n zone a file /a tsig k\n}", ""},
		{"transfer from a name", "rpz . {\n zone a transfer ns.test\n}", ""},
		{"transfer from nobody", "rpz . {\n zone a transfer policy drop\n}", ""},
		{"transfer with a key that is not there", "rpz . {\n required\n zone a transfer 192.0.2.1 tsig k\n}", ""},
		{"tsig without a secret", "rpz . {\n tsig k\n}", ""},
		{"tsig twice", "rpz . {\n tsig k c2VjcmV0\n tsig K. c2VjcmV0\n}", ""},
		{"required with a word", "rpz . {\n required yes\n}", ""},
		{"log of no line", "rpz . {\n log 0\n}", ""},
		{"max_records 0", "rpz . {\n max_records 0\n}", ""},
		{"max_bytes without a unit", "rpz . {\n max_bytes 134217728\n}", ""},
		{"max_bytes too small", "rpz . {\n max_bytes 1023KiB\n}", ""},
		{"max_ttl of a word", "rpz . {\n max_ttl long\n}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readHandler(caddy.NewTestController("dns", tt.input))
			golden.Refusal(t, err, "Testfile", tt.want)
		})
	}
}

// A zone that is required has to be a file.
func TestRequiredFolder(t *testing.T) {
	err := Check(caddy.NewTestController("dns", "rpz . {\n required\n zone a file /etc\n}"), nil)
	if err == nil || !regexp.MustCompile(`^Testfile:3 - rpz \.: zone a\.: /etc: `).MatchString(err.Error()) {
		t.Error(err)
	}
}
