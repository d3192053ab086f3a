// SPDX-License-Identifier: Apache-2.0

package ofpunt_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/ofpunt"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/transfer"
	_ "github.com/coredns/coredns/plugin/tsig"
	_ "github.com/coredns/coredns/plugin/view"
	_ "github.com/coredns/coredns/plugin/whoami"

	_ "github.com/puntdns/puntdns/plugin/audit"
	_ "github.com/puntdns/puntdns/plugin/egress"
	_ "github.com/puntdns/puntdns/plugin/ovnhosts"
)

func TestMain(m *testing.M) {
	directives := []string{"ofpunt", "metadata", "bind", "errors", "log", "audit", "unknown", "tsig", "rewrite", "ovnhosts", "egress", "transfer", "cache", "template", "hosts", "file", "loop", "forward", "whoami", "view"}
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ofpunt.TakeOverAfter("view")
	caddy.Quiet, dnsserver.Quiet = true, true
	goleak.VerifyTestMain(m)
}

// input is a Corefile whose sockets are in an empty folder.
func input(t *testing.T, text string) caddy.CaddyfileInput {
	dir := t.TempDir()
	text = strings.NewReplacer(
		"$SOCKETS", "openflow unix:"+filepath.Join(dir, "mgmt")+"\n ovsdb unix:"+filepath.Join(dir, "ovs"),
		"$SB", "southbound unix:"+filepath.Join(dir, "sb"),
	).Replace(text)
	return caddy.CaddyfileInput{Contents: []byte(text), Filepath: "Corefile", ServerTypeName: "dns"}
}

const one = ". {\n ofpunt br-int {\n $SOCKETS\n }\n ovnhosts {\n $SB\n }\n}\n"

// Without a switch and databases a Corefile can be started, reloaded and stopped, and no
// goroutine is left.
func TestLifecycleWithoutSwitch(t *testing.T) {
	first, err := caddy.Start(input(t, one))
	if err != nil {
		t.Fatal(err)
	}
	if len(ofpunt.NotReady()) == 0 {
		t.Error("ready without a switch")
	}
	second, err := first.Restart(input(t, strings.ReplaceAll(one, "br-int", "br-other")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Restart(input(t, strings.ReplaceAll(one, "ofpunt", "offpunt"))); err == nil {
		t.Error("a broken Corefile was taken")
	}
	// A start that fails when it has opened its databases releases them.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	clash := strings.Replace(one, ". {", ".:"+strings.TrimPrefix(taken.Addr().String(), "127.0.0.1:")+" {\n bind 127.0.0.1", 1)
	if _, err := second.Restart(input(t, clash)); err == nil {
		t.Error("a socket that somebody has was taken")
	}
	third, err := second.Restart(input(t, one))
	if err != nil {
		t.Fatal(err)
	}
	if errs := third.ShutdownCallbacks(); len(errs) > 0 {
		t.Error(errs)
	}
	if err := third.Stop(); err != nil {
		t.Error(err)
	}
}

// Whatever step of a start fails, the Corefile before serves its bridges and the next reload succeeds.
func TestFailedStarts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	other := strings.ReplaceAll(one, "br-int", "br-other")
	const noBridge = ".:0 {\n bind 127.0.0.1\n whoami\n}\n"
	clash := strings.Replace(noBridge, ":0", ":"+strings.TrimPrefix(taken.Addr().String(), "127.0.0.1:"), 1)
	busy := filepath.Join(t.TempDir(), "none", "control")
	for _, tt := range []struct{ name, before, failing string }{
		{"setup, after a bridge", one, "a. {\n offpunt\n}\n" + other},
		{"build, after a bridge", one, strings.Replace(other, "$SB", "northbound unix:/nb", 1)},
		{"takeOver, after a bridge", one, strings.Replace(other, "$SOCKETS", "$SOCKETS\n control unix:"+busy, 1)},
		{"behind takeOver, after a bridge", one, other + clash},
		{"behind takeOver, of the same bridge", one, one + clash},
		{"behind takeOver, after no bridge", noBridge, other + clash},
		{"behind takeOver, first", "", other + clash},
	} {
		t.Run(tt.name, func(t *testing.T) {
			served := func(want bool) {
				t.Helper()
				all := strings.Join(ofpunt.NotReady(), " ")
				if strings.Contains(all, "br-int") != want || strings.Contains(all, "br-other") {
					t.Errorf("bridges not ready: %s", all)
				}
			}
			if tt.before == "" {
				if _, err := caddy.Start(input(t, tt.failing)); err == nil {
					t.Fatal("taken")
				}
				_ = corefile.StartFailed()
				served(false)
				return
			}
			i := corefiletest.Start(t, input(t, tt.before))
			if _, err := i.Restart(input(t, tt.failing)); err == nil {
				t.Fatal("taken")
			}
			served(tt.before == one)
			next, err := i.Restart(input(t, one))
			if err != nil {
				t.Fatal(err)
			}
			served(true)
			next.ShutdownCallbacks()
			if err := next.Stop(); err != nil {
				t.Error(err)
			}
			served(false)
		})
	}
}

func TestBlocksThatDisagree(t *testing.T) {
	const bare = "\n. {\n ofpunt br-int\n ovnhosts {\n $SB\n }\n}\n"
	placed := func(placement string) string {
		return strings.Replace(one, "$SOCKETS\n", "$SOCKETS\n placement "+placement+"\n", 1)
	}
	const snapshot = "ovnhosts {\n snapshot /var/lib/puntdns"
	for _, tt := range []struct{ name, text string }{
		{"equal zones", one + bare},
		{"a zone of several, in other case", strings.Replace(one, ".", "a.test b.test", 1) + strings.Replace(bare, ".", "c.test B.Test", 1)},
		{"other properties", one + "\na. {\n ofpunt br-int {\n lease 3s\n }\n ovnhosts {\n $SB\n }\n}\n"},
		{"other databases", one + "\na. {\n ofpunt br-int\n ovnhosts {\n southbound unix:/elsewhere\n }\n}\n"},
		{"snapshot with placement neutron", strings.Replace(placed("neutron"), "ovnhosts {", snapshot, 1)},
		{"snapshot with placement table", strings.Replace(placed("table 60 200"), "ovnhosts {", snapshot, 1)},
		{"placement ovn without Southbound", strings.Replace(one, "$SB", "northbound unix:/nb", 1)},
		{"dhcp without Northbound", strings.Replace(one, "$SOCKETS", "$SOCKETS\n address 10.0.0.1 dhcp", 1)},
		{"gateway without ovnhosts", ". {\n ofpunt br-int {\n $SOCKETS\n placement neutron\n address gateway\n }\n}\n"},
		{"a limit by a label that no database has", ". {\n ofpunt br-int {\n $SOCKETS\n placement neutron\n limit ofpunt/port vm1 {\n rate 5\n }\n limit ofpunt/router r1 {\n rate 5\n }\n }\n}\n"},
		{"egress that the switch can't enforce", ". {\n ofpunt br-int {\n $SOCKETS\n placement neutron\n }\n egress {\n policy ofpunt/port vm1 {\n allow a.test\n }\n }\n}\n"},
		{"egress by Northbound, which nothing reads", ". {\n ofpunt br-int {\n $SOCKETS\n }\n ovnhosts {\n $SB\n }\n egress {\n northbound on\n }\n}\n"},
		{"egress with two bits", ". {\n ofpunt br-int {\n $SOCKETS\n }\n ovnhosts {\n $SB\n }\n egress {\n policy ofpunt/port vm1 {\n allow a.test\n }\n }\n}\nother {\n ofpunt br-int {\n $SOCKETS\n }\n ovnhosts {\n $SB\n }\n egress {\n bit 7\n policy ofpunt/port vm1 {\n allow a.test\n }\n }\n}\n"},
		{"a policy of egress by a label that no database has", ". {\n ofpunt br-int {\n $SOCKETS\n placement neutron\n }\n egress {\n strict on\n policy ofpunt/port vm1 {\n allow a.test\n }\n policy ofpunt/router r1 {\n allow a.test\n }\n }\n}\n"},
		{"a view by groups, which no database has", ". {\n ofpunt br-int {\n $SOCKETS\n placement neutron\n }\n metadata\n view v {\n expr metadata('ofpunt/group') == 'g'\n }\n}\n"},
		{"no ovnhosts", ". {\n ofpunt br-int {\n $SOCKETS\n }\n}\n"},
		{"no ovnhosts on one of two bridges", one + ". {\n ofpunt br-ex {\n $SOCKETS\n }\n}\n"},
		{"loop", ". {\n ofpunt br-int {\n $SOCKETS\n }\n ovnhosts {\n $SB\n }\n loop\n}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden.Check(t, refusal(t, tt.text))
		})
	}
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"view by the asker without metadata", strings.Replace(one, ". {", ". {\n view v {\n expr type() == 'A'\n expr metadata('ofpunt/switch') == 'red'\n }", 1),
			[]string{"Corefile:6 - ofpunt", "view at Corefile:4", "ofpunt/switch"}},
		{"view by the asker without metadata, beside another label in another block",
			one + "\na. {\n view v {\n expr metadata('a/b') == metadata(\"ofpunt/port\")\n }\n ofpunt br-int\n ovnhosts {\n $SB\n }\n}\n",
			[]string{"Corefile:15 - ofpunt", "view at Corefile:13", "ofpunt/port"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := refusal(t, tt.text)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
		})
	}
}

// refusal returns the error of a start.
func refusal(t *testing.T, text string) string {
	t.Helper()
	i, err := caddy.Start(input(t, text))
	if err == nil {
		i.ShutdownCallbacks()
		t.Fatal("taken")
	}
	return err.Error()
}

// A warning is logged of what can be served but is hardly what was meant.
func TestBlocksWarnedOf(t *testing.T) {
	signed := func(require string) string {
		return strings.Replace(one, ". {", ". {\n transfer {\n to 10.0.0.9\n }\n tsig {\n secret k.test. cmVk\n"+require+" }", 1)
	}
	const unsigned = "Corefile:3 - transfer to 10.0.0.9: "
	said := map[string]bool{}
	tests := []struct{ name, text, want string }{
		{"nothing", one, ""},
		{"view by the name, without metadata", strings.Replace(one, ". {", ". {\n view v {\n expr name() != 'x.'\n }", 1), ""},
		{"log of the asker without metadata", strings.Replace(one, ". {", ". {\n log . {/ofpunt/port}", 1), "Corefile:3 - ofpunt br-int: log at Corefile:2 .* ofpunt/port,"},
		{"view by a label of another plugin, without metadata", strings.Replace(one, ". {", ". {\n view v {\n expr metadata('ofpunts/switch') != 'x'\n }", 1), ""},
		{"transfer to an address", strings.Replace(one, ". {", ". {\n transfer a.test {\n to * 10.0.0.9\n }", 1), unsigned},
		{"transfer to an address in a view", strings.Replace(one, ". {", ". {\n metadata\n view v {\n expr metadata('ofpunt/switch') == 'red'\n }\n transfer {\n to 10.0.0.9\n }", 1), ""},
		{"transfer to an address, tsig requires nothing", signed(""), unsigned},
		{"transfer to an address, tsig requires none", signed(" require none\n"), unsigned},
		{"transfer to an address, tsig requires another type", signed(" require TXT\n"), unsigned},
		{"transfer to an address, tsig requires AXFR", signed(" require AXFR\n"), unsigned},
		{"transfer to an address, tsig requires IXFR", signed(" require IXFR TXT\n"), unsigned},
		{"transfer to an address, tsig requires both, then none", signed(" require AXFR IXFR\n require none\n"), unsigned},
		{"transfer to an address, tsig requires another opcode", signed(" require_opcode all\n"), unsigned},
		{"transfer to an address, tsig requires both", signed(" require TXT IXFR AXFR\n"), ""},
		{"transfer to an address, tsig requires all", signed(" require all\n"), ""},
		{"an IPv6 address that ends like a port", strings.Replace(one, "$SOCKETS", "$SOCKETS\n address 10.0.0.1:5353 fd00::254:5353 [fd00::253:5353]:53", 1),
			`Corefile:5 - ofpunt br-int: address: "fd00::254:5353" .*\[fd00::254\]:5353 .*\[fd00::254:5353\]:53$`},
		{"a label in a name without the word metadata", strings.Replace(one, ". {", ". {\n metadata\n rewrite name regex ^who$ {ofpunt/port}.test.", 1),
			"Corefile:4 - ofpunt br-int: rewrite at Corefile:3 .*{ofpunt/port} "},
		{"a block without egress", one + "a.test {\n ofpunt br-int\n egress {\n strict names\n policy ofpunt/switch red {\n allow a.test\n }\n }\n}\n",
			"Corefile:2 - ofpunt br-int: the block . has no egress, which the block a.test \\(Corefile:11\\) has"},
		{"view by the asker", strings.Replace(one, ". {", ". {\n metadata\n view v {\n expr metadata('ofpunt/switch') != ''\n }", 1), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := testkit.CaptureLog(t)
			i := corefiletest.Start(t, input(t, tt.text))
			i.ShutdownCallbacks()
			if err := i.Stop(); err != nil {
				t.Error(err)
			}
			warnings := regexp.MustCompile(`\[(?:WARNING|ERROR)\] (.*: Corefile:.*)`).FindAllStringSubmatch(out.String(), -1)
			if tt.want == "" && len(warnings) == 0 {
				return
			}
			if tt.want == "" || len(warnings) != 1 || !regexp.MustCompile("^plugin/ofpunt: "+tt.want).MatchString(warnings[0][1]) {
				t.Fatalf("the log has\n%s\nwant %q", out.String(), tt.want)
			}
			said[warnings[0][1]] = true
		})
	}
	golden.Check(t, strings.Join(slices.Sorted(maps.Keys(said)), "\n"))
}
