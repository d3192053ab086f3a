// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy/caddyfile"
)

func TestFindAskerUse(t *testing.T) {
	const red = "view red {\n expr metadata('ofpunt/switch') == 'red'\n }\n "
	template := func(answer string) string { return "template IN A {\n answer \"" + answer + "\"\n }\n" }
	meta := func(label string) string { return template(`{{ .Name }} TXT {{ .Meta \"` + label + `\" }}`) }
	for _, tt := range []struct {
		name, zones, text string
		// want is the plugin, the line of the block that it stands on and what it
		// reads; nothing for a block that is right.
		want string
	}{
		{"a label in a template", ".", "cache\n " + meta("ofpunt/switch"), "template 4 ofpunt/switch"},
		{"the order in the Corefile means nothing", ".", meta("ofpunt/port") + "cache\n", "template 3 ofpunt/port"},
		{"a label in backquotes", ".", "cache\n " + template("{{ .Name }} TXT {{ .Meta `ofpunt/vlan` }}"), "template 4 ofpunt/vlan"},
		{"a label that is made up", ".", "cache\n " + template(`{{ .Name }} TXT {{ .Meta (print .Zone) }}`), "template 4 .Meta"},
		{"the client's address", ".", "cache\n " + template("{{ .Name }} A {{ .Remote }}"), "template 4 .Remote"},
		{"in the additional section", ".", "cache\n template IN A {\n answer \"{{ .Name }} A 192.0.2.1\"\n additional \"x A {{ .Remote }}\"\n }", "template 5 .Remote"},
		{"an expression by a label", ".", "cache\n template IN A {\n expr metadata('ofpunt/switch') == 'red'\n answer \"{{ .Name }} A 192.0.2.1\"\n }", "template 4 ofpunt/switch"},
		{"an expression by the address", ".", "cache\n template IN A {\n expr incidr(client_ip(), '10.0.0.0/8')\n answer \"{{ .Name }} A 192.0.2.1\"\n }", "template 4 client_ip"},
		{"a variable", ".", "cache\n template IN A {\n var who metadata(\"ofpunt/port\")\n answer \"{{ .Name }} TXT {{ .Var.who }}\"\n }", "template 4 ofpunt/port"},
		{"the second template", ".", "cache\n " + template("{{ .Name }} A 192.0.2.1") + meta("ofpunt/switch"), "template 7 ofpunt/switch"},
		{"rewrite with a label", ".", "rewrite edns0 local set 0xffee {ofpunt/switch}\n cache\n forward . 192.0.2.1", "rewrite 2 ofpunt/switch"},
		{"rewrite with an address", ".", "rewrite continue edns0 local append 0xffee {client_ip} revert\n cache", "rewrite 2 client_ip"},
		{"rewrite with a subnet", ".", "rewrite edns0 subnet set 24 56\n cache", "rewrite 2 the client's address"},
		{"rewrite in braces", ".", "rewrite stop {\n edns0 local set 0xffee {ofpunt/port}\n }\n cache", "rewrite 2 ofpunt/port"},
		{"whoami", ".", "cache\n whoami", "whoami 3 the client's address"},
		{"a cache for a zone above", "example.org", "cache 30 org\n " + meta("ofpunt/switch"), "template 4 ofpunt/switch"},
		{"a cache for a zone below", ".", "cache 30 a.example.org\n " + meta("ofpunt/switch"), "template 4 ofpunt/switch"},
		{"a view by another label", ".", red + "cache\n " + meta("ofpunt/port"), "template 7 ofpunt/port"},
		{"a view by several switches", ".", "view v {\n expr metadata('ofpunt/switch') == 'red' || name() == 'x.'\n }\n cache\n " + meta("ofpunt/switch"), "template 7 ofpunt/switch"},
		{"a view by all other switches", ".", "view v {\n expr not (metadata('ofpunt/switch') == 'red')\n }\n cache\n " + meta("ofpunt/switch"), "template 7 ofpunt/switch"},

		{"a key", ".", "cache\n " + meta("ofpunt/external-id/neutron:project_id"), "template 4 ofpunt/external-id/neutron:project_id"},
		{"a view by another key", ".", "view p {\n expr metadata('ofpunt/external-id/a') == '1'\n }\n cache\n " + meta("ofpunt/external-id/b"), "template 7 ofpunt/external-id/b"},
		{"a view for a network, by a key", ".", "view p {\n expr metadata('ofpunt/network') == '1'\n }\n cache\n " + meta("ofpunt/external-id/b"), "template 7 ofpunt/external-id/b"},
		{"a view for a router", ".", "view p {\n expr metadata('ofpunt/router') == 'r1'\n }\n cache\n " + meta("ofpunt/switch"), "template 7 ofpunt/switch"},
		{"a view for a project, by the network", ".", "view p {\n expr metadata('ofpunt/external-id/neutron:project_id') == 'a1'\n }\n cache\n " + meta("ofpunt/network"), "template 7 ofpunt/network"},

		{"no cache", ".", meta("ofpunt/switch") + "rewrite edns0 subnet set 24 56\n whoami", ""},
		{"a view for each", ".", red + "cache\n " + meta("ofpunt/switch"), ""},
		{"a view for a network", ".", "view n {\n expr metadata('ofpunt/network') == '11111111-1111-4111-8111-111111111111'\n }\n cache\n " + meta("ofpunt/switch"), ""},
		{"a view for each switch of a name", ".", red + "cache\n " + meta("ofpunt/network"), "template 7 ofpunt/network"},
		{"a view for each port", ".", "view p {\n expr metadata('ofpunt/port') == 'vm1' && type() in ['A', 'AAAA']\n }\n cache\n " + meta("ofpunt/switch"), "template 7 ofpunt/switch"},
		{"a view for a port", ".", "view p {\n expr metadata(\"ofpunt/port\") == \"vm1\"\n }\n cache\n " + meta("ofpunt/switch"), ""},
		{"a view for a project", ".", "view p {\n expr metadata('ofpunt/external-id/neutron:project_id') == 'a1'\n }\n cache\n " + meta("ofpunt/external-id/neutron:project_id"), ""},
		{"a view for a port, by its keys", ".", "view p {\n expr metadata('ofpunt/port') == 'vm1'\n }\n cache\n " + meta("ofpunt/external-id/k") + meta("ofpunt/router"), ""},
		{"a view for a network, by its routers", ".", "view p {\n expr metadata('ofpunt/network') == '1'\n }\n cache\n " + meta("ofpunt/router"), ""},
		{"a cache for another zone", ".", "cache 30 example.net\n template IN A example.org {\n answer \"{{ .Name }} A {{ .Remote }}\"\n }", ""},
		{"a template of the question alone", ".", "cache\n " + template("{{ .Name }} A {{ index .Match 0 }}"), ""},
		{"a label that is not of the asker", ".", "cache\n " + meta("ovnhosts/answer") + meta("ofpunt/bridge"), ""},
		{"words outside of actions", ".", "cache\n " + template("{{ .Name }} TXT .Remote"), ""},
		{"words in an expression", ".", "cache\n template IN A {\n expr name() == 'port.client_ip.'\n answer \"{{ .Name }} A 192.0.2.1\"\n }", ""},
		{"rewrite for all alike", ".", "rewrite edns0 local set 0xffee 0x61\n rewrite edns0 local set 0xffed {qname}\n rewrite name a.org b.org\n rewrite edns0 subnet unset\n cache", ""},
		{"rewrite of names", ".", "rewrite name regex ^me\\.internal\\.$ {ofpunt/port}.internal. metadata answer auto\n cache", ""},
		{"log and acl", ".", "log . \"{/ofpunt/switch} {remote}\"\n acl {\n block net 10.0.0.0/8\n }\n cache", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blocks, err := caddyfile.Parse("Corefile", strings.NewReader(tt.zones+" {\n "+tt.text+"\n}\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			cache, p, found := findAskerUse(blocks[0])
			if found {
				got = fmt.Sprintf("%s %d %s", p.plugin, p.at.Line, p.reads)
				if cache.Text != "cache" || !slices.Contains(strings.Fields(strings.Split(tt.text, "\n")[cache.Line-2]), "cache") {
					t.Errorf("the cache is %+v", cache)
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
