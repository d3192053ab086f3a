// SPDX-License-Identifier: Apache-2.0

// Package docs has the tests that hold the pages to the program: what a page says is there, is there,
// and the reverse. Nothing here is of the wording of a page. The lab runs commands and Corefiles of the
// pages by package test.
package docs

import "github.com/puntdns/puntdns/test/pages"

// Where says who runs the commands of a page.
type Where int

const (
	// InLab is for commands that test.TestDocumentedCommands runs as they stand, on a node of the lab.
	InLab Where = iota
	// Elsewhere is for commands that another test runs.
	Elsewhere
	// Nowhere is for commands that no test runs, for a reason. TestDocumentedPrograms checks that
	// each program has the commands and flags in them.
	Nowhere
)

// Commands are blocks of commands on a page.
type Commands struct {
	Section string // the page and the anchor of the heading above, as PAGE#ANCHOR
	// Block is the number among the section's blocks of commands, from 1. 0 is for all of them, if
	// somebody runs all of them.
	Block int
	Where Where
	// By is the test that runs the blocks, as FOLDER.TestName, or why none does.
	By string
	// Cases are what the commands are run in, one after the other. Without any they are run once, and
	// have to succeed.
	Cases []Case
}

// Has reports whether a block is one of these.
func (c *Commands) Has(b *pages.Block) bool {
	return b.Language == "sh" && b.Section == c.Section && (c.Block == 0 || c.Block == b.Number)
}

// Case is a state of the node, and what the commands say in it.
type Case struct {
	Name string
	// Plant and Undo are commands that make the state and end it.
	Plant, Undo string
	Says        string // matches what they print, sooner or later; empty for anything
	Fails       bool   // they end with a status other than 0
}

const (
	dropUDP = `ovn-nbctl acl-add red from-lport 3000 'inport == "vm1" && udp.dst == 53' drop`
	dropTCP = `ovn-nbctl acl-add red from-lport 3000 'inport == "vm1" && tcp.dst == 53' drop`
	aclGone = "ovn-nbctl acl-del red"
)

// AllCommands has a row for each block of commands of all pages. The rows of a page in the lab are run
// in their order, on one node.
var AllCommands = []Commands{
	{Section: "README.md#try-it", Block: 1, Where: Nowhere,
		By: "they run the demo, and these tests"},
	{Section: "README.md#install", Block: 1, Where: Nowhere,
		By: "deploy.TestPackageDeb makes the package by the same script, and deploy.TestNewUser installs one"},
	{Section: "README.md#install", Block: 2, Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "README.md#install", Block: 3, Where: Elsewhere, By: "test.TestReadme"},

	{Section: "ofpunt/README.md#fail-closed", Block: 1},
	{Section: "ofpunt/README.md#why", Block: 1, Where: Elsewhere, By: "test.TestWhy"},

	{Section: "docs/audit.md#asking-it", Where: Elsewhere, By: "test/docs.TestDocumentedSearch"},
	{Section: "docs/audit.md#dnstap", Block: 1, Where: Nowhere,
		By: "the collector runs until it is stopped; test.TestDnstap runs it with paths of its own"},
	{Section: "docs/capacity.md#capacity", Block: 1, Where: Nowhere, By: "systemctl edit waits for an editor; deploy.TestNewUser does the rest, as docs/ovn.md has it"},
	{Section: "docs/capacity.md#relays", Block: 1, Where: Nowhere,
		By: "the suite cloud of the benchmarks, and internal/ovn/ovndb.TestWarmStartBytes, which start relays"},
	{Section: "docs/capacity.md#datapath-flows"},
	{Section: "docs/performance.md#performance", Block: 1, Where: Nowhere,
		By: "the benchmarks need a machine to themselves; test/bench.TestSuites runs each line of them once"},
	{Section: "docs/corefile.md#the-corefile", Block: 1, Where: Nowhere,
		By: "the lab has no systemd; the same check runs for docs/troubleshooting.md, and deploy.TestChassis reloads"},
	{Section: "docs/egress.md#egress-by-name", Block: 1},
	{Section: "docs/egress.md#egress-by-name", Block: 2},
	{Section: "docs/egress.md#policies-in-the-northbound-database"},
	{Section: "docs/egress.md#see-it", Block: 1, Cases: []Case{{Name: "closed", Says: `pkt\.mark\[31\] == 0(?s:.*)-`}}},
	{Section: "docs/egress.md#undo", Block: 1, Cases: []Case{{Name: "closed", Undo: "puntctl egress init sandboxes | sh"}}},
	{Section: "docs/egress.md#undo", Block: 2, Cases: []Case{{Name: "created again", Undo: "ovn-nbctl pg-del sandboxes"}}},
	{Section: "docs/extending.md#in-a-checkout", Block: 1, Where: Nowhere,
		By: "example.org has no such module; test.TestDistribution builds one with a plugin of its own"},
	{Section: "docs/extending.md#a-program-of-your-own", Block: 1, Where: Nowhere,
		By: "go mod tidy takes the network; test.TestDistribution builds the program offline, by a go.mod that it writes"},
	{Section: "docs/guests.md#search-domains"},
	{Section: "docs/incus.md#puntdns-under-incus", Block: 1, Where: Nowhere,
		By: "the lab has no Incus"},
	{Section: "docs/kubernetes.md#install", Block: 1, Where: Nowhere,
		By: "it takes a registry and a cluster; deploy/kubernetes.TestStrictDecoding renders the overlays"},
	{Section: "docs/kubernetes.md#install", Block: 2, Where: Nowhere,
		By: "it takes a registry; deploy/kubernetes.TestOneImage sets an image, and test.TestImage makes one"},
	{Section: "docs/kubernetes.md#names", Cases: []Case{{
		Name: "with ovn-nbctl in the place of the plugin ko", Plant: "ovn-nbctl --may-exist ls-add ovn-default", Undo: "ovn-nbctl get Logical_Switch ovn-default dns_records | grep -q ........-"}}},

	{Section: "docs/openstack.md#from-nothing-to-a-guest-that-resolves", Block: 1, Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/openstack.md#from-nothing-to-a-guest-that-resolves", Block: 2, Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/openstack.md#settings-of-neutron", Where: Elsewhere, By: "test/neutron.TestPage"},
	{Section: "docs/openstack.md#ml2ovn", Where: Elsewhere, By: "test/neutron.TestPage"},
	{Section: "docs/openstack.md#what-does-not-last", Where: Elsewhere, By: "test/neutron.TestPage"},
	{Section: "docs/openstack.md#ml2ovs", Where: Elsewhere, By: "test/neutron.TestPage"},
	{Section: "docs/operation.md#container", Block: 1, Where: Nowhere,
		By: "it takes the sockets of the machine itself; test.TestImage runs the image with these options"},

	{Section: "docs/ovn.md#1-ovn-and-a-guest", Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/ovn.md#2-puntdns", Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/ovn.md#3-names", Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/ovn.md#your-own-networks", Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/ovn.md#network-functions", Where: Elsewhere, By: "test.TestNetworkFunction"},
	{Section: "docs/ovn.md#take-it-away-again", Where: Elsewhere, By: "deploy.TestNewUser"},

	{Section: "docs/puntctl.md#the-socket", Block: 1, Cases: []Case{{Name: "well", Says: `"well":\s*true`}}},
	{Section: "docs/puntctl.md#the-socket", Block: 2, Where: Nowhere,
		By: "they go on until somebody ends them; TestWatch reads both streams"},
	{Section: "docs/puntdns.8.md#description", Block: 1, Where: Nowhere,
		By: "an editor waits for somebody; deploy.TestNewUser does the rest, as docs/ovn.md has it"},

	{Section: "docs/release.md#releases", Block: 1, Where: Nowhere,
		By: "GitHub's workflow signs; deploy.TestRelease checks the checksums, and deploy.TestPackage installs the package"},
	{Section: "docs/release.md#image", Block: 1, Where: Nowhere, By: "GitHub's workflow signs and pushes; deploy/image.TestPush pushes and pulls"},
	{Section: "docs/release.md#build-the-same-bytes", Block: 1, Where: Nowhere,
		By: "it clones from GitHub; make reproducible makes the release twice, and deploy.TestRelease once"},

	{Section: "docs/troubleshooting.md#troubleshooting-by-symptom", Cases: []Case{
		{Name: "well", Says: `(?m)^ok`},
		{Name: "an ACL", Plant: dropUDP, Undo: aclGone, Says: `port vm1: queries to 169\.254\.169\.254 over UDP are dropped before the punt`, Fails: true},
	}},
	{Section: "docs/troubleshooting.md#no-guest-of-the-node-gets-an-answer", Cases: []Case{
		{Name: "well", Says: `^well\n`},
		{Name: "no process", Plant: "mv /run/puntdns/control.sock /run/puntdns/away.sock", Undo: "mv /run/puntdns/away.sock /run/puntdns/control.sock", Says: `no such socket`, Fails: true},
		{Name: "a chassis that nobody has registered", Plant: "ovs-vsctl set Open_vSwitch . external_ids:system-id=other", Undo: "ovs-vsctl set Open_vSwitch . external_ids:system-id=node1", Says: `\[binding\]`, Fails: true},
	}},
	{Section: "docs/troubleshooting.md#one-guest-gets-no-answer", Block: 1, Cases: []Case{
		{Name: "well", Says: `NOERROR 10\.0\.0\.21\n$`},
		{Name: "an ACL", Plant: dropUDP, Undo: aclGone, Says: `\[not-punted\]`, Fails: true},
		{Name: "a wrong iface-id", Plant: "ovs-vsctl set Interface vm1 external_ids:iface-id=vm2", Undo: "ovs-vsctl set Interface vm1 external_ids:iface-id=vm1", Says: `\[unserved\]`, Fails: true},
	}},
	{Section: "docs/troubleshooting.md#one-guest-gets-no-answer", Block: 2, Cases: []Case{{Name: "well", Says: `QUERIES(?s:.*)\nvm1 `}}},
	{Section: "docs/troubleshooting.md#one-guest-gets-no-answer", Block: 3, Cases: []Case{
		{Name: "well", Says: `ls_in_l2_unknown`},
		{Name: "an ACL", Plant: dropUDP, Undo: aclGone, Says: `drop;`},
	}},
	{Section: "docs/troubleshooting.md#nxdomain-for-a-name-that-exists", Cases: []Case{
		{Name: "well", Says: `NOERROR 10\.0\.0\.21\n$`},
		{Name: "another network has it", Plant: "row=$(ovn-nbctl get Logical_Switch red dns_records); ovn-nbctl clear Logical_Switch red dns_records; ovn-nbctl set Logical_Switch blue dns_records=\"$row\"",
			Undo: "row=$(ovn-nbctl get Logical_Switch blue dns_records); ovn-nbctl set Logical_Switch red dns_records=\"$row\"; ovn-nbctl clear Logical_Switch blue dns_records", Says: `blue(?s:.*)\[other-network\]`, Fails: true},
	}},
	{Section: "docs/troubleshooting.md#a-name-has-the-wrong-answer", Cases: []Case{{Name: "well", Says: `WINS(?s:.*)NOERROR 10\.0\.0\.21`}}},
	{Section: "docs/troubleshooting.md#outside-names-fail", Cases: []Case{
		{Name: "well", Says: `NOERROR 192\.0\.2\.5\n$`},
		{Name: "the upstream is away", Plant: "ip address del 9.9.9.9/32 dev upstream", Undo: "ip address add 9.9.9.9/32 dev upstream", Says: `\[(upstream|deadline)\]`, Fails: true},
	}},
	{Section: "docs/troubleshooting.md#some-queries-are-lost-or-answers-are-slow", Cases: []Case{{Name: "well", Says: `coredns_ofpunt_in_flight`}}},
	{Section: "docs/troubleshooting.md#long-answers-fail", Cases: []Case{
		{Name: "well", Says: `ls_in_l2_unknown`},
		{Name: "an ACL for TCP", Plant: dropTCP, Undo: aclGone, Says: `drop;`},
	}},
	{Section: "docs/troubleshooting.md#the-service-does-not-start-or-a-reload-changes-nothing", Cases: []Case{
		{Name: "right"},
		{Name: "wrong", Plant: "cp Corefile Corefile.right; sed -i 's/fallthrough/falltrough/' Corefile", Undo: "cp Corefile.right Corefile", Says: `/etc/puntdns/Corefile:\d+ - .*falltrough`, Fails: true},
	}},
	{Section: "docs/troubleshooting.md#puntctl-cant-ask"},
	{Section: "docs/troubleshooting.md#who-asked-for-what", Cases: []Case{{Name: "well", Says: `LAST QUERY(?s:.*)\nvm1 `}}},

	{Section: "docs/security.md#read-only-databases", Block: 1, Where: Elsewhere, By: "deploy.TestChassis"},
	{Section: "docs/security.md#read-only-databases", Block: 2, Where: Nowhere,
		By: "it would replace the connections that the other blocks use"},
	{Section: "docs/upgrade.md#upgrade", Where: Elsewhere, By: "deploy.TestNewUser"},
	{Section: "docs/upgrade.md#from-an-installation-by-hand", Where: Elsewhere, By: "deploy.TestFromHand"},

	{Section: "plugin/ovnforward/README.md#description"},
	{Section: "plugin/ovnhosts/README.md#hostnames"},
	{Section: "plugin/ovnhosts/README.md#other-records", Where: Elsewhere, By: "test.TestTenantRecords"},

	// Behind all others: it takes the flows away, which are put back.
	{Section: "docs/upgrade.md#removal", Cases: []Case{{
		Name: "of a process that goes on", Undo: "until puntctl status; do sleep 0.1; done"}}},
}
