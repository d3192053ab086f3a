// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/coremain"

	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/plugins"
)

// order is the order of directives that users rely on, as the documentation has
// it.
const order = "root ofpunt metadata cancel tls timeouts reload nsid bufsize bind debug ready health pprof prometheus errors log dnstap audit local dns64 any chaos loadbalance tsig rewrite acl header minimal ovnhosts neutronhosts rpz egress transfer ovnforward cache template hosts file auto secondary private loop forward passthrough whoami view"

// asPuntdns in the environment makes this test's binary the command itself.
const asPuntdns = "PUNTDNS_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPuntdns) != "" {
		main()
		os.Exit(0) // the tests would run this command without an end
	}
	os.Exit(m.Run())
}

// environment makes this test's binary the command. The race detector would have it wait
// for a second before each end.
func environment() []string {
	// No Open vSwitch and no OVN of this machine.
	return append(os.Environ(), asPuntdns+"=1", "GORACE=atexit_sleep_ms=100", "OVS_RUNDIR=/nowhere", "OVN_RUNDIR=/nowhere")
}

// run is the command with arguments, in an empty folder. One that does not end is killed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = environment()
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The name by which it is called tells which program it is.
func TestProgramByName(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/puntdns": "puntdns-", "puntdns-1.2": "puntdns-", "/puntctl": "puntctl version ", "puntctl": "puntctl version ",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Args = []string{name, "-version"}
		if strings.HasSuffix(name, "puntctl") {
			cmd.Args[1] = "--version"
		}
		cmd.Env = environment()
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %v: %q, want %q", name, err, out, want)
		}
	}
}

func TestDirectiveOrder(t *testing.T) {
	if got := strings.Join(plugins.Directives, " "); got != order {
		t.Errorf("the order is\n%s\nwant\n%s", got, order)
	}
}

// What -plugins lists is what the parser takes, and each has a plugin.
func TestPlugins(t *testing.T) {
	out, err := run(t, "-plugins")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := strings.Fields(order)
	slices.Sort(want)
	if got := strings.Fields(out); !slices.Equal(got, want) {
		t.Errorf("plugins\n%q, want\n%q", got, want)
	}
	for _, name := range want {
		if _, err := caddy.DirectiveAction("dns", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range strings.Fields(caddy.DescribePlugins()) {
		if !slices.Contains(want, name) {
			t.Errorf("%s is linked without a directive", name)
		}
	}
}

func TestVersion(t *testing.T) {
	out, err := run(t, "-version")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first, rest, _ := strings.Cut(out, "\n")
	if want := fmt.Sprintf("puntdns-%s (CoreDNS-%s)", version, coremain.CoreVersion); first != want {
		t.Errorf("%q, want %q", first, want)
	}
	if !strings.Contains(rest, runtime.Version()) {
		t.Errorf("%q does not tell Go's version %s", out, runtime.Version())
	}
}

func TestArguments(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "Corefile.wrong")
	if err := os.WriteFile(wrong, []byte(".:0 {\n    whoami\n    kubernetes\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	blank := filepath.Join(t.TempDir(), "Corefile.blank")
	if err := os.WriteFile(blank, []byte("# to be written\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"a Corefile without a block", []string{"-conf", blank}, blank + ": " + precheck.ErrNoBlock.Error()},
		{"no such Corefile", []string{"-conf", "/no/Corefile"}, "/no/Corefile"},
		{"a plugin that is left out", []string{"-conf", wrong}, wrong + ":3 - Error during parsing: Unknown directive 'kubernetes'"},
		{"a word too many", []string{"more"}, "extra command line arguments: [more]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := run(t, tc.args...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, tc.want) {
				t.Errorf("%v: %q, want exit status 1 and %q", err, out, tc.want)
			}
		})
	}
}

// CoreDNS's own default, a server on port 53, is nothing to start by accident.
func TestNoCorefile(t *testing.T) {
	out, err := run(t)
	if err == nil || !strings.Contains(out, "-conf FILE") {
		t.Errorf("got %v and\n%s", err, out)
	}
}

// A node's resolver talks to no cloud: an SDK would triple the binary.
func TestNoCloud(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, want := range []string{"github.com/coredns/coredns/plugin/forward", "github.com/puntdns/puntdns/ofpunt"} {
		if !slices.Contains(deps, want) {
			t.Errorf("%s is not among the %d packages", want, len(deps))
		}
	}
	for _, dep := range deps {
		for _, vendor := range []string{
			"github.com/aws/", "github.com/Azure/", "github.com/AzureAD/",
			"cloud.google.com/", "google.golang.org/api/", "github.com/googleapis/",
			"k8s.io/", "sigs.k8s.io/", "github.com/openshift/",
			"go.etcd.io/", "github.com/coreos/etcd", "github.com/hashicorp/nomad",
			"github.com/DataDog/", "gopkg.in/DataDog/", "github.com/oschwald/",
		} {
			if strings.HasPrefix(dep+"/", vendor) {
				t.Errorf("%s is linked", dep)
			}
		}
	}
}
