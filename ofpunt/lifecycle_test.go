// SPDX-License-Identifier: Apache-2.0

package ofpunt_test

import (
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/testio"
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
	_ "github.com/puntdns/puntdns/plugin/ovnhosts"
)

func TestMain(m *testing.M) {
	directives := []string{"ofpunt", "metadata", "bind", "errors", "log", "audit", "unknown", "tsig", "rewrite", "ovnhosts", "transfer", "cache", "template", "hosts", "file", "loop", "forward", "whoami", "view"}
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
	if (&ofpunt.Handler{}).Ready() {
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

func TestBlocksThatDisagree(t *testing.T) {
	const bare = "\n. {\n ofpunt br-int\n ovnhosts {\n $SB\n }\n}\n"
	tests := []struct {
		name, text string
		want       []string
	}{
		{"equal zones", one + bare, []string{"Corefile:2", "Corefile:12", `zone "."`, "expected another zone or a view"}},
		{"other properties", one + "\na. {\n ofpunt br-int {\n lease 3s\n }\n ovnhosts {\n $SB\n }\n}\n",
			[]string{"Corefile:2", "Corefile:12", "other properties", "lease", "expected the same or none"}},
		{"other databases", one + "\na. {\n ofpunt br-int\n ovnhosts {\n southbound unix:/elsewhere\n }\n}\n",
			[]string{"Corefile:13 - ofpunt", "differs from the one at Corefile:6", "(southbound)"}},
		{"snapshot with placement neutron", strings.Replace(one, "$SOCKETS\n }\n ovnhosts {", "$SOCKETS\n placement neutron\n }\n ovnhosts {\n snapshot /var/lib/puntdns", 1),
			[]string{"Corefile:7 - ofpunt br-int", "ovnhosts has snapshot", "placement neutron", "expected placement ovn, or no snapshot"}},
		{"snapshot with placement table", strings.Replace(one, "$SOCKETS\n }\n ovnhosts {", "$SOCKETS\n placement table 60 200\n }\n ovnhosts {\n snapshot /var/lib/puntdns", 1),
			[]string{"Corefile:7 - ofpunt br-int", "ovnhosts has snapshot", "placement table"}},
		{"no ovnhosts", ". {\n ofpunt br-int {\n $SOCKETS\n }\n}\n", []string{"Corefile:2", "no block of this bridge has ovnhosts"}},
		{"loop", ". {\n ofpunt br-int {\n $SOCKETS\n }\n ovnhosts {\n $SB\n }\n loop\n}\n", []string{"Corefile:2", "loop", "no socket"}},
		{"view by the asker without metadata", strings.Replace(one, ". {", ". {\n view v {\n expr type() == 'A'\n expr metadata('ofpunt/switch') == 'red'\n }", 1),
			[]string{"Corefile:6 - ofpunt", "view at Corefile:4", "label ofpunt/switch", "expected a line with metadata"}},
		{"view by the asker without metadata, beside another label in another block",
			one + "\na. {\n view v {\n expr metadata('a/b') == metadata(\"ofpunt/port\")\n }\n ofpunt br-int\n ovnhosts {\n $SB\n }\n}\n",
			[]string{"Corefile:15 - ofpunt", "view at Corefile:13", "label ofpunt/port"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, err := caddy.Start(input(t, tt.text))
			if err == nil {
				i.ShutdownCallbacks()
				t.Fatal("taken")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
		})
	}
}

// A warning is logged of what can be served but is hardly what was meant.
func TestBlocksWarnedOf(t *testing.T) {
	signed := func(require string) string {
		return strings.Replace(one, ". {", ". {\n tsig {\n secret k.test. cmVk\n"+require+" }\n transfer {\n to 10.0.0.9\n }", 1)
	}
	const unsigned = "transfer to 10.0.0.9: a guest of any network may have that address"
	tests := []struct{ name, text, want string }{
		{"nothing", one, ""},
		{"port in the key", strings.Replace(one, ".", ".:5353", 1), "Corefile:2 - ofpunt br-int: without bind the block has no socket, so transport and port of dns://.:5353"},
		{"transport in the key", strings.Replace(one, ".", "tls://.", 1), "tls://.:853"},
		{"port of a socket", strings.Replace(one, ". {", ".:0 {\n bind 127.0.0.1", 1), ""},
		{"view by the name, without metadata", strings.Replace(one, ". {", ". {\n view v {\n expr name() != 'x.'\n }", 1), ""},
		{"log of the asker without metadata", strings.Replace(one, ". {", ". {\n log . {/ofpunt/port}", 1), "log at Corefile:2 reads the label ofpunt/port, which is empty without metadata"},
		{"view by a label of another plugin, without metadata", strings.Replace(one, ". {", ". {\n view v {\n expr metadata('ofpunts/switch') != 'x'\n }", 1), ""},
		{"transfer to an address", strings.Replace(one, ". {", ". {\n transfer a.test {\n to * 10.0.0.9\n }", 1), "Corefile:3 - transfer to 10.0.0.9: a guest of any network may have that address"},
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
		{"view by the asker", strings.Replace(one, ". {", ". {\n metadata\n view v {\n expr metadata('ofpunt/switch') != ''\n }", 1), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out testio.Log
			log.SetOutput(&out)
			defer log.SetOutput(os.Stderr)
			i, err := caddy.Start(input(t, tt.text))
			if err != nil {
				t.Fatal(err)
			}
			listening(t, i)
			i.ShutdownCallbacks()
			if err := i.Stop(); err != nil {
				t.Error(err)
			}
			got := out.String()
			if warned := strings.Contains(got, "Corefile:"); warned != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("the log has\n%s\nwant %q", got, tt.want)
			}
		})
	}
}

// listening waits until the sockets of an instance are served: caddy starts them on
// goroutines that it does not wait for, and to stop one before that ends nothing.
func listening(t *testing.T, i *caddy.Instance) {
	t.Helper()
	for _, s := range i.Servers() {
		for network, addr := range map[string]net.Addr{"tcp": s.Addr(), "udp": s.LocalAddr()} {
			c := dns.Client{Net: network, Timeout: 20 * time.Second}
			if _, _, err := c.Exchange(new(dns.Msg).SetQuestion("a.", dns.TypeA), addr.String()); err != nil {
				t.Fatalf("%s %s: %v", network, addr, err)
			}
		}
	}
}
