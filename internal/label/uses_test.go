// SPDX-License-Identifier: Apache-2.0

package label

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// A label that no query of a block has is an error or a warning, with the plugin and line that
// reads it.
func TestUses(t *testing.T) {
	tests := []struct {
		name, text string
		wrong      bool // testdata/messages.golden has what is logged
	}{
		{"none", "view v {\n expr name() != 'x.'\n }", false},
		{"of a view", "metadata\nview v {\n expr metadata('ofpunt/switch') == 'red'\n }", false},
		{"without metadata", "view v {\n expr metadata('ofpunt/switch') == 'red'\n }", true},
		{"misspelt", "metadata\nview v {\n expr metadata('ofpunt/swich') == 'red'\n }", true},
		{"of a template", "template IN A {\n answer \"{{ .Name }} TXT {{ .Meta \\\"ofpunt/port\\\" }}\"\n }", true},
		{"of log", "log . \"{remote} {/ofpunt/port}\"", true},
		{"of rewrite", "rewrite edns0 local set 0xffee {ofpunt/switch}", true},
		{"of dnstap", "dnstap /run/tap {\n extra \"{/ofpunt/port} {/ofpunt/external-id/a:b.c-d_e/F}\"\n }", true},
		{"of audit", "audit /run/audit {\n fields default project={/ofpunt/external-id/neutron:project_id} x={/ofpunt/swich}\n }", true},
		{"of audit by default", "audit /run/audit", false},
		{"of rewrite in a name", "rewrite name regex ^me$ {ofpunt/router}.internal. metadata", true},
		{"of a template's expression", "template IN A {\n expr metadata('ofpunt/external-id/k') == 'v'\n }", true},
		{"a key", "metadata\nview v {\n expr metadata('ofpunt/external-id/neutron:project_id') == '1' && metadata(\"ofpunt/external-id/k8s.ovn.org/network\") == '2'\n }", false},
		{"no key", "metadata\nview v {\n expr metadata('ofpunt/external-id/') == '1'\n }", true},
		{"neither a slash nor a key", "metadata\nview v {\n expr metadata('ofpunt/external-id') == '1'\n }", true},
		{"a key with a character that none has", "metadata\nview v {\n expr metadata('ofpunt/external-id/a=b') == '1'\n }", true},
		{"a key with a space", "metadata\nview v {\n expr metadata('ofpunt/external-id/a b') == '1'\n }", true},
		{"a label with more behind it", "metadata\nview v {\n expr metadata('ofpunt/switch.x') == '1'\n }", true},
		{"in backquotes", "template IN A {\n answer \"{{ .Meta `ofpunt/port` }}\"\n }", true},
		{"made of a format", "metadata\ntemplate IN A {\n answer \"{{ .Meta (printf \\\"ofpunt/%s\\\" \\\"router\\\") }}\"\n }", false},
		{"made of a format without metadata", "template IN A {\n answer \"{{ .Meta (printf \\\"ofpunt/%s\\\" \\\"router\\\") }}\"\n }", false},
		{"put together", "metadata\nview v {\n expr metadata('ofpunt/' + 'router') == 'a'\n }", false},
		{"of a variable", "metadata\ntemplate IN A {\n answer \"{{ $l := `ofpunt/router` }}{{ .Meta $l }}\"\n }", false},
		{"misspelt beside one that is computed", "metadata\ntemplate IN A {\n answer \"{{ .Meta `ofpunt/swich` }} {{ .Meta (print .Zone) }}\"\n }", true},
		{"a key that is computed", "metadata\ntemplate IN A {\n answer \"{{ .Meta (printf \\\"ofpunt/external-id/%s\\\" .Zone) }}\"\n }", false},
		{"a key that is put together", "metadata\nview v {\n expr metadata('ofpunt/external-id/' + 'k') == '1'\n }", false},
		{"a key in the words of a format", "metadata\ntemplate IN A {\n answer \"{{ .Meta (printf \\\"ofpunt/%s\\\" \\\"external-id/a:b\\\") }}\"\n }", false},
		{"a key that is computed, beside one that is named", "metadata\nlog . {/ofpunt/external-id/k}\ntemplate IN A {\n answer \"{{ .Meta (printf \\\"ofpunt/external-id/%s\\\" \\\"k\\\") }}\"\n }", false},
		{"of another plugin", "view v {\n expr metadata('geoip/city') == 'x'\n }", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := caddyfile.Parse("Corefile", strings.NewReader(". {\n"+tt.text+"\n}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			read := Read(blocks[0])
			for _, u := range read.Uses {
				if wrong := read.Wrong(&u); wrong != "" {
					got += fmt.Sprintf("%s %d %s %s\n", u.Plugin, u.At.Line, u.Label, wrong)
				}
			}
			if tt.wrong {
				golden.Check(t, got)
			} else if got != "" {
				t.Errorf("%q, want nothing", got)
			}
		})
	}
}

// A label in a name that rewrite takes as it is written is found, with the line of its rule.
func TestLiterals(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"with the word", "rewrite name regex ^who$ {ofpunt/port}.test. metadata", ""},
		{"with the word, and answers", "rewrite continue name regex ^who$ {ofpunt/port}.test. metadata answer auto", ""},
		{"without it", "log\nrewrite name regex ^who$ {ofpunt/port}.{ofpunt/external-id/a:b}.test.", "3 ofpunt/port 3 ofpunt/external-id/a:b"},
		{"without it, in other words", "rewrite STOP Name exact who.test {ofpunt/port}.test", "2 ofpunt/port"},
		{"without a type", "rewrite name who.test {ofpunt/port}.test", "2 ofpunt/port"},
		{"in braces", "rewrite stop {\n name regex ^who$ {ofpunt/port}.test.\n answer auto\n}", "2 ofpunt/port"},
		{"of two rules", "rewrite name regex ^a$ {ofpunt/port}. metadata\nrewrite name regex ^b$ {ofpunt/port}.", "3 ofpunt/port"},
		{"no label", "rewrite name regex ^a{2,3}$ {1}.test.", ""},
		{"in an option", "rewrite edns0 local set 0xffee {ofpunt/port}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := caddyfile.Parse("Corefile", strings.NewReader(". {\n"+tt.text+"\n}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range Read(blocks[0]).Literals {
				got = append(got, fmt.Sprint(l.At.Line, " ", l.Label))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A block's queries have the labels that the block names, in whatever directive, and all of them
// where it computes names.
func TestNeededLabels(t *testing.T) {
	var names []string
	for _, l := range All() {
		names = append(names, strings.TrimPrefix(l.Name, prefix))
	}
	all := strings.Join(names, " ")
	for _, tt := range []struct{ name, text, want string }{
		{"none", "metadata\nlog", ""},
		{"each once, those with a key last", "log . \"{/ofpunt/switch} {/ofpunt/external-id/b}\"\nview v {\n expr metadata('ofpunt/switch') == metadata('ofpunt/external-id/a')\n }", "switch external-id/a external-id/b"},
		{"of a limit, which no query has", "ofpunt br-int {\n limit ofpunt/port vm1 {\n rate 5\n }\n }\nlog . {/ofpunt/switch}", "switch"},
		{"of a plugin that nobody knows", "errors {ofpunt/vlan}", "vlan"},
		{"no such labels", "log . {/ofpunt/none}{/ofpunt/external-id/}", ""},
		{"computed by a view", "view v {\n expr metadata('ofpunt' + '/switch') == 'red'\n }", all},
		{"computed by a template", "template IN A {\n answer \"{{ .Meta (print .Zone) }} {{ .Meta `ofpunt/external-id/k` }}\"\n }", all + " external-id/k"},
		{"not computed", "template IN A {\n answer \"{{ .Meta `ofpunt/port` }}\"\n expr metadata('ofpunt/vlan') == '0'\n }", "port vlan"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := caddyfile.Parse("Corefile", strings.NewReader(". {\n"+tt.text+"\n}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range Read(blocks[0]).Labels {
				got = append(got, strings.TrimPrefix(l.Name, prefix))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The labels that a plugin of somebody else reads are not known.
func TestIsForeign(t *testing.T) {
	for _, tt := range []struct {
		setup string
		want  bool
	}{
		{"github.com/coredns/coredns/plugin/forward.setup", false},
		{"github.com/puntdns/puntdns/plugin/rpz.setup", false},
		{"github.com/coredns/policy/plugin/opa.setup", true},
		{"example.org/hellodns/hello.setup", true},
	} {
		if got := isForeignCode(tt.setup); got != tt.want {
			t.Errorf("%s: %v", tt.setup, got)
		}
	}
	for _, directive := range []string{"ofpunt", "forward", "import", "nobody"} {
		if isForeign(directive) {
			t.Errorf("%s counts as somebody else's", directive)
		}
	}
}
