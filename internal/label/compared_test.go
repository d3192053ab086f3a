// SPDX-License-Identifier: Apache-2.0

package label

import (
	"strings"
	"testing"

	"github.com/coredns/caddy/caddyfile"
	"github.com/google/go-cmp/cmp"
)

func TestComparedNames(t *testing.T) {
	for _, tt := range []struct {
		name, expr string
		want       []string
	}{
		{"equal", "metadata('ofpunt/switch') == 'red'", []string{"red"}},
		{"the other way round", "'red' == metadata('ofpunt/switch')", []string{"red"}},
		{"unequal", "metadata('ofpunt/switch') != 'red'", []string{"red"}},
		{"one of a list", "metadata('ofpunt/switch') in ['red', 'blue', 'red']", []string{"blue", "red"}},
		{"in a larger expression", "name() startsWith 'x' && (metadata('ofpunt/switch') == 'red' || not (metadata('ofpunt/switch') == 'blue'))", []string{"blue", "red"}},
		{"another label", "metadata('ofpunt/port') == 'red'", nil},
		{"another function", "name() == 'ofpunt/switch'", nil},
		{"the label itself", "'ofpunt/switch' == 'red'", nil},
		{"two labels", "metadata('ofpunt/switch') == metadata('ofpunt/port')", nil},
		{"nothing", "metadata('ofpunt/switch') == ''", nil},
		{"a name with escapes", `metadata('ofpunt/switch') in ['a\\\\b\\u202e', 'a\\q']`, []string{"a\\b\u202e"}},
		{"a part of the name", "metadata('ofpunt/switch') startsWith 'red'", nil},
		{"of a policy beside it", "metadata('ofpunt/switch') == 'red'\n }\n egress {\n policy ofpunt/switch red {\n allow a.test\n }\n policy ofpunt/switch a\\\\b {\n }\n policy ofpunt/port blue {\n }", []string{`a\b`, "red"}},
		{"what view refuses", "metadata('ofpunt/switch' ==", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := caddyfile.Parse("Corefile", strings.NewReader(". {\n view v {\n expr "+tt.expr+"\n }\n}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, Read(blocks[0]).ComparedNames); d != "" {
				t.Error(d)
			}
		})
	}
}
