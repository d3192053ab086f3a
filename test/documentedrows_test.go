// SPDX-License-Identifier: Apache-2.0

package test

// where says who runs the commands of a block.
type where int

const (
	// inLab is for commands that TestDocumentedCommands runs as they stand, on a node of the lab.
	inLab where = iota
	// elsewhere is for commands that another test runs.
	elsewhere
	// nowhere is for commands that no test runs, for a reason. They are read: each program knows
	// what it is told.
	nowhere
)

// documentedBlock is a block of commands on a page.
type documentedBlock struct {
	page, first string // the first line of the block
	where       where
	// by is the test that runs the block, as FOLDER.TestName, or why none does.
	by string
	// cases are what the commands are run in, one after the other. Without any they are run once, and
	// have to succeed.
	cases []documentedCase
}

// documentedCase is a state of the node, and what the commands say in it.
type documentedCase struct {
	name string
	// plant and undo are commands that make the state and end it.
	plant, undo string
	says        string // matches what they print, sooner or later; empty for anything
	fails       bool   // they end with a status other than 0
}

const (
	aclDrops = `ovn-nbctl acl-add red from-lport 3000 'inport == "vm1" && PROTOCOL.dst == 53' drop`
	aclGone  = "ovn-nbctl acl-del red"
)

// documentedBlocks has a row for each block of commands of all pages. The rows of a page in the lab
// are run in their order, on one node.
var documentedBlocks = []documentedBlock{
	{page: "README.md", first: "make demo     # two tenants with the same addresses on a real OVN; KEEP=1 leaves it up", where: nowhere,
		by: "they run the demo, and these tests"},
	{page: "README.md", first: `make deb && apt-get install -y ./bin/release/puntdns_*_"$(dpkg --print-architecture)".deb`, where: nowhere,
		by: "deploy.TestPackageDeb makes the package by the same script, and deploy.TestNewUser installs one"},
	{page: "README.md", first: "puntdns -conf /etc/puntdns/Corefile -check && systemctl enable --now puntdns", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "README.md", first: `ovn-nbctl set DHCP_Options "$UUID" options:dns_server='"{169.254.169.254}"'`, cases: []documentedCase{{
		name: "the guest is told", undo: `[ "$(ovn-nbctl get DHCP_Options "$UUID" options:dns_server)" = '"{169.254.169.254}"' ]`}}},
	{page: "README.md", first: `DNS=$(ovn-nbctl create DNS records='{"db.cloud.internal"="10.0.0.21 fd00::21"}')`, cases: []documentedCase{{
		name: "the guest resolves", plant: "ovn-nbctl clear Logical_Switch red dns_records", says: `^well\n`, undo: `ovn-nbctl --wait=hv sync; puntctl explain vm1 db.cloud.internal AAAA --summary | grep 'NOERROR fd00::21'`}}},

	{page: "docs/audit.md", first: "cd /var/log/puntdns", where: elsewhere, by: "plugin/audit.TestDocumentedSearch"},
	{page: "docs/audit.md", first: "fstrm_capture -t protobuf:dnstap.Dnstap -u /run/dnstap/dnstap.sock -w /var/log/dnstap/%F.fstrm -s 86400 --gmtime", where: nowhere,
		by: "the collector runs until it is stopped; test.TestDnstap runs it with paths of its own"},
	{page: "docs/extending.md", first: "echo 'hello:example.org/hello' >>plugin.cfg   # better, at its place in the order", where: nowhere,
		by: "example.org has no such module; test.TestDistribution builds one with a plugin of its own"},
	{page: "docs/guests.md", first: "# a search domain, without Neutron"},
	{page: "docs/guests.md", first: "apt-get download systemd-resolved && dpkg -x systemd-resolved_*.deb resolved", where: nowhere,
		by: "the package would replace /etc/resolv.conf, so it is not among what the tests install"},
	{page: "docs/kubernetes.md", first: "make image IMAGE=registry.example/puntdns:1.0 && docker push registry.example/puntdns:1.0", where: nowhere,
		by: "it takes a registry and a cluster; deploy/kubernetes.TestStrictDecoding renders the overlays"},
	{page: "docs/kubernetes.md", first: "# Kube-OVN: a row of the subnet's switch", cases: []documentedCase{{
		name: "with ovn-nbctl in the place of the plugin ko", plant: "ovn-nbctl --may-exist ls-add ovn-default", undo: "ovn-nbctl get Logical_Switch ovn-default dns_records | grep -q ........-"}}},

	{page: "docs/openstack.md", first: `apt-get install -y ./puntdns_*_"$(dpkg --print-architecture)".deb`, where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/openstack.md", first: "puntdns -conf /etc/puntdns/Corefile -check && systemctl enable --now puntdns", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/openstack.md", first: "# on a subnet", where: elsewhere, by: "test/neutron.TestPage"},
	{page: "docs/openstack.md", first: "# on a network", where: elsewhere, by: "test/neutron.TestPage"},
	{page: "docs/openstack.md", first: "# a DNS row of your own", where: elsewhere, by: "test/neutron.TestPage"},
	{page: "docs/openstack.md", first: "# write the records of a port again", where: elsewhere, by: "test/neutron.TestPage"},
	{page: "docs/openstack.md", first: "# the flows of puntdns, ML2/OVS", where: elsewhere, by: "test/neutron.TestPage"},
	{page: "docs/operation.md", first: "make image IMAGE=puntdns ARCHES=amd64    # or arm64", where: nowhere,
		by: "it takes the sockets of the machine itself; test.TestImage runs the image with these options"},

	{page: "docs/ovn.md", first: "apt-get update", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: `ovs-vsctl set Open_vSwitch . external_ids:ovn-remote=unix:/run/ovn/ovnsb_db.sock \`, where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "ovn-nbctl ls-add red", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "dhcp=$(ovn-nbctl create DHCP_Options cidr=10.0.0.0/24)", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "mkdir -p /etc/netns/vm1 && touch /etc/netns/vm1/resolv.conf", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "ip netns exec vm1 cat /etc/resolv.conf", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: `apt-get install -y ./puntdns_*_"$(dpkg --print-architecture)".deb`, where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "cat >/etc/puntdns/Corefile <<'EOF'", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "curl --silent --fail --output /dev/null --retry 30 --retry-delay 1 --retry-all-errors http://localhost:8181/ready", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: `row=$(ovn-nbctl create DNS records='{"db.cloud.internal"="10.0.0.21 fd00::21"}')`, where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "ip netns exec vm1 dig +short db.cloud.internal", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "puntctl explain vm1 db.cloud.internal --summary", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: `ovn-nbctl set DHCP_Options "$dhcp" options:dns_server='"{169.254.169.254}"'`, where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: `ovn-nbctl set Logical_Switch red external_ids:dns-forward='"corp.example=198.51.100.53"'`, where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/ovn.md", first: "apt-get purge -y puntdns", where: elsewhere, by: "deploy.TestNewUser"},

	{page: "docs/performance.md", first: "ovs-vsctl --id=@tries create Flow_Table prefixes=ip_src,ip_dst,ipv6_dst -- set Bridge br-int flow_tables:201=@tries"},
	{page: "docs/puntctl.md", first: "curl -s --unix-socket /run/puntdns/control.sock http://puntdns/v1/status", cases: []documentedCase{{name: "well", says: `"well":\s*true`}}},
	{page: "docs/puntctl.md", first: "curl -sN --unix-socket /run/puntdns/control.sock 'http://puntdns/v1/watch?switch=red&rcode=SERVFAIL&rcode=DROPPED'", where: nowhere,
		by: "they go on until somebody ends them; TestWatch reads both streams"},
	{page: "docs/puntdns.8.md", first: "cp /usr/share/doc/puntdns/Corefile.example /etc/puntdns/Corefile", where: nowhere,
		by: "an editor waits for somebody; deploy.TestNewUser does the rest, as docs/ovn.md has it"},

	{page: "docs/scale.md", first: "ovsdb-server --remote=ptcp:16642 --log-file --pidfile --detach relay:OVN_Southbound:tcp:10.1.0.1:6642,tcp:10.1.0.2:6642,tcp:10.1.0.3:6642", where: nowhere,
		by: "the suite cloud of the benchmarks, and internal/ovn.TestWarmStartBytes, which start relays"},
	{page: "docs/troubleshooting.md", first: "puntctl doctor", cases: []documentedCase{
		{name: "well", says: `(?m)^ok`},
		{name: "an ACL", plant: replaceAll(aclDrops, "PROTOCOL", "udp"), undo: aclGone, says: `port vm1: a query to 169\.254\.169\.254 is dropped before the punt`, fails: true},
	}},
	{page: "docs/troubleshooting.md", first: "puntctl status", cases: []documentedCase{
		{name: "well", says: `^well\n`},
		{name: "no process", plant: "mv /run/puntdns/control.sock /run/puntdns/away.sock", undo: "mv /run/puntdns/away.sock /run/puntdns/control.sock", says: `no such socket`, fails: true},
		{name: "a chassis that nobody has registered", plant: "ovs-vsctl set Open_vSwitch . external_ids:system-id=other", undo: "ovs-vsctl set Open_vSwitch . external_ids:system-id=node1", says: `\[binding\]`, fails: true},
	}},
	{page: "docs/troubleshooting.md", first: "puntctl explain vm1 db.cloud.internal --summary", cases: []documentedCase{
		{name: "well", says: `NOERROR 10\.0\.0\.21\n$`},
		{name: "an ACL", plant: replaceAll(aclDrops, "PROTOCOL", "udp"), undo: aclGone, says: `\[not-punted\]`, fails: true},
		{name: "a wrong iface-id", plant: "ovs-vsctl set Interface vm1 external_ids:iface-id=vm2", undo: "ovs-vsctl set Interface vm1 external_ids:iface-id=vm1", says: `\[unserved\]`, fails: true},
	}},
	{page: "docs/troubleshooting.md", first: "puntctl guests vm1", cases: []documentedCase{{name: "well", says: `QUERIES(?s:.*)\nvm1 `}}},
	{page: "docs/troubleshooting.md", first: `ovn-trace red 'inport == "vm1" && eth.src == 02:00:00:00:00:11 && ip4.src == 10.0.0.11 && ip4.dst == 169.254.169.254 && ip.ttl == 64 && udp.src == 40000 && udp.dst == 53'`, cases: []documentedCase{
		{name: "well", says: `ls_in_l2_unknown`},
		{name: "an ACL", plant: replaceAll(aclDrops, "PROTOCOL", "udp"), undo: aclGone, says: `drop;`},
	}},
	{page: "docs/troubleshooting.md", first: "puntctl names db.cloud.internal", cases: []documentedCase{
		{name: "well", says: `NOERROR 10\.0\.0\.21\n$`},
		{name: "another network has it", plant: "row=$(ovn-nbctl get Logical_Switch red dns_records); ovn-nbctl clear Logical_Switch red dns_records; ovn-nbctl set Logical_Switch blue dns_records=\"$row\"",
			undo: "row=$(ovn-nbctl get Logical_Switch blue dns_records); ovn-nbctl set Logical_Switch red dns_records=\"$row\"; ovn-nbctl clear Logical_Switch blue dns_records", says: `blue(?s:.*)\[other-network\]`, fails: true},
	}},
	{page: "docs/troubleshooting.md", first: "puntctl names vm1", cases: []documentedCase{{name: "well", says: `WINS(?s:.*)NOERROR 10\.0\.0\.21`}}},
	{page: "docs/troubleshooting.md", first: "puntctl explain vm1 www.example.org --summary", cases: []documentedCase{
		{name: "well", says: `NOERROR 192\.0\.2\.5\n$`},
		{name: "the upstream is away", plant: "ip address del 9.9.9.9/32 dev upstream", undo: "ip address add 9.9.9.9/32 dev upstream", says: `\[(upstream|deadline)\]`, fails: true},
	}},
	{page: "docs/troubleshooting.md", first: "journalctl -u puntdns --since -10min | grep 'was refused' || echo nobody is over a limit", cases: []documentedCase{{name: "well", says: `coredns_ofpunt_in_flight`}}},
	{page: "docs/troubleshooting.md", first: `ovn-trace red 'inport == "vm1" && eth.src == 02:00:00:00:00:11 && ip4.src == 10.0.0.11 && ip4.dst == 169.254.169.254 && ip.ttl == 64 && tcp.src == 40000 && tcp.dst == 53'`, cases: []documentedCase{
		{name: "well", says: `ls_in_l2_unknown`},
		{name: "an ACL for TCP", plant: replaceAll(aclDrops, "PROTOCOL", "tcp"), undo: aclGone, says: `drop;`},
	}},
	{page: "docs/troubleshooting.md", first: "puntdns -conf /etc/puntdns/Corefile -check", cases: []documentedCase{
		{name: "right"},
		{name: "wrong", plant: "cp Corefile Corefile.right; sed -i 's/fallthrough/falltrough/' Corefile", undo: "cp Corefile.right Corefile", says: `/etc/puntdns/Corefile:\d+ - .*falltrough`, fails: true},
	}},
	{page: "docs/troubleshooting.md", first: `puntctl --socket /run/puntdns/none.sock status || echo "exit status $?"`},
	{page: "docs/troubleshooting.md", first: "puntctl guests", cases: []documentedCase{{name: "well", says: `LAST QUERY(?s:.*)\nvm1 `}}},

	{page: "docs/upgrade.md", first: "runuser -u puntdns -- puntdns -conf /etc/puntdns/Corefile -check", where: elsewhere, by: "deploy.TestNewUser"},
	{page: "docs/upgrade.md", first: "for unit in ovsdb-server ovs-vswitchd ovn-ovsdb-server-sb ovn-ovsdb-server-nb; do", where: elsewhere, by: "deploy.TestFromHand"},

	{page: "plugin/ovnforward/README.md", first: `ovn-nbctl set Logical_Switch red external_ids:dns-forward='"corp.example=10.1.0.53,10.1.0.54:5353;other.example=10.2.0.53"'`},
	{page: "plugin/ovnhosts/README.md", first: `ovn-nbctl set Logical_Switch_Port red-vm1 options:hostname='"\"vm1\""'`},
	{page: "plugin/ovnhosts/README.md", first: `DNS=$(ovn-nbctl create DNS records='{"web.red.example"="10.0.1.21","mx1.red.example"="10.0.1.25"}')`, where: elsewhere, by: "test.TestTenantRecords"},
	{page: "plugin/ovnhosts/README.md", first: `ovn-nbctl remove DNS "$DNS" external_ids dns-cname/www.red.example`, where: elsewhere, by: "test.TestTenantRecords"},

	// Behind all others: it takes the flows away, which are put back.
	{page: "docs/upgrade.md", first: "ovs-ofctl -O OpenFlow13 del-flows br-int cookie=0x70646e0000000000/0xffffff0000000000", cases: []documentedCase{{
		name: "of a process that goes on", undo: "until puntctl status; do sleep 0.1; done"}}},
}
