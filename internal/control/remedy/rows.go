// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"

	"github.com/puntdns/puntdns/internal/control/api"
)

// row is what there is to do about one code. A row has a text, a peer, or a reason for having neither.
type row struct {
	code string
	// docs is PAGE#ANCHOR, from the root of the project.
	docs string
	text string
	// commands are lines for a shell. {about}, {corefile}, {bridge}, {interface}, {port}, {dhcp-row} stand for a field
	// of Context as a word of the shell, {port-match} for the condition on a Port_Binding of the port.
	commands []string
	// peer is the daemon behind a connection whose remedy depends on why it is down, see [connection].
	peer string
	// without is why there is no text here.
	without string
	// note is set if a finding with this code leaves Well alone.
	note bool
}

// The sections that several rows name.
const (
	nodeDocs  = "docs/troubleshooting.md#no-guest-of-the-node-gets-an-answer"
	guestDocs = "docs/troubleshooting.md#one-guest-gets-no-answer"
	nameDocs  = "docs/troubleshooting.md#nxdomain-for-a-name-that-exists"
	outerDocs = "docs/troubleshooting.md#outside-names-fail"
	codeDocs  = "docs/puntctl.md#explain"
)

// byFinder is the reason of codes whose remedy depends on more than Context has.
const byFinder = "the finder writes the remedy for the case at hand"

func rowOf(code string) *row {
	if i := slices.IndexFunc(rows, func(r row) bool { return r.code == code }); i >= 0 {
		return &rows[i]
	}
	return nil
}

// rows has one row for each code of internal/control/api.
var rows = []row{
	// Problems.
	{
		code: api.CodeSwitch, docs: nodeDocs, peer: "ovs-vswitchd",
		commands: []string{"ovs-vsctl list-br    # is {about} among them?"},
	},
	{
		code: api.CodeStalled, docs: "docs/operation.md#without-the-local-ovsdb-server",
		text:     "start ovsdb-server, and see why it has ended: ovs-vswitchd goes on by itself within 8 s of its return",
		commands: []string{"systemctl start ovsdb-server", "journalctl -u ovsdb-server -n 20", "ovs-vsctl --timeout=5 show"},
	},
	{code: api.CodeLocalDatabase, docs: "docs/alerts.md#puntdnslocaldatabasedown", peer: "ovsdb-server"},
	{
		code: api.CodeNoBridge, docs: nodeDocs,
		text:     "the name after ofpunt in the Corefile has to be the name of a bridge, br-int with OVN",
		commands: []string{"ovs-vsctl list-br"},
	},
	{
		code: api.CodeOtherProcess, docs: nodeDocs,
		text: "two processes serve one bridge, and the one that was started later owns its flows: stop one of them",
		commands: []string{
			"pgrep -a puntdns",
			"ovs-ofctl -O OpenFlow15 dump-flows {about} cookie=0x70646e0000000000/0xffffff0000000000,table=200",
		},
	},
	{
		code: api.CodeLease, docs: "docs/alerts.md#puntdnsleaselapsed",
		text:     "see whether the switch is busy or stopped: queries go to their destination until it answers a probe",
		commands: []string{"ovs-appctl -t ovs-vswitchd upcall/show", "top -b -n 1 -p $(pidof ovs-vswitchd)"},
	},
	{code: api.CodeNotServed, docs: "docs/alerts.md#puntdnsnotready", without: "the text of the problem is the reason, and there are many"},
	{
		code: api.CodeBinding, docs: "ofpunt/README.md#chassis",
		text:     "the chassis that this process looks for has to be the one that ovn-controller has registered and bound the ports to; after a change of its name, delete the row of the former name by ovn-sbctl chassis-del",
		commands: []string{"ovs-vsctl get Open_vSwitch . external_ids:system-id", "ovn-sbctl --columns=name,hostname list Chassis", "systemctl status ovn-controller"},
	},
	{code: api.CodeDatabase, docs: "docs/alerts.md#puntdnsdatabasedown", peer: "the database's ovsdb-server"},
	{
		code: api.CodeUnserved, docs: guestDocs,
		text: "external_ids:iface-id of the interface has to be the name of a logical port, which ovn-controller has bound to this chassis",
		commands: []string{
			"ovs-vsctl get Interface {interface} external_ids:iface-id",
			"ovs-vsctl get Interface {interface} ofport error",
			"ovn-nbctl --columns=name,up,options list Logical_Switch_Port {port}",
			"ovn-sbctl --columns=logical_port,chassis,up find Port_Binding {port-match}",
			"ovn-appctl -t ovn-controller connection-status",
		},
	},
	{
		code: api.CodeNoAddress, docs: "ofpunt/README.md#resolver-addresses",
		text: "give the DHCP options of the guest a dns_server, or its network a router, as `address` in ofpunt says; or name an address for all guests there",
	},
	{
		code: api.CodeOverLimit, docs: "ofpunt/README.md#rate",
		text:     "look at what the guest asks, and raise the limit in ofpunt if the guest may ask that much",
		commands: []string{"puntctl top --port {port}", "puntctl watch --port {port}"},
	},
	{
		code: api.CodeLinkDown, docs: guestDocs,
		text:     "start the guest, and set the interface up in the guest and on the node",
		commands: []string{"ovs-vsctl get Interface {interface} admin_state link_state", "ip -d link show {interface}"},
	},
	{
		code: api.CodeAddressTaken, docs: guestDocs,
		text:     "give that machine another address, or name other addresses in `address` of ofpunt; with a DNS server there, guests need no puntdns at that address",
		commands: []string{"ovn-nbctl --format=csv --columns=name,type,addresses list Logical_Switch_Port"},
	},
	{
		code: api.CodeAttachedMAC, docs: guestDocs, note: true,
		text:     "see whether the interface has the iface-id of another guest, and whether the port has the MAC address of the guest",
		commands: []string{"ovs-vsctl get Interface {interface} external_ids", "ovn-nbctl lsp-get-addresses {port}", "ovn-nbctl lsp-get-port-security {port}"},
	},
	{
		code: api.CodePortConfig, docs: guestDocs,
		text:     "somebody has set this by `ovs-ofctl mod-port`: take it back",
		commands: []string{"ovs-ofctl -O OpenFlow15 mod-port {bridge} {interface} receive", "ovs-ofctl -O OpenFlow15 mod-port {bridge} {interface} forward"},
	},
	{
		code: api.CodeNoMeters, docs: "ofpunt/README.md#rate",
		text:     "guests are served without a limit; `rate off` in ofpunt says that this is meant",
		commands: []string{"ovs-ofctl -O OpenFlow15 meter-features {about}"},
	},

	// Warnings.
	{
		code: api.CodeReload, docs: "docs/operation.md#reload",
		text:     "correct what the reason names, and reload; until then puntdns serves with the Corefile as taken before. puntdns -check finds what needs no database",
		commands: []string{"puntdns -check -conf {corefile}", "systemctl reload puntdns"},
	},
	{
		code: api.CodeBadValues, docs: "docs/puntctl.md#status",
		text:     "correct these rows in Northbound: `ovn-nbctl list TABLE ROW` shows one. puntdns skips the values, and uses the rest of each row. The log has a line for each value, with its row",
		commands: []string{"journalctl -u puntdns -g skipped"},
	},
	{
		code: api.CodeRefusedServers, docs: "plugin/ovnforward/README.md#which-servers",
		text:     "have the network name a server that the node may ask for tenants, or permit it in ovnforward (`allow`, `ports`)",
		commands: []string{"journalctl -u puntdns -g 'is not asked'"},
	},
	{
		code: api.CodePolicyZone, docs: "plugin/rpz/README.md#alerts",
		text:     "correct the file, which puntdns reads again when it changes, or see that this node reaches the primaries of the zone; or raise the limit that the text names",
		commands: []string{"journalctl -u puntdns -g plugin/rpz -n 20"},
	},
	{
		code: api.CodeUnsaved, docs: "plugin/ovnhosts/README.md#saved-snapshot",
		text: "the folder of `snapshot` in ovnhosts has to exist, belong to the user of puntdns, and have room",
	},
	{
		code: api.CodeUpstreams, docs: "docs/alerts.md#puntdnsupstreamdown",
		text: "names of this forward get SERVFAIL while none of its servers answers: see that this node has a way to them, that they permit its queries, or name others in forward",
	},

	// Findings of an explanation.
	{
		code: api.CodeNoFlows, docs: guestDocs,
		text: "`puntctl status` says why; the log of puntdns says if another program removes them",
	},
	{code: api.CodeNotPunted, docs: guestDocs, without: "puntctl writes the remedy by the trace of the switch"},
	{
		code: api.CodeNotResolver, docs: guestDocs,
		text: "have the guest ask a resolver address (dns_server in its DHCP options), or name this one in `address` of ofpunt",
	},
	{
		code: api.CodeUnknownGuest, docs: codeDocs,
		text: "wait a moment, and ask again; if it stays so, see puntctl status and the log of ovn-controller",
	},
	{code: api.CodeNoBlock, docs: guestDocs, without: byFinder},
	{code: api.CodeView, docs: guestDocs, without: byFinder},
	{code: api.CodeOtherNetwork, docs: nameDocs, without: byFinder},
	{
		code: api.CodeNotAnnounced, docs: codeDocs,
		text:     "announce a resolver address to the guest, or have ofpunt answer at what DHCP announces (`address dhcp`)",
		commands: []string{"ovn-nbctl list DHCP_Options {dhcp-row}"},
	},
	{
		code: api.CodePortSecurity, docs: guestDocs, note: true,
		text:     "see which MAC and IPv4 addresses the guest uses: they have to be the ones of its port",
		commands: []string{"ovn-nbctl lsp-get-port-security {port}", "ovn-nbctl lsp-get-addresses {port}"},
	},
	{
		code: api.CodeSlowUpstream, docs: outerDocs, note: true,
		text: "ask that server yourself; if it stays slow, name another one in `forward`",
	},
	{
		code: api.CodeFirstServer, docs: guestDocs, note: true,
		text:     "put a resolver address first in dns_server, if guests are to ask puntdns; most ask the next server only if the first does not answer",
		commands: []string{"ovn-nbctl list DHCP_Options {dhcp-row}"},
	},
	{
		code: api.CodeNotTraced, docs: guestDocs, note: true,
		text: "run puntctl as root on the node of the switch, or give --vswitchd TARGET, or paste the command there",
	},
	{
		code: api.CodeNoRoute, docs: guestDocs, note: true,
		text: "give the guest a route; a client that gets classless_static_route ignores router (RFC 3442), so its default route has to be there too",
	},
	{
		code: api.CodeUpstream, docs: outerDocs,
		text: "see whether a DNS server runs there and this node reaches it (address and port in forward, a firewall between both)",
	},
	{
		code: api.CodeLoop, docs: "ofpunt/README.md#loops",
		text: "that server has to ask another one than a resolver address of its network, or forward in this block another server",
	},
	{code: api.CodeSearchDomain, docs: nameDocs, without: byFinder},
	{
		code: api.CodeAlias, docs: nameDocs,
		text:     "correct the dns-cname keys in Northbound: the last target has to be a name that has records of its own",
		commands: []string{"puntctl names {port}"},
	},
	{code: api.CodeUnreadable, docs: nameDocs, without: byFinder},
	{code: api.CodeNoSwitch, docs: nameDocs, without: byFinder},
	{
		code: api.CodeNorthd, docs: nameDocs,
		text: "see why ovn-northd does not write to Southbound, where it runs: it may have ended, hang, be paused, or have no connection to Southbound",
		commands: []string{
			"ovn-appctl -t ovn-northd status", "systemctl status ovn-northd",
			"ovn-nbctl --print-wait-time --wait=sb --timeout=10 sync    # does ovn-northd answer?",
		},
	},
	{code: api.CodePrivate, docs: nameDocs, without: byFinder},
	{code: api.CodePolicy, docs: nameDocs, without: byFinder},
	{
		code: api.CodeCached, docs: "docs/troubleshooting.md#a-name-has-the-wrong-answer",
		text:     "wait until the entry has expired, or reload: that begins with an empty cache",
		commands: []string{"systemctl reload puntdns"},
	},
	{code: api.CodeDeadline, docs: outerDocs, text: "see why that one does not answer"},
	{code: api.CodeNoData, docs: nameDocs, without: byFinder},
	{
		code: api.CodeNoType, docs: nameDocs, note: true,
		text: "explain the same name with another type, such as ANY, to see which records it has",
	},
	{
		code: api.CodeTruncated, docs: codeDocs, note: true,
		text: "add --tcp to see the answer that the guest gets over TCP",
	},
	{code: api.CodeError, docs: codeDocs, text: "see what that plugin says, without --summary"},
	{code: api.CodeDropped, docs: codeDocs, text: "see which plugin was the last one, without --summary"},
}
