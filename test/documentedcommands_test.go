// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/docs"
	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// The commands of the pages do what the pages say, on a node where everything is in its usual place.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	in := installForCommands(t)
	// What the pages leave to who reads them: the identifiers of rows, and a plugin of kubectl.
	variables := "UUID=" + in.sh("ovn-nbctl --bare --columns=_uuid list DHCP_Options") + "\n" +
		"kubectl() { shift 2; ovn-nbctl \"$@\"; }\n"
	all := readPages(t)
	for _, row := range docs.AllCommands {
		if row.Where != docs.InLab {
			continue
		}
		for _, page := range all {
			for _, block := range page.Blocks {
				if row.Has(&block) {
					in.checkAll(variables, &block, row.Cases)
				}
			}
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

// chassisCorefile is the first one of docs/corefile.md for a chassis.
func chassisCorefile(t *testing.T) string {
	t.Helper()
	_, blocks := pages.Section(t, "..", "docs/corefile.md#for-a-chassis", "corefile")
	if len(blocks) == 0 {
		t.Fatal("no Corefile in the section")
	}
	return blocks[0].Text
}

// checkAll runs the commands of a block in all its cases.
func (in *installation) checkAll(variables string, block *pages.Block, cases []docs.Case) {
	if cases == nil {
		cases = []docs.Case{{Name: "as it is"}}
	}
	for _, tc := range cases {
		in.t.Run(fmt.Sprintf("%s/%d/%s", block.Section, block.Number, tc.Name), func(t *testing.T) {
			of := *in
			of.t = t
			of.check(variables, block, &tc)
		})
	}
}

// check runs the commands of a block in one state of the node.
func (in *installation) check(variables string, block *pages.Block, tc *docs.Case) {
	in.t.Helper()
	if tc.Plant != "" {
		in.sh(variables + tc.Plant)
	}
	says := regexp.MustCompile(tc.Says)
	var out string
	var err error
	for deadline := within(in.t, wait); ; time.Sleep(50 * time.Millisecond) { // until it is known everywhere
		out, err = in.try(variables + block.Text)
		if (err != nil) == tc.Fails && says.MatchString(out) {
			break
		}
		if deadline.Err() != nil {
			in.t.Fatalf("%v, expected a failure: %t, and %s in\n%s", err, tc.Fails, tc.Says, out)
		}
	}
	if block.Prints != "" {
		if err := pages.Printed(block.Prints, out); err != nil {
			in.t.Error(err)
		}
	}
	if tc.Undo != "" {
		in.sh(variables + tc.Undo)
	}
}
