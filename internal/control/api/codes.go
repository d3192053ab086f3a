// SPDX-License-Identifier: Apache-2.0

package api

// Code describes a code. It has a Text, a Peer, or the reason for neither. Package remedy makes a [Problem]
// of it.
type Code struct {
	Name string
	// Docs is PAGE#ANCHOR, from the root of the project.
	Docs string
	Text string
	// Commands are shell lines. {about}, {corefile}, {bridge}, {interface}, {port} and {dhcp-row} are
	// shell-quoted fields of remedy.Context, {port-match} a condition on Port_Binding.
	Commands []string
	// Peer is a daemon whose remedy depends on the connection's failure.
	Peer    string
	Without string
	// Note: a finding with this code does not clear Well.
	Note bool
	// Precedence is higher for problems that cause others.
	Precedence int
}

var codes []Code

func newCode(name string, c Code) string {
	c.Name = name
	codes = append(codes, c)
	return name
}

// Codes returns all codes in the order of this file. The caller may append.
func Codes() []Code { return codes[:len(codes):len(codes)] }

const (
	nodeDocs  = "docs/troubleshooting.md#no-guest-of-the-node-gets-an-answer"
	guestDocs = "docs/troubleshooting.md#one-guest-gets-no-answer"
	nameDocs  = "docs/troubleshooting.md#nxdomain-for-a-name-that-exists"
	outerDocs = "docs/troubleshooting.md#outside-names-fail"
	codeDocs  = "docs/puntctl.md#explain"
)

// byFinder: remedy.Context is not enough.
const byFinder = "the finder writes the remedy for the case at hand"

// The codes of problems.
var (
	CodeSwitch = newCode("switch", Code{
		Docs: nodeDocs, Precedence: 3, Peer: "ovs-vswitchd",
		Commands: []string{"ovs-vsctl list-br    # is {about} among them?"},
	})
	// CodeStalled: the switch waits for the local ovsdb-server.
	CodeStalled = newCode("ovsdb-server", Code{
		Docs: "docs/operation.md#without-the-local-ovsdb-server", Precedence: 3,
		Text:     "start ovsdb-server, and see why it has ended: ovs-vswitchd goes on by itself within 8 s of its return",
		Commands: []string{"systemctl start ovsdb-server", "journalctl -u ovsdb-server -n 20", "ovs-vsctl --timeout=5 show"},
	})
	CodeLocalDatabase = newCode("local-database", Code{Docs: "docs/alerts.md#puntdnslocaldatabasedown", Precedence: 3, Peer: "ovsdb-server"})
	CodeNoBridge      = newCode("no-bridge", Code{
		Docs: nodeDocs, Precedence: 3,
		Text:     "the name after ofpunt in the Corefile has to be the name of a bridge, br-int with OVN",
		Commands: []string{"ovs-vsctl list-br"},
	})
	CodeOtherProcess = newCode("other-process", Code{
		Docs: nodeDocs, Precedence: 3,
		Text: "two processes serve one bridge, and the one that was started later owns its flows: stop one of them",
		Commands: []string{
			"pgrep -a puntdns",
			"ovs-ofctl -O OpenFlow15 dump-flows {about} cookie=0x70646e0000000000/0xffffff0000000000,table=200",
		},
	})
	// CodeLease: the punt is not renewed, or has expired.
	CodeLease = newCode("lease", Code{
		Docs: "docs/alerts.md#puntdnsleaselapsed", Precedence: 3,
		Text:     "see whether the switch is busy or stopped: queries go to their destination until it answers a probe",
		Commands: []string{"ovs-appctl -t ovs-vswitchd upcall/show", "top -b -n 1 -p $(pidof ovs-vswitchd)"},
	})
	// CodeNotServed: the bridge is not served for another reason.
	CodeNotServed = newCode("not-served", Code{Docs: "docs/alerts.md#puntdnsnotready", Precedence: 1, Without: "the text of the problem is the reason, and there are many"})
	// CodeBinding: the chassis or its port bindings are wrong.
	CodeBinding = newCode("binding", Code{
		Docs: "ofpunt/README.md#chassis", Precedence: 1,
		Text:     "the chassis that this process looks for has to be the one that ovn-controller has registered and bound the ports to; after a change of its name, delete the row of the former name by ovn-sbctl chassis-del",
		Commands: []string{"ovs-vsctl get Open_vSwitch . external_ids:system-id", "ovn-sbctl --columns=name,hostname list Chassis", "systemctl status ovn-controller"},
	})
	// CodeDatabase: a database is not in sync.
	CodeDatabase = newCode("database", Code{Docs: "docs/alerts.md#puntdnsdatabasedown", Precedence: 2, Peer: "the database's ovsdb-server"})
	CodeUnserved = newCode("unserved", Code{
		Docs: guestDocs,
		Text: "external_ids:iface-id of the interface has to be the name of a logical port, which ovn-controller has bound to this chassis",
		Commands: []string{
			"ovs-vsctl get Interface {interface} external_ids:iface-id",
			"ovs-vsctl get Interface {interface} ofport error",
			"ovn-nbctl --columns=name,up,options list Logical_Switch_Port {port}",
			"ovn-sbctl --columns=logical_port,chassis,up find Port_Binding {port-match}",
			"ovn-appctl -t ovn-controller connection-status",
		},
	})
	CodeNoAddress = newCode("no-address", Code{
		Docs: "ofpunt/README.md#resolver-addresses",
		Text: "give the DHCP options of the guest a dns_server, or its network a router, as `address` in ofpunt says; or name an address for all guests there",
	})
	CodeOverLimit = newCode("over-limit", Code{
		Docs:     "ofpunt/README.md#rate",
		Text:     "look at what the guest asks, and raise the limit in ofpunt if the guest may ask that much",
		Commands: []string{"puntctl top --port {port}", "puntctl watch --port {port}"},
	})
	// CodeAddressTaken: another machine has a resolver address.
	CodeAddressTaken = newCode("address-taken", Code{
		Docs:     guestDocs,
		Text:     "give that machine another address, or name other addresses in `address` of ofpunt; with a DNS server there, guests need no puntdns at that address",
		Commands: []string{"ovn-nbctl --format=csv --columns=name,type,addresses list Logical_Switch_Port"},
	})
	// CodeAttachedMAC: the interface's MAC address is not the port's.
	CodeAttachedMAC = newCode("attached-mac", Code{
		Docs: guestDocs, Note: true,
		Text:     "see whether the interface has the iface-id of another guest, and whether the port has the MAC address of the guest",
		Commands: []string{"ovs-vsctl get Interface {interface} external_ids", "ovn-nbctl lsp-get-addresses {port}", "ovn-nbctl lsp-get-port-security {port}"},
	})
	// CodePortConfig: it stops queries or answers.
	CodePortConfig = newCode("port-config", Code{
		Docs:     guestDocs,
		Text:     "somebody has set this by `ovs-ofctl mod-port`: take it back",
		Commands: []string{"ovs-ofctl -O OpenFlow15 mod-port {bridge} {interface} receive", "ovs-ofctl -O OpenFlow15 mod-port {bridge} {interface} forward"},
	})
	// CodeEgressOpen: an egress policy without ACLs.
	CodeEgressOpen = newCode("egress-open", Code{
		Docs: "docs/egress.md#see-it",
		Text: "add the port to a port group with the ACLs of `puntctl egress init`; `strict names` in egress says that names alone are meant. If the group has ACLs for another bit, set `bit` in egress to theirs",
		Commands: []string{
			"puntctl egress init GROUP | sh    # a new group",
			"puntctl egress init GROUP --existing | sh    # a group without these ACLs",
			`ovn-nbctl add Port_Group GROUP ports "$(ovn-nbctl get Logical_Switch_Port {port} _uuid)"    # unless it is in the group`,
		},
	})
	// CodeEgressWithoutPolicy: ACLs without an egress policy.
	CodeEgressWithoutPolicy = newCode("egress-without-policy", Code{
		Docs: "docs/egress.md#see-it", Note: true,
		Text:     "give the guest a policy in egress; `observe on` and `strict names` open nothing. Or remove the port from the port group",
		Commands: []string{"ovn-nbctl get Logical_Switch_Port {port} _uuid", "ovn-nbctl --columns=name,ports list Port_Group    # which groups have this port?"},
	})
	// CodeEgressBlocked: an ACL for another bit drops packets to open addresses. A trace in the switch finds it.
	CodeEgressBlocked = newCode("egress-blocked", Code{Docs: "docs/egress.md#see-it", Without: "puntctl writes the remedy by the trace of the switch"})
	// CodeEgressPersistent: OVN lets connections go on whose address egress has closed.
	CodeEgressPersistent = newCode("egress-persistent", Code{
		Docs: "docs/egress.md#limits", Note: true,
		Text:     "if an ACL allows packets of guests with an egress policy, remove this option from it",
		Commands: []string{"ovn-nbctl --columns=_uuid,priority,match,options find ACL options:persist-established=true"},
	})
	CodeLinkDown = newCode("link-down", Code{
		Docs:     guestDocs,
		Text:     "start the guest, and set the interface up in the guest and on the node",
		Commands: []string{"ovs-vsctl get Interface {interface} admin_state link_state", "ip -d link show {interface}"},
	})
	CodeNoMeters = newCode("no-meters", Code{
		Docs:     "ofpunt/README.md#rate",
		Text:     "guests are served without a limit; `rate off` in ofpunt says that this is meant",
		Commands: []string{"ovs-ofctl -O OpenFlow15 meter-features {about}"},
	})
)

// The codes of warnings.
var (
	CodeReload = newCode("reload-refused", Code{
		Docs:     "docs/operation.md#reload",
		Text:     "correct what the reason names, and reload; until then puntdns serves with the Corefile as taken before. puntdns -check finds what needs no database",
		Commands: []string{"puntdns -check -conf {corefile}", "systemctl reload puntdns"},
	})
	CodeBadValues = newCode("bad-values", Code{
		Docs:     "docs/puntctl.md#status",
		Text:     "correct these rows in Northbound: `ovn-nbctl list TABLE ROW` shows one. puntdns skips the values, and uses the rest of each row. The log has a line for each value, with its row",
		Commands: []string{"journalctl -u puntdns -g skipped"},
	})
	// CodeRefusedServers: networks' servers are not asked.
	CodeRefusedServers = newCode("refused-servers", Code{
		Docs:     "plugin/ovnforward/README.md#which-servers",
		Text:     "have the network name a server that the node may ask for tenants, or permit it in ovnforward (`allow`, `ports`)",
		Commands: []string{"journalctl -u puntdns -g 'is not asked'"},
	})
	// CodePolicyZone: its last read failed, or it is required and has no rules.
	CodePolicyZone = newCode("policy-zone", Code{
		Docs:     "plugin/rpz/README.md#before-the-first-load",
		Text:     "correct the file, which puntdns reads again when it changes, or see that this node reaches the primaries of the zone; or raise the limit that the text names",
		Commands: []string{"journalctl -u puntdns -g plugin/rpz -n 20"},
	})
	// CodeUnsaved: the snapshot can't be written.
	CodeUnsaved = newCode("unsaved", Code{
		Docs: "plugin/ovnhosts/README.md#saved-snapshot",
		Text: "the folder of `snapshot` in ovnhosts has to exist, belong to the user of puntdns, and have room",
	})
	// CodeUpstreams: servers of forward are down.
	CodeUpstreams = newCode("upstreams", Code{
		Docs: "docs/alerts.md#puntdnsupstreamdown",
		Text: "names of this forward get SERVFAIL while none of its servers answers: see that this node has a way to them, that they permit its queries, or name others in forward",
	})
)

// The codes of findings of an explanation.
var (
	CodeNoFlows = newCode("no-flows", Code{
		Docs: guestDocs,
		Text: "`puntctl status` says why; the log of puntdns says if another program removes them",
	})
	// CodeNotPunted: by a trace in the switch.
	CodeNotPunted = newCode("not-punted", Code{Docs: guestDocs, Without: "puntctl writes the remedy by the trace of the switch"})
	// CodeNotTraced: set by puntctl.
	CodeNotTraced = newCode("not-traced", Code{
		Docs: guestDocs, Note: true,
		Text: "run puntctl as root on the node of the switch, or give --vswitchd TARGET, or paste the command there",
	})
	CodeNotResolver = newCode("not-a-resolver", Code{
		Docs: guestDocs,
		Text: "have the guest ask a resolver address (dns_server in its DHCP options), or name this one in `address` of ofpunt",
	})
	CodeUnknownGuest = newCode("unknown-guest", Code{
		Docs: codeDocs,
		Text: "wait a moment, and ask again; if it stays so, see puntctl status and the log of ovn-controller",
	})
	CodeNoBlock = newCode("no-block", Code{Docs: guestDocs, Without: byFinder})
	CodeView    = newCode("view", Code{Docs: guestDocs, Without: byFinder})
	// CodeOtherNetwork: only another network has the name.
	CodeOtherNetwork = newCode("other-network", Code{Docs: nameDocs, Without: byFinder})
	// CodePortSecurity: it drops ARP packets of the guest.
	CodePortSecurity = newCode("port-security", Code{
		Docs: guestDocs, Note: true,
		Text:     "see which MAC and IPv4 addresses the guest uses: they have to be the ones of its port",
		Commands: []string{"ovn-nbctl lsp-get-port-security {port}", "ovn-nbctl lsp-get-addresses {port}"},
	})
	CodeSlowUpstream = newCode("slow-upstream", Code{
		Docs: outerDocs, Note: true,
		Text: "ask that server yourself; if it stays slow, name another one in `forward`, or name two there and set `hedge` in ofpunt, or a shorter `hedge` than now",
	})
	// CodeFirstServer: DHCP announces another server first.
	CodeFirstServer = newCode("first-server", Code{
		Docs: guestDocs, Note: true,
		Text:     "put a resolver address first in dns_server, if guests are to ask puntdns; most ask the next server only if the first does not answer",
		Commands: []string{"ovn-nbctl list DHCP_Options {dhcp-row}"},
	})
	// CodeNotAnnounced: DHCP announces only other servers.
	CodeNotAnnounced = newCode("not-announced", Code{
		Docs:     codeDocs,
		Text:     "announce a resolver address to the guest, or have ofpunt answer at what DHCP announces (`address dhcp`)",
		Commands: []string{"ovn-nbctl list DHCP_Options {dhcp-row}"},
	})
	// CodeNoRoute: DHCP gives no route to the server. Set by puntctl. A note: the image may have one.
	CodeNoRoute = newCode("no-route", Code{
		Docs: guestDocs, Note: true,
		Text: "give the guest a route; a client that gets classless_static_route ignores router (RFC 3442), so its default route has to be there too",
	})
	// CodeUpstream: it fails, or answers with an error.
	CodeUpstream = newCode("upstream", Code{
		Docs: outerDocs,
		Text: "see whether a DNS server runs there and this node reaches it (address and port in forward, a firewall between both)",
	})
	// CodeLoop: an upstream sends the same question back.
	CodeLoop = newCode("loop", Code{
		Docs: "ofpunt/README.md#loops",
		Text: "that server has to ask another one than a resolver address of its network, or forward in this block another server",
	})
	// CodeSearchDomain: only a longer or shorter name exists.
	CodeSearchDomain = newCode("search-domain", Code{Docs: nameDocs, Without: byFinder})
	// CodeUnreadable: the record has no readable value.
	CodeUnreadable = newCode("unreadable", Code{Docs: nameDocs, Without: byFinder})
	// CodeNoSwitch: no logical switch refers to the DNS row.
	CodeNoSwitch = newCode("no-switch", Code{Docs: nameDocs, Without: byFinder})
	// CodeNorthd: ovn-northd has not copied the name.
	CodeNorthd = newCode("northd", Code{
		Docs: nameDocs,
		Text: "see why ovn-northd does not write to Southbound, where it runs: it may have ended, hang, be paused, or have no connection to Southbound",
		Commands: []string{
			"ovn-appctl -t ovn-northd status", "systemctl status ovn-northd",
			"ovn-nbctl --print-wait-time --wait=sb --timeout=10 sync    # does ovn-northd answer?",
		},
	})
	// CodeAlias: a CNAME loop, or too long a chain.
	CodeAlias = newCode("alias", Code{
		Docs:     nameDocs,
		Text:     "correct the dns-cname keys in Northbound: the last target has to be a name that has records of its own",
		Commands: []string{"puntctl names {port}"},
	})
	// CodePrivate: no outside server is asked.
	CodePrivate = newCode("private", Code{Docs: nameDocs, Without: byFinder})
	// CodePolicy: a policy of rpz or egress decides.
	CodePolicy = newCode("policy", Code{Docs: nameDocs, Without: byFinder})
	// CodeNotOpened: a good answer opens no address, by the policies of egress.
	CodeNotOpened = newCode("not-opened", Code{Docs: outerDocs, Without: byFinder})
	// CodeEgressFailed: egress answers SERVFAIL, as the switch has not opened the addresses.
	CodeEgressFailed = newCode("egress-failed", Code{
		Docs:     outerDocs,
		Text:     "if the guest or its logical switch has too many open destinations, see which names have opened them, and set higher `max_addresses` in egress; otherwise see whether puntdns is in control of the switch",
		Commands: []string{"puntctl egress list {port}    # without a port: those of all guests", "puntctl status"},
	})
	CodeCached = newCode("cached", Code{
		Docs:     "docs/troubleshooting.md#a-name-has-the-wrong-answer",
		Text:     "wait until the entry has expired, or reload: that begins with an empty cache",
		Commands: []string{"systemctl reload puntdns"},
	})
	// CodeDeadline: the plugins are too slow.
	CodeDeadline = newCode("deadline", Code{Docs: outerDocs, Text: "see why that one does not answer"})
	CodeNoData   = newCode("no-data", Code{Docs: nameDocs, Without: byFinder})
	// CodeNoType: a note, as most names lack most types.
	CodeNoType = newCode("no-type", Code{
		Docs: nameDocs, Note: true,
		Text: "explain the same name with another type, such as ANY, to see which records it has",
	})
	// CodeTruncated: the guest retries over TCP.
	CodeTruncated = newCode("truncated", Code{
		Docs: codeDocs, Note: true,
		Text: "add --tcp to see the answer that the guest gets over TCP",
	})
	CodeError = newCode("error", Code{Docs: codeDocs, Text: "see the steps, without --summary, and correct what the error or the notes of the plugin say; a plugin with the property `fallthrough` asks the plugins behind it only if it is set"})
	// CodeDropped: neither answered nor resumed.
	CodeDropped = newCode("dropped", Code{Docs: codeDocs, Text: "see which plugin was the last one, without --summary"})
)
