// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// varying are the parts of an output that differ between two runs, and the word that constant writes
// for each. The last rule ignores the width of columns.
var varying = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d{3}\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)?(?:us|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b0x[0-9a-f]{6,16}\b`), "COOKIE"},
	{regexp.MustCompile(`\brow [0-9a-f]{8}\b`), "row HINT"},
	{regexp.MustCompile(`(\d):\d{4,5}\b`), "$1:PORT"},
	{regexp.MustCompile(` {2,}`), " "},
}

// constant replaces what differs between two runs.
func constant(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.word)
	}
	return text
}

// shown is a command of a page, and the output that the page shows below it.
type shown struct{ command, prints string }

// sessions returns the commands of the blocks `console` of a section of the README, which stand behind
// a prompt.
func sessions(t *testing.T, anchor string) (all []shown) {
	t.Helper()
	_, blocks := pages.Section(t, "..", "README.md#"+anchor, "console")
	for _, b := range blocks {
		for line := range strings.Lines(b.Text) {
			switch command, ok := strings.CutPrefix(line, "$ "); {
			case ok:
				all = append(all, shown{command: command})
			case len(all) == 0:
				t.Fatalf("%s: %q before the first prompt", b.Section, line)
			default:
				all[len(all)-1].prints += line
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("no commands in README.md#%s", anchor)
	}
	return all
}

// TestReadme installs puntdns as the README says, runs each command of the README's blocks `console`, and
// compares the output with the README.
func TestReadme(t *testing.T) {
	t.Parallel()
	in := installReadme(t)
	for _, anchor := range []string{"see-it", "install"} {
		for _, s := range sessions(t, anchor) {
			switch {
			case strings.HasPrefix(s.command, "puntctl watch "):
				in.watches(s)
			case s.prints == "":
				in.sh(s.command)
			default:
				in.Eventually(s.command, func() error { return in.prints(s) })
			}
		}
	}
}

// installReadme makes a node with two tenants, whose guests have the same addresses, by the Corefile and
// the commands of the README.
func installReadme(t *testing.T) *installation {
	t.Helper()
	l := lab.New(t, lab.Options{})
	in := install(t, l)
	l.AddSwitch("red")
	l.AddSwitch("blue")
	l.AddDNS(map[string]string{"db.cloud.internal": "10.0.0.99"}, "blue")
	in.sh("mkdir /run/netns")
	for _, sw := range []string{"red", "blue"} {
		l.AddRouter("r-"+sw, lab.RouterPort{Switch: sw, MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24"}})
		vm := l.Node.AddGuest(lab.Guest{Name: sw + "-vm1", Switch: sw, MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24"),
			Gateway4: lab.Addr("10.0.0.1"), PortSecurity: true, Hostname: "vm1"})
		in.sh(replaceAll(`
			touch /run/netns/VM
			mount --bind NETNS /run/netns/VM
			mkdir -p /etc/netns/VM
			echo nameserver 169.254.169.254 >/etc/netns/VM/resolv.conf`, "VM", vm.Name, "NETNS", vm.NetNS()))
	}
	in.sh(`
		dhcp=$(ovn-nbctl create DHCP_Options cidr=10.0.0.0/24)
		ovn-nbctl dhcp-options-set-options $dhcp lease_time=3600 router=10.0.0.1 server_id=10.0.0.1 server_mac=02:00:00:00:01:01
		ovn-nbctl lsp-set-dhcpv4-options red-vm1 $dhcp
		ip link add upstream type veth peer name upstream-peer
		ip link set dev upstream-peer up
		ip link set dev upstream up
		ip address add 9.9.9.9/32 dev upstream`)
	l.Node.ServeDNS("9.9.9.9:53", "www.example.org. 60 IN A 192.0.2.5")
	_, corefiles := pages.Section(t, "..", "README.md#install", "corefile")
	_, commands := pages.Section(t, "..", "README.md#install", "sh")
	if len(corefiles) != 1 || len(commands) != 3 {
		t.Fatalf("README.md#install has %d Corefiles and %d blocks of commands, want 1 and 3: package, start, names", len(corefiles), len(commands))
	}
	in.write("Corefile", corefiles[0].Text)
	p := in.Node.Start("puntdns", []string{"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=100"}, in.program, "-conf", "/etc/puntdns/Corefile")
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("at the end: %v\n%s", err, p.Log())
		}
	})
	in.sh("UUID=$(ovn-nbctl --bare --columns=_uuid list DHCP_Options)\n" + commands[2].Text + "ovn-nbctl --wait=hv sync")
	return in
}

// prints runs a command, and returns an error if it prints other things than the README shows.
func (in *installation) prints(s shown) error {
	out, err := in.try(s.command)
	if differs := pages.Printed(constant(s.prints), constant(out)); differs != nil {
		return fmt.Errorf("%w (%v)", differs, err)
	}
	in.t.Logf("%s%s", s.command, out)
	return nil
}

// watches runs `puntctl watch`, asks the queries that the README shows, each from the guest that the
// README names, and compares the lines.
func (in *installation) watches(s shown) {
	in.t.Helper()
	watch := in.Node.Start("watch", nil, in.enter("sh", "-euc", s.command)...)
	if err := watch.WaitLog(within(in.t, wait), `(?m)^TIME `); err != nil {
		in.t.Fatalf("%v\n%s", err, watch.Log())
	}
	const port, qtype, name = 2, 3, 5 // columns
	_, lines, _ := strings.Cut(s.prints, "\n")
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) <= name {
			in.t.Fatalf("%q: expected a line of watch", line)
		}
		in.sh(fmt.Sprintf("ip netns exec %s dig %s %s", f[port], f[name], f[qtype]))
	}
	if err := watch.Wait(within(in.t, wait)); err != nil {
		in.t.Fatalf("%v\n%s", err, watch.Log())
	}
	// Of standard output alone.
	out := strings.TrimSuffix(watch.Log(), "3 queries shown\n")
	if err := pages.Printed(constant(s.prints), constant(out)); err != nil {
		in.t.Error(err)
	}
	in.t.Logf("%s%s", s.command, out)
}
