// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coredns/caddy/caddyfile"
)

// A label that no query of a block has is an error or a warning, with the plugin and line that
// reads it.
func TestLabels(t *testing.T) {
	const missing = "is empty without metadata; expected a line with metadata in the block"
	tests := []struct{ name, text, want string }{
		{"none", "view v {\n expr name() != 'x.'\n }", ""},
		{"of a view", "metadata\nview v {\n expr metadata('ofpunt/switch') == 'red'\n }", ""},
		{"without metadata", "view v {\n expr metadata('ofpunt/switch') == 'red'\n }", "view 3 ofpunt/switch " + missing},
		{"misspelt", "metadata\nview v {\n expr metadata('ofpunt/swich') == 'red'\n }", "view 4 ofpunt/swich is none of ofpunt's; expected one of ofpunt/bridge, "},
		{"of a template", "template IN A {\n answer `{{ .Name }} TXT {{ .Meta \"ofpunt/port\" }}`\n }", "template 3 ofpunt/port " + missing},
		{"of log", "log . \"{remote} {/ofpunt/port}\"", "log 2 ofpunt/port " + missing},
		{"of rewrite", "rewrite edns0 local set 0xffee {ofpunt/switch}", "rewrite 2 ofpunt/switch " + missing},
		{"of another plugin", "view v {\n expr metadata('geoip/city') == 'x'\n }", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := caddyfile.Parse("Corefile", strings.NewReader(". {\n"+tt.text+"\n}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, u := range labelUses(blocks[0]) {
				if wrong := wrongLabel(u, blocks[0]); wrong != "" {
					got += fmt.Sprintf("%s %d %s %s", u.plugin, u.at.Line, u.label, wrong)
				}
			}
			if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
