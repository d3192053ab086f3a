// SPDX-License-Identifier: Apache-2.0

package plugincfg

import (
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	got, err := Generate("main", "plugin.cfg", []byte("# SPDX-License-Identifier: MIT\n\nmetadata:metadata\n# why it is here\n\thello:example.org/hello \r\nprometheus:metrics\non:github.com/coredns/caddy/onevent\n"))
	const want = `// SPDX-License-Identifier: MIT

// Code generated from plugin.cfg. DO NOT EDIT.

package main

import (
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/metrics"

	_ "example.org/hello"
	_ "github.com/coredns/caddy/onevent"
)

// Directives are the names of the plugins, in the order in which they are set up and in which a
// query passes them.
var Directives = []string{
	"metadata",
	"hello",
	"prometheus",
	"on",
}
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "# soon\n", "plugin.cfg: no plugin, expected lines NAME:PACKAGE"},
		{"no package", "\nlog\n", `plugin.cfg:2: "log", expected NAME:PACKAGE or a comment`},
		{"a package of nothing", "log:\n", `plugin.cfg:1: "log:", expected NAME:PACKAGE`},
		{"a third word", "log:log:log\n", `plugin.cfg:1: "log:log:log", expected`},
		{"Go", "log:log\"; import \"C\n", "plugin.cfg:1: "},
		{"a name twice", "log:log\nerrors:errors\nlog:example.org/log\n", "plugin.cfg:3: log is in line 1 already, expected it once"},
		{"an order that mixes tenants", "cache:cache\novnhosts:github.com/puntdns/puntdns/plugin/ovnhosts\n", "plugin.cfg: ovnhosts is behind cache, expected it before: cache would give its answers to other guests"},
	} {
		if _, err := Parse("plugin.cfg", []byte(tt.text)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestBehindForward(t *testing.T) {
	for names, want := range map[string]string{
		"hello ovnhosts forward passthrough whoami": "",
		"forward hello whoami other":                "hello other",
		"ovnhosts hello":                            "",
		"forward kubernetes trace":                  "kubernetes",
	} {
		if got := strings.Join(BehindForward(strings.Fields(names)), " "); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

func TestCheckOrder(t *testing.T) {
	for _, tt := range []struct{ name, names, want string }{
		{"none", "", ""},
		{"a part of them", "root ofpunt hello ovnhosts forward", ""},
		{"without ofpunt", "metadata ovnhosts cache forward", ""},
		{"a plugin before ofpunt", "root metadata ofpunt", "metadata is before ofpunt, expected only root there"},
		{"cache before neutronhosts", "ofpunt cache neutronhosts", "neutronhosts is behind cache"},
		{"cache before rpz", "ofpunt cache rpz", "rpz is behind cache"},
		{"cache before egress", "ofpunt cache egress", "egress is behind cache"},
		{"ovnforward before egress", "ofpunt ovnforward egress cache", "egress is behind ovnforward"},
		{"fanout before egress", "ofpunt fanout egress", "egress is behind fanout"},
		{"a second plugin with zones behind private", "ofpunt hosts private template", "template is behind private"},
		{"cache before transfer", "ofpunt cache transfer", "transfer is behind cache"},
		{"private before kubernetes", "ofpunt private kubernetes", "kubernetes is behind private"},
		{"forward before private", "ofpunt forward private", "private is behind forward"},
	} {
		err := CheckOrder(strings.Fields(tt.names))
		if (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
