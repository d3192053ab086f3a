// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

// A block that needs nothing to be there, with lines of the test after line 2.
const checkedBlock = ". {\n    ofpunt br-int\nLINES    ovnhosts\n}\n"

func TestCheck(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	said := ""
	for _, tc := range []struct{ name, lines, want string }{
		{"right", "", ""},
		{"one address for several blocks", "    prometheus 127.0.0.1:0\n}\na.test {\n    ofpunt br-int\n    prometheus 127.0.0.1:0\n", ""},
		{"a wrong property", "    cache 0\n", "Corefile:3 - plugin/cache: cache TTL"},
		{"an error that has its line", "    cache {\n        nothing\n    }\n", "\nplugin/cache: CONF:4 - Error during parsing: "},
		{"one of two directives", "    rewrite name regex ^a$ b.\n    rewrite name regex ^a$ b. c\n", "Corefile:3 or CONF:4 - plugin/rewrite: "},
		{"a directive of the name of a word", "    errors\n    rewrite name rewrite rewrite {\n        rewrite\n    }\n    log rewrite\n", "\nCONF:4 - plugin/rewrite: "},
		{"a directive in two blocks", "    forward . nonsense\n}\na.test {\n    ofpunt br-int\n    forward . 192.0.2.1\n", `Corefile:3 - plugin/forward: failed to resolve "nonsense"`},
		{"an expression", "    view v {\n        expr true ==\n    }\n", "Corefile:3 - plugin/view: unexpected token EOF"},
		{"an error of the compiled servers", "    loop\n", "Corefile:2 - ofpunt br-int: loop "},
		{"a missing file", "    import nowhere\n", "nowhere"},
		{"ready and health", "    ready 127.0.0.1:1234 {\n        monitor continuously\n    }\n    health localhost:1234\n",
			`Corefile:6 - health: "localhost:1234" … ready at CONF:3 … ("127.0.0.1:1234")`},
		{"defaults", "    health 127.0.0.1:8181 {\n        lameduck 1s\n    }\n    ready\n", `Corefile:3 - health: "127.0.0.1:8181" … ready at CONF:6 … (":8181")`},
		{"prometheus and pprof", "    prometheus [::]:6053\n    pprof\n", `Corefile:3 - prometheus: "[::]:6053" … pprof at CONF:4 … ("localhost:6053")`},
		{"an address that somebody has", "    prometheus " + busy + "\n", `Corefile:3 - prometheus: "` + busy + `": bind: address already in use; …`},
		{"a socket that somebody has", "    bind 127.0.0.1\n", "dns://" + busy + ": bind: address already in use; …"},
		{"a control socket without a folder", "}\na.test {\n    ofpunt br-int {\n        control unix:/nowhere/control.sock\n    }\n", "CONF:6 - ofpunt br-int: control: /nowhere: no such file or directory"},
		{"two control sockets", "}\na.test {\n    ofpunt br-int {\n        control unix:/tmp/a.sock\n    }\n    ovnhosts\n}\nb.test {\n    ofpunt br2 {\n        control unix:/tmp/b.sock\n    }\n",
			"CONF:12 - ofpunt br2: control: unix:/tmp/b.sock … ofpunt br-int at CONF:5; … unix:/tmp/a.sock"},
		{"a } too many", "}\n}\na.test {\n    ofpunt br-int\n", "Corefile:4 - this } "},
		{"a block that is not closed", "    cache {\n", "Corefile:3 - the block "},
		{"an unknown directive", "    forwrd . 192.0.2.1\n", "Corefile:3 - Error during parsing: Unknown directive 'forwrd'; … -plugins … forward?"},
		{"a misspelt property", "    private {\n        ecxept lan\n    }\n", "Corefile:4 - Error during parsing: … except?"},
		{"no such host", "    prometheus no.such.host.invalid:9153\n", "Corefile:3 - prometheus: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "Corefile")
			text := strings.Replace(checkedBlock, "LINES", tc.lines, 1)
			if strings.Contains(tc.lines, "bind") {
				_, port, _ := net.SplitHostPort(busy)
				text = strings.Replace(text, ". {", ".:"+port+" {", 1)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, "-check", "-conf", path)
			out = "\n" + out
			want := strings.ReplaceAll(tc.want, "CONF", path)
			var exit *exec.ExitError
			switch {
			case want == "" && (err != nil || !strings.HasSuffix(out, "\n"+path+": OK\n")):
				t.Errorf("%v: %q, want exit status 0", err, out)
			case want != "" && (!errors.As(err, &exit) || exit.ExitCode() != 1 || count(out, want) == 0):
				t.Errorf("%v: %q, want exit status 1 and %q", err, out, want)
			}
			if want == "" || strings.Contains(want, "…") {
				said += strings.NewReplacer(path, "CONF", busy, "BUSY").Replace(out[1:])
			}
			if !slices.Contains([]string{"ready and health", "an expression", "a } too many", "an unknown directive"}, tc.name) {
				return
			}
			// A start says the same.
			if out, err := run(t, "-conf", path); err == nil || count(out, want) == 0 {
				t.Errorf("the start: %v: %q, want %q", err, out, want)
			}
		})
	}
	golden.Check(t, said)
}

// count returns how often a text is in out. Its … is a sentence of this line, which the golden file of
// a package has.
func count(out, text string) int {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*")
	return len(regexp.MustCompile(pattern).FindAllString(out, -1))
}

// What several plugins refuse is told at once, each with its line, though a start ends with the first.
func TestCheckGoesOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "Corefile")
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"in one block", ". {\n    ofpunt br-int {\n        lease soon\n    }\n    cache 0\n    ovnhosts\n    forward . nonsense\n}\n", []string{
			`plugin/ofpunt: CONF:3 - Error during parsing: lease: "soon"`, "CONF:5 - plugin/cache: cache TTL", `CONF:7 - plugin/forward: failed to resolve "nonsense"`,
		}},
		{"in several blocks", ". {\n    ofpunt br-int\n    ovnhosts\n    cache 0\n}\na.test {\n    ofpunt br-int\n    ovnhosts {\n        nothing\n    }\n    cache 0\n}\n", []string{
			`plugin/ovnhosts: CONF:9 - Error during parsing: … "nothing"`, "CONF:4 - plugin/cache: cache TTL", "CONF:11 - plugin/cache: cache TTL",
		}},
		{"a plugin that needs another one", ". {\n    ofpunt br-int\n    ovnhosts\n    ovnforward\n    cache 0\n}\n", []string{
			"plugin/ovnforward: CONF:4 - ovnforward: … Northbound", "CONF:5 - plugin/cache: cache TTL",
		}},
		{"a plugin that warns", ". {\n    ofpunt br-int\n    ovnhosts {\n        fallthrough\n    }\n    hosts /nowhere/hosts {\n        fallthrough\n    }\n    forward . nonsense\n}\n", []string{
			"File does not exist: /nowhere/hosts", `CONF:9 - plugin/forward: failed to resolve "nonsense"`,
		}},
		{"what the blocks mean together", ". {\n    ofpunt br-int {\n        control unix:/nowhere/control.sock\n    }\n    ovnhosts\n    loop\n    health 127.0.0.1:8181 {\n        lameduck 1s\n    }\n    ready\n}\n. {\n    ofpunt br-int\n    ovnhosts {\n        northbound tcp:127.0.0.1:1\n    }\n}\nb.test {\n    ofpunt br2\n}\n", []string{
			`CONF:13 - ofpunt br-int: zone "." … CONF:2`, "CONF:2 - ofpunt br-int: loop ",
			"CONF:14 - ofpunt br-int: ovnhosts … CONF:5 … (southbound, northbound)", "CONF:19 - ofpunt br2: … ovnhosts",
			"CONF:3 - ofpunt br-int: control: /nowhere: ", `CONF:7 - health: "127.0.0.1:8181" … ready at CONF:10`,
		}},
		{"blocks that disagree, and a view", ". {\n    ofpunt br-int {\n        rate off\n    }\n    ovnhosts\n}\na.test {\n    ofpunt br-int {\n        rate 10\n    }\n    metadata\n    view v {\n        expr metadata('ofpunt/nothing') == 'a' || metadata('ofpunt/wrong') == 'b'\n    }\n}\nb.test {\n    ofpunt br-int {\n        rate 20\n    }\n}\n", []string{
			" ofpunt/nothing", " ofpunt/wrong", "CONF:8 - ofpunt br-int: … CONF:2 (rate)", "CONF:17 - ofpunt br-int: … CONF:2 (rate)",
		}},
		{"blocks that disagree, and a zone twice", ". {\n    ofpunt br-int {\n        rate off\n    }\n    ovnhosts\n}\n. {\n    ofpunt br-int {\n        rate 10\n    }\n}\n", []string{
			"CONF:8 - ofpunt br-int: … CONF:2 (rate)", `CONF:8 - ofpunt br-int: zone "." … CONF:2`,
		}},
		{"no ovnhosts, which much needs", ". {\n    ofpunt br-int {\n        address dhcp\n        limit ofpunt/network 0b3c4d5e-0000-4000-8000-000000000001 {\n            rate 10\n        }\n    }\n    metadata\n    log . \"{/ofpunt/network}\"\n}\n", []string{
			"CONF:2 - ofpunt br-int: … ovnhosts",
		}},
		{"addresses", ". {\n    ofpunt br-int\n    ovnhosts {\n        tls /no/cert.pem /no/key.pem /no/ca.pem\n        southbound ssl:127.0.0.1:6642\n    }\n    health 127.0.0.1:8181 {\n        lameduck 1s\n    }\n    ready\n}\n", []string{
			"CONF:4 - ovnhosts: tls: ", `CONF:7 - health: "127.0.0.1:8181" … ready at CONF:10`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, "-check", "-conf", path)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v: %s, want exit status 1", err, out)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			for _, want := range tc.want {
				want = strings.ReplaceAll(want, "CONF", path)
				if count(out, want) != 1 {
					t.Errorf("%q, want %q once", out, want)
				}
			}
			if len(lines) != len(tc.want) {
				t.Errorf("%d lines, want %d:\n%s", len(lines), len(tc.want), out)
			}
		})
	}
}

// What a start warns of is told by -check, with file and line, and by the start.
func TestCheckWarns(t *testing.T) {
	said := ""
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", ". {\n    ofpunt br-int\n    ovnhosts {\n        fallthrough\n    }\n    forward . 192.0.2.1\n}\n", nil},
		{"no fallthrough", ". {\n    ofpunt br-int\n    ovnhosts\n    forward . 192.0.2.1\n}\n",
			[]string{"CONF:3 - ovnhosts: … forward "}},
		{"no fallthrough, from a socket", ".:0 {\n    bind 127.0.0.1\n    ovnhosts . {\n        default_switch red\n    }\n    forward . 192.0.2.1\n}\n",
			[]string{"CONF:3 - ovnhosts .: … forward "}},
		{"no fallthrough, from a socket without default_switch", ".:0 {\n    bind 127.0.0.1\n    ovnhosts\n    forward . 192.0.2.1\n}\n", nil},
		{"no fallthrough in neutronhosts", ". {\n    ofpunt br-int {\n        placement neutron\n    }\n    neutronhosts\n    forward . 192.0.2.1\n}\n",
			[]string{"CONF:5 - neutronhosts: … forward "}},
		{"the DNS servers of the node", ". {\n    ofpunt br-int\n    ovnhosts {\n        fallthrough\n    }\n    forward corp.example 192.0.2.1\n    forward . 192.0.2.1 /etc/resolv.conf {\n        max_fails 1\n    }\n}\n",
			[]string{"CONF:7 - forward .: /etc/resolv.conf "}},
		{"the DNS servers of the node, from a socket", ".:0 {\n    bind 127.0.0.1\n    forward . /etc/resolv.conf\n}\n", nil},
		{"nothing to fall through to", ". {\n    ofpunt br-int\n    cache\n    ovnhosts {\n        domain a.test\n        fallthrough a.test\n    }\n}\n",
			[]string{"CONF:6 - ovnhosts: fallthrough: "}},
		{"nothing behind the last", ". {\n    ofpunt br-int\n    ovnhosts {\n        fallthrough\n    }\n    hosts {\n        192.0.2.1 fallthrough\n        fallthrough\n    }\n}\n",
			[]string{"CONF:8 - hosts: fallthrough: "}},
		{"a template behind another one", ". {\n    ofpunt br-int\n    ovnhosts\n    template IN A a.test {\n        answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n        fallthrough\n    }\n    template IN A b.test {\n        answer \"{{ .Name }} 60 IN A 192.0.2.2\"\n    }\n}\n", nil},
		{"private behind fallthrough", ". {\n    ofpunt br-int\n    ovnhosts {\n        fallthrough\n    }\n    private\n}\n", nil},
		{"fallthrough in hijack mode", ". {\n    ofpunt br-int {\n        address any\n    }\n    ovnhosts {\n        fallthrough\n    }\n}\n", nil},
		{"neutronhosts without ofpunt", ".:0 {\n    bind 127.0.0.1\n    neutronhosts\n    forward . 192.0.2.1\n}\n",
			[]string{"CONF:3 - neutronhosts: … ofpunt "}},
		{"neutronhosts with a path that is a file", ". {\n    ofpunt br-int {\n        placement neutron\n    }\n    neutronhosts {\n        path /etc/passwd\n    }\n}\n",
			[]string{"CONF:6 - neutronhosts: path: /etc/passwd: "}},
		{"neutronhosts with a path that comes later", ". {\n    ofpunt br-int {\n        placement neutron\n    }\n    neutronhosts {\n        path /no/dhcp\n    }\n}\n", nil},
		{"a folder of snapshot that is missing", ". {\n    ofpunt br-int\n    ovnhosts {\n        snapshot /nowhere/saved\n    }\n}\n",
			[]string{"CONF:4 - ovnhosts: snapshot: /nowhere/saved: no such file or directory"}},
		{"a folder of snapshot that is a file", ". {\n    ofpunt br-int\n    ovnhosts {\n        snapshot CONF 1m\n    }\n}\n",
			[]string{"CONF:4 - ovnhosts: snapshot: CONF: "}},
		{"a folder of snapshot", ". {\n    ofpunt br-int\n    ovnhosts {\n        snapshot DIR\n    }\n}\n", nil},
		{"a port without a socket", ".:1053 {\n    ofpunt br-int\n    ovnhosts\n}\n", []string{"CONF:2 - ofpunt: … .:1053 "}},
		{"sockets that are not there", ". {\n    ofpunt br-int {\n        openflow unix:/nowhere/br-int.mgmt\n        ovsdb unix:/nowhere/db.sock\n    }\n    ovnhosts {\n        southbound unix:/nowhere/sb.sock,tcp:127.0.0.1:1\n        northbound unix:/nowhere/nb.sock\n    }\n}\n",
			[]string{"CONF:3 - ofpunt br-int: openflow: ", "CONF:4 - ofpunt br-int: ovsdb: ", "CONF:7 - ovnhosts: southbound: unix:/nowhere/sb.sock: ", "CONF:8 - ovnhosts: northbound: unix:/nowhere/nb.sock: "}},
		{"imports without files", "import /nowhere/*\n. {\n    ofpunt br-int\n    ovnhosts\n    import nowhere*\n}\n", []string{"CONF:1 - import /nowhere/*: ", "CONF:5 - import nowhere*: "}},
		{"an IPv6 address that ends like a port", ". {\n    ofpunt br-int {\n        arp on\n        address 10.0.0.1:5353 fd00::254:5353 [fd00::253:5353]:53\n    }\n    ovnhosts\n}\n",
			[]string{`CONF:4 - ofpunt br-int: address: "fd00::254:5353" … [fd00::254]:5353 … [fd00::254:5353]:53`}},
		{"a label without metadata", ". {\n    ofpunt br-int\n    ovnhosts\n    log . {/ofpunt/port}\n}\n",
			[]string{"CONF:2 - ofpunt br-int: log at CONF:4 … ofpunt/port"}},
		{"a label in a name without the word metadata", ". {\n    ofpunt br-int\n    metadata\n    ovnhosts\n    rewrite name regex ^who\\.test\\.$ {ofpunt/external-id/neutron:project_id}.test.\n}\n",
			[]string{"CONF:2 - ofpunt br-int: rewrite at CONF:5 … {ofpunt/external-id/neutron:project_id}"}},
		{"a label in a name", ". {\n    ofpunt br-int\n    metadata\n    ovnhosts\n    rewrite name regex ^who\\.test\\.$ {ofpunt/external-id/neutron:project_id}.test. metadata\n}\n", nil},
		{"a label that is computed", ". {\n    ofpunt br-int\n    metadata\n    ovnhosts\n    template IN TXT {\n        answer \"{{ .Name }} TXT {{ .Meta (printf \\\"ofpunt/%s\\\" \\\"router\\\") }}\"\n    }\n}\n", nil},
		{"a socket on all addresses", ". {\n    ofpunt br-int\n    ovnhosts\n}\na.test:0 b.test:0 {\n    errors\n    whoami\n}\n",
			[]string{"CONF:6: … a.test:0 b.test:0 … bind"}},
		{"a socket on one address", ". {\n    ofpunt br-int\n    ovnhosts\n}\na.test:0 {\n    bind 127.0.0.1\n    whoami\n}\n", nil},
		{"a variable that is not set", ". {\n    ofpunt br-int\n    ovnhosts {\n        # {$PUNTDNS_NOTHING}\n        northbound tcp:{$PUNTDNS_NOTHING}127.0.0.1:1 tcp:{%PUNTDNS_NOTHING%}127.0.0.1{$PUNTDNS_NOTHING}:2\n        southbound tcp:127.0.0.1:3\n    }\n}\n",
			[]string{"CONF:5: {$PUNTDNS_NOTHING} ", "CONF:5: {%PUNTDNS_NOTHING%} "}},
		{"a variable that is set", ". {\n    ofpunt br-int\n    ovnhosts {\n        southbound tcp:127.0.0.1:{$" + asPuntdns + "}\n    }\n}\n", nil},
		{"a variable in a file that is imported", ". {\n    ofpunt br-int\n    import IMPORTED\n    import IMPORTED2\n}\n",
			[]string{"IMPORTED:2: {$PUNTDNS_NOTHING} "}},
		{"a forward that private does not let through", ".:0 {\n    bind 127.0.0.1\n    private {\n        except corp\n    }\n    forward corp 192.0.2.1\n    forward db.internal 192.0.2.1 {\n        policy sequential\n    }\n    forward 10.1.0.0/16 192.0.2.1\n    forward org 192.0.2.1\n    forward . 192.0.2.1\n}\n",
			[]string{
				"CONF:7 - forward db.internal: private … db.internal.; … except db.internal",
				"CONF:10 - forward 10.1.0.0/16: private … 1.10.in-addr.arpa.; … except 10.1.0.0/16",
			}},
		{"a forward that private lets through by its zones", ".:0 {\n    bind 127.0.0.1\n    private lan\n    forward corp 192.0.2.1\n}\n", nil},
		{"a forward in another block than private", ".:0 {\n    bind 127.0.0.1\n    private\n}\ninternal:0 {\n    bind 127.0.0.1\n    forward . 192.0.2.1\n}\n", nil},
		{"no ofpunt at all", "a.test:0 {\n    whoami\n}\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path, imported := filepath.Join(dir, "Corefile"), filepath.Join(dir, "imported")
			for file, text := range map[string]string{
				path:           strings.NewReplacer("IMPORTED", imported, "CONF", path, "DIR", dir).Replace(tc.text),
				imported:       "ovnhosts {\n    southbound tcp:{$PUNTDNS_NOTHING}127.0.0.1:1\n}\n",
				imported + "2": "whoami\n",
			} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := run(t, "-check", "-conf", path)
			if err != nil || strings.Count(out, "[WARNING]") != len(tc.want) {
				t.Errorf("%v: %q, want exit status 0 and %d warnings", err, out, len(tc.want))
			}
			verdict := map[int]string{0: "OK", 1: "no error, 1 warning"}[len(tc.want)]
			if verdict = cmp.Or(verdict, fmt.Sprintf("no error, %d warnings", len(tc.want))); !strings.HasSuffix(out, path+": "+verdict+"\n") {
				t.Errorf("%q, want the verdict %q", out, verdict)
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
				t.Errorf("%v: %v, want nothing left behind", err, all)
			}
			for _, want := range tc.want {
				if want = strings.NewReplacer("CONF", path, "IMPORTED", imported).Replace(want); count(out, want) != 1 {
					t.Errorf("%q, want %q once", out, want)
				}
			}
			said += strings.NewReplacer(path, "CONF", imported, "IMPORTED", dir, "DIR").Replace(out)
		})
	}
	// TestBlocksWarnedOf of ofpunt has the warnings of ofpunt.
	warnings := regexp.MustCompile(`\[WARNING\] .*`).FindAllString(said, -1)
	golden.Check(t, strings.Join(slices.DeleteFunc(warnings, func(w string) bool { return strings.Contains(w, " plugin/ofpunt: ") }), "\n"))
}

// A start names a variable that is not set once, also where that is why it fails.
func TestStartWarnsOfVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(".:0 {\n    bind {$PUNTDNS_NOTHING}\n    forward . {$PUNTDNS_NOTHING}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "-conf", path)
	if err == nil || strings.Count(out, path+":2: {$PUNTDNS_NOTHING} ") != 1 || strings.Count(out, "[WARNING]") != 2 {
		t.Errorf("%v: %q, want a warning for each line", err, out)
	}
}
