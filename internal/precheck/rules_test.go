// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// found returns what the rules report of a Corefile, one line each. DIR in the text and in the result is a
// folder with the files imported and broken, and CONF is the Corefile.
func found(t *testing.T, text string, rules []func(*reading) []string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"imported": "errors\nimport none*\nlog “a\n",
		"broken":   "cache {\n    success 10\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := read(input(strings.ReplaceAll(text, "DIR", dir)))
	all := ""
	for _, find := range rules {
		for _, text := range find(r) {
			all += strings.ReplaceAll(text, dir, "DIR") + "\n"
		}
	}
	return all
}

func input(text string) caddy.Input {
	return caddy.CaddyfileInput{Filepath: "CONF", Contents: []byte(text), ServerTypeName: ServerType}
}

// Each row of want is the beginning of a text that is found.
func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"an open resolver", ".:53 {\n    errors\n    forward . 192.0.2.1\n}\n", []string{"CONF:2: the server block .:53 "}},
		{"an open resolver with the name *", "*:53 {\n    forward . 192.0.2.1\n}\n", []string{"CONF:2: the server block *:53 is for the name *", "CONF:2: the server block *:53 answers on all "}},
		{"an open resolver by bind", "tls://. {\n    bind 192.0.2.7 ::\n    forward . 192.0.2.1\n}\n", []string{"CONF:2: the server block tls://. "}},
		{"a resolver on one address", ". {\n    bind 127.0.0.1\n    forward . 192.0.2.1\n}\n", nil},
		{"a resolver with acl", ". {\n    acl {\n        allow net 192.0.2.0/24\n        block\n    }\n    forward . 192.0.2.1\n}\n", nil},
		{"a resolver of one zone", "corp.example {\n    forward . 192.0.2.1\n}\n", nil},
		{"a resolver that forwards one zone", ". {\n    forward corp.example 192.0.2.1\n}\n", nil},
		{"a resolver for guests", ". {\n    ofpunt br-int\n    forward . 192.0.2.1\n}\n", nil},
		{"a hedge for one server", ". {\n    ofpunt br-int {\n        hedge 50ms\n    }\n    forward a.test 192.0.2.1 192.0.2.2\n    forward . 192.0.2.1\n}\n", []string{"CONF:3 - ofpunt: hedge: "}},
		{"a hedge without forward", ". {\n    ofpunt br-int {\n        hedge 50ms\n    }\n    whoami\n}\n. {\n    bind 127.0.0.1\n    forward . 192.0.2.1 192.0.2.2\n    acl\n}\n", []string{"CONF:3 - ofpunt: hedge: "}},
		{"a hedge for two servers", ". {\n    ofpunt br-int {\n        hedge 50ms\n    }\n    forward . 192.0.2.1 192.0.2.2\n}\n", nil},
		{"a hedge for two servers of another block", "a.test {\n    ofpunt br-int {\n        hedge 50ms\n    }\n    whoami\n}\n. {\n    ofpunt br-int\n    forward . tls://192.0.2.1 tls://192.0.2.2\n}\n", nil},
		{"a plugin behind forward", "a.test {\n    whoami\n    forward . 192.0.2.1\n}\n", []string{"CONF:2 - whoami: "}},
		{"a plugin behind forward for its zone", "a.test {\n    forward test 192.0.2.1\n    whoami\n}\n", []string{"CONF:3 - whoami: "}},
		{"a plugin behind forward for another zone", "a.test {\n    forward b.a.test 192.0.2.1\n    whoami\n}\n", nil},
		{"a plugin behind forward with exceptions", "a.test {\n    forward . 192.0.2.1 {\n        except b.a.test\n    }\n    whoami\n}\n", nil},
		{"a plugin behind forward for another rcode", "a.test {\n    forward . 192.0.2.1 {\n        next NXDOMAIN\n    }\n    whoami\n}\n", nil},
		{"hosts without fallthrough", ". {\n    ofpunt br-int\n    hosts {\n        10.0.0.1 a.test\n    }\n    private\n    forward . 192.0.2.1\n}\n", []string{"CONF:3 - hosts: "}},
		{"hosts with a file", "a.test . {\n    ofpunt br-int\n    hosts /etc/hosts\n    forward . 192.0.2.1\n}\n", []string{"CONF:3 - hosts: "}},
		{"hosts for all names in another block", "a.test {\n    ofpunt br-int\n    hosts /etc/hosts b.test . {\n        ttl 60\n    }\n    whoami\n}\n", []string{"CONF:3 - hosts: "}},
		{"hosts with fallthrough", ". {\n    ofpunt br-int\n    hosts {\n        10.0.0.1 a.test\n        fallthrough\n    }\n    forward . 192.0.2.1\n}\n", nil},
		{"hosts with zones", ". {\n    ofpunt br-int\n    hosts /etc/hosts a.test\n    forward . 192.0.2.1\n}\n", nil},
		{"hosts of a zone", "a.test {\n    ofpunt br-int\n    hosts\n    forward . 192.0.2.1\n}\n", nil},
		{"hosts without a plugin behind", ". {\n    ofpunt br-int\n    hosts\n    cache\n    loop\n}\n", nil},
		{"a socket beside ofpunt", "a.test {\n    ofpunt br-int\n}\nb.test {\n    whoami\n}\n", []string{"CONF:5: the server block b.test "}},
		{"a socket without ofpunt anywhere", "b.test {\n    whoami\n}\n", nil},

		{"the default port beside ofpunt", ".:53 {\n    ofpunt br-int\n}\n", []string{"CONF:2 - ofpunt: without bind "}},
		{"another port and a transport beside ofpunt", "tls://. a.test:5353 b.test {\n    ofpunt br-int\n}\n", []string{"CONF:2 - ofpunt: ", "CONF:2 - ofpunt: "}},
		{"a port of a socket beside ofpunt", ".:53 {\n    ofpunt br-int\n    bind 127.0.0.1\n}\n", nil},

		{"a network that is none", "10.0.0.0/33 {\n    ofpunt br-int\n    forward fd00::/129 192.0.2.1\n}\n", []string{"CONF:2: the server block 10.0.0.0/33: ", `CONF:3 - forward: "fd00::/129": `}},
		{"networks", "10.0.0.0/8 fd00::/8 0/25.2.0.192.in-addr.arpa {\n    ofpunt br-int\n    forward 10.1.0.0/17 192.0.2.1\n}\n", nil},

		{"typographic quotes", ". {\n    ofpunt br-int\n    # “x”\n    ovnhosts {\n        domain “x”\n    }\n    log \"a “b” c\"\n}\n", []string{"CONF:5 - “x”: "}},

		{"an import without files", "import DIR/none*\n. {\n    import nowhere/*.conf\n    ofpunt br-int\n    import DIR/imp*\n    import DIR/imp*\n}\n",
			[]string{"CONF:1 - import DIR/none*: ", "CONF:3 - import nowhere/*.conf: ", "DIR/imported:2 - import none*: ", "DIR/imported:3 - “a: "}},
		{"an import of a snippet", "(a*) {\n    errors\n}\n. {\n    import a*\n    ofpunt br-int\n}\n", nil},
		{"import as a word", ". {\n    ofpunt br-int\n    log import*\n    errors import nowhere/*\n}\n", nil},

		{"a block that the end of the file closes", ". {\n    ofpunt br-int\n    cache {\n        success 10\n}\n", []string{"CONF:3 - the block "}},
		{"a } that ends a Corefile without {", ".\nofpunt br-int\nerrors\n}\n", []string{"CONF:4 - this } "}},

		{"double quotes in a view", ". {\n    ofpunt br-int\n    view v {\n        expr name() == \"a b\"\n        expr name() in [\"c\", \"d\"]\n        expr\tname() == \"\\\"e\"\n    }\n}\n",
			[]string{`CONF:4 - view: the double quotes of "a b" `, `CONF:5 - view: the double quotes of "d" `, `CONF:6 - view: the double quotes of "\"e" `}},
		{"double quotes in a view that are not lost", ". {\n    ofpunt br-int\n    view v {\n        expr \"name() == 'a  b'\"\n        expr name(\"c\") == 'd' && name() == `e`\n        expr name() == \"'f  g'\"\n    }\n}\n", nil},

		{"a comment behind a word", ". {\n    ofpunt br-int\n    forward . 192.0.2.1 192.0.2.1#5353\n    log 192.0.2.1 # 192.0.2.1#53\n    log \"a#b\" # c\n}\n", []string{"CONF:3 - 192.0.2.1: "}},
		{"a block without a name", "{\n    errors\n}\n. {\n    ofpunt br-int\n}\n{\n    errors\n}\n.\n{\n    ofpunt br-int\n}\n", []string{"CONF:1 - the server block ", "CONF:7 - the server block "}},
		{"a plugin for the name", "forward . 192.0.2.1\nlog\n", []string{"CONF:2: the server block has the name forward . 192.0.2.1"}},
		{"a zone with the name of a plugin", "local {\n    ofpunt br-int\n}\n", nil},
		{"a block without anything", "ofpunt {\n    ofpunt br-int\n}\na.test {\n}\n", []string{"CONF: the server block a.test "}},

		{"braces that are words", ". {\n    ofpunt br-int\n    template IN A {\n        answer \"{{ .Name }} } {\"\n    }\n    log . {remote}\n}\n", nil},
		{"what can't be parsed", ". {\n    ofpunt br-int\n    import /nowhere\n}\n", nil},
		{"nothing", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := found(t, tt.text, rules)
			lines := strings.SplitAfter(got, "\n")
			if len(lines)-1 != len(tt.want) {
				t.Errorf("%q, want %q", lines, tt.want)
			}
			for _, want := range tt.want {
				if n := strings.Count("\n"+got, "\n"+want); n == 0 {
					t.Errorf("%q, want %q", lines, want)
				}
			}
			if len(tt.want) > 0 {
				golden.Check(t, got)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	const note = "CONF:2 - ofpunt: "
	for _, tt := range []struct{ name, text, want string }{
		{"nothing outside", ". {\n    ofpunt br-int\n    cache\n    ovnhosts\n    private\n}\n", note},
		{"forward", ". {\n    ofpunt br-int\n    ovnhosts\n    forward . 192.0.2.1\n}\n", ""},
		{"a plugin of somebody else", ". {\n    ofpunt br-int\n    another\n}\n", ""},
		{"one zone", "a.test {\n    ofpunt br-int\n    ovnhosts\n}\n", ""},
		{"hijack mode", ". {\n    ofpunt br-int {\n        address any\n    }\n    ovnhosts\n}\n", ""},
		{"without ofpunt", ". {\n    ovnhosts\n}\n", ""},
	} {
		if got := found(t, tt.text, notes); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A start refuses braces that caddy takes for something else, and names the block that is open.
func TestCheckBraces(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"pairs", ". {\n    errors {\n        stacktrace\n    }\n}\n", ""},
		{"no pair at all", ".\nerrors\n", ""},
		{"another mistake", ". {\n    nothing\n}\n", ""},
		{"taken by caddy", ". {\n    errors {\n        stacktrace\n}\n", ""}, // TestRules has the warning
		{"a } too many at the end", ". {\n    errors\n}\n}\n", "CONF:4 - this } "},
		{"a } too many at the beginning", "}\n. {\n    errors\n}\n", "CONF:1 - this } "},
		{"a } too many between blocks", ". {\n    errors\n}\n}\na.test {\n    errors\n}\n", "CONF:4 - this } "},
		{"a { too many", ". {\n    errors\n}\n{\n    errors\n}\n", ""}, // caddy takes no { for a name
		{"a server block", ". {\n    errors\n", "CONF:1 - the block "},
		{"a server block before another one", ". {\n    errors\na.test {\n    errors\n}\n", "CONF:1 - the block "},
		{"a plugin's block before another server block", ". {\n    log\n    errors {\n        stacktrace\n}\na.test {\n    errors\n}\n", "CONF:3 - the block "},
		{"all blocks, without any indentation", ". {\nerrors {\nstacktrace\n", "CONF:2 - the block "},
		{"a snippet", "(s) {\n    errors\n. {\n    import s\n}\n", "CONF:1 - the block "},
		{"a double quote", ". {\n    errors\n    log \"a\n}\n", "CONF:3 - the double quote "},
		{"a { without a space", ". {\n    errors{\n        stacktrace\n    }\n}\n", "CONF:2 - errors{: "},
		{"a } without a space", ". {\n    errors {\n        stacktrace}\n}\na.test {\n    log . {remote}\n}\n", "CONF:3 - stacktrace}: "},
		{"an imported file", ". {\n    import DIR/broken\n}\na.test {\n    errors\n}\n", "DIR/broken:1 - the block "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := found(t, tt.text, []func(*reading) []string{func(r *reading) []string {
				in := input(strings.Join(r.texts[0].lines, "\n"))
				if err := checkBraces(in, r); err != nil {
					return []string{err.Error()}
				}
				return nil
			}})
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.want != "" {
				golden.Check(t, got)
			}
		})
	}
}

// Only caddy's lines about imports are left out, and warnings alone are counted.
func TestLog(t *testing.T) {
	var out strings.Builder
	l := &Log{W: &out}
	const kept = "[INFO] a [WARNING] \n[WARNING] b\n{\"time\":\"t\",\"level\":\"WARN\",\"msg\":\"c\"}\n{\"time\":\"t\",\"level\":\"INFO\",\"msg\":\"d\"}\n"
	for line := range strings.Lines(kept + "[WARNING] No files matching import glob pattern: x\n{\"time\":\"t\",\"level\":\"INFO\",\"msg\":\"[WARNING] No files matching import glob pattern: x\"}\n") {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%q: %d, %v", line, n, err)
		}
	}
	if out.String() != kept || l.Warnings() != 2 {
		t.Errorf("%d warnings, want 2; %q, want %q", l.Warnings(), out.String(), kept)
	}
}
