// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// commandBlocks returns the blocks of commands of all pages, by page and first line.
func commandBlocks(t *testing.T) map[string]pages.Block {
	t.Helper()
	all := map[string]pages.Block{}
	for _, page := range readPages(t) {
		for _, b := range page.Blocks {
			if b.Language != "sh" {
				continue
			}
			key := page.Path + ": " + b.First()
			if _, twice := all[key]; twice {
				t.Fatalf("%s:%d: a second block begins with %q", page.Path, b.Line, b.First())
			}
			all[key] = b
		}
	}
	return all
}

// Each block of commands has a row that says who runs it, and each row has a block, a test that there
// is, or a reason. What no test runs is read by the shell.
func TestDocumentedCommandsAreRun(t *testing.T) {
	t.Parallel()
	blocks, tests := commandBlocks(t), testsOf(t)
	seen := map[string]bool{}
	for _, row := range documentedBlocks {
		key := row.page + ": " + row.first
		if _, ok := blocks[key]; !ok || seen[key] {
			t.Errorf("no block, or a second row, for %s", key)
		}
		seen[key] = true
		switch {
		case row.where == inLab && row.by != "", row.where != inLab && (row.by == "" || row.cases != nil):
			t.Errorf("%s: expected cases for one that is run in the lab, and else a test or a reason", key)
		case row.where == elsewhere && !tests[row.by]:
			t.Errorf("%s: there is no test %s", key, row.by)
		}
		for _, name := range regexp.MustCompile(`[a-z/]+\.Test\w+`).FindAllString(row.by, -1) {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", key, name)
			}
		}
	}
	for key, b := range blocks {
		if !seen[key] {
			t.Errorf("nobody runs %s", key)
		}
		if out, err := exec.Command("sh", "-n", "-c", b.Text).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", key, err, out)
		}
	}
}

// testsOf returns the names of all tests, each behind its folder.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel("..", filepath.Dir(path))
		for _, m := range function.FindAllStringSubmatch(string(source), -1) {
			all[folder+"."+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The commands of the pages do what the pages say, on a node where everything is in its usual place.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	in := installForCommands(t)
	blocks := commandBlocks(t)
	// What the pages leave to who reads them: the identifiers of rows, and a plugin of kubectl.
	variables := "UUID=" + in.sh("ovn-nbctl --bare --columns=_uuid list DHCP_Options") + "\n" +
		"kubectl() { shift 2; ovn-nbctl \"$@\"; }\n"
	for _, row := range documentedBlocks {
		if row.where != inLab {
			continue
		}
		block, cases := blocks[row.page+": "+row.first], row.cases
		if cases == nil {
			cases = []documentedCase{{name: "as it is"}}
		}
		for _, tc := range cases {
			t.Run(fmt.Sprintf("%s:%d/%s", row.page, block.Line, tc.name), func(t *testing.T) {
				of := *in
				of.t = t
				of.check(variables, &block, &tc)
			})
		}
	}
}

// installForCommands makes the node that the pages speak of: the networks red and blue, a guest vm1,
// a port red-vm1, and a puntdns with the Corefile of docs/corefile.md.
func installForCommands(t *testing.T) *installation {
	t.Helper()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.AddSwitch("blue")
	l.AddRouter("r1", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24"}})
	in := install(t, l)
	l.AddDNS(map[string]string{"db.cloud.internal": "10.0.0.21"}, "red")
	vm := l.Node.AddGuest(lab.Guest{Name: "vm1", Switch: "red", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24"),
		Gateway4: lab.Addr("10.0.0.1"), PortSecurity: true, Hostname: "vm1"})
	// One of blue, so that its names are read here.
	l.Node.AddGuest(lab.Guest{Name: "blue-vm1", Switch: "blue", MAC: "02:00:00:00:00:12", Addrs: lab.Prefixes("10.0.0.11/24"), Gateway4: lab.Addr("10.0.0.1")})
	emptyPort(l, "red", "red-vm1", "02:00:00:00:00:13 10.0.0.13", "vm3")
	in.sh(`
		dhcp=$(ovn-nbctl create DHCP_Options cidr=10.0.0.0/24)
		ovn-nbctl dhcp-options-set-options $dhcp lease_time=3600 router=10.0.0.1 server_id=10.0.0.1 server_mac=02:00:00:00:01:01 dns_server='{169.254.169.254}'
		ovn-nbctl lsp-set-dhcpv4-options vm1 $dhcp
		ovn-nbctl --wait=hv sync
		ip link add upstream type veth peer name upstream-peer
		ip link set dev upstream-peer up
		ip link set dev upstream up
		ip address add 9.9.9.9/32 dev upstream`)
	l.Node.ServeDNS("9.9.9.9:53", "www.example.org. 60 IN A 192.0.2.5")
	corefile := chassisCorefile(t)
	in.write("Corefile", corefile)
	launchBinary(t, l, l.Node, in.program, "puntdns", corefile).ready(200)
	if r := vm.Dig("db.cloud.internal", "@"+resolver4); r.String() != "NOERROR 10.0.0.21" {
		t.Fatalf("before any command: %v", r)
	}
	return in
}

// chassisCorefile is the first one of docs/corefile.md.
func chassisCorefile(t *testing.T) string {
	t.Helper()
	for _, page := range readPages(t) {
		if page.Path == "docs/corefile.md" {
			return page.Blocks[0].Text
		}
	}
	t.Fatal("no docs/corefile.md")
	return ""
}

// check runs the commands of a block in one state of the node.
func (in *installation) check(variables string, block *pages.Block, tc *documentedCase) {
	in.t.Helper()
	if tc.plant != "" {
		in.sh(variables + tc.plant)
	}
	says := regexp.MustCompile(tc.says)
	var out string
	var err error
	for deadline := within(in.t, wait); ; time.Sleep(50 * time.Millisecond) { // until it is known everywhere
		out, err = in.try(variables + block.Text)
		if (err != nil) == tc.fails && says.MatchString(out) {
			break
		}
		if deadline.Err() != nil {
			in.t.Fatalf("%v, expected a failure: %t, and %s in\n%s", err, tc.fails, tc.says, out)
		}
	}
	if block.Prints != "" {
		if err := pages.Printed(block.Prints, out); err != nil {
			in.t.Error(err)
		}
	}
	if tc.undo != "" {
		in.sh(variables + tc.undo)
	}
}
