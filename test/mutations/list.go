// SPDX-License-Identifier: Apache-2.0

package main

// mutation is one mistake in one file.
type mutation struct {
	name string
	file string
	// find stands once in the file, and put takes its place.
	find, put string
	// pkg is the package whose tests are run first, empty for the package of the file. tests are a
	// regular expression of these tests, empty for all.
	pkg, tests string
	// system is a regular expression of the tests of package ./test that are most likely to catch the
	// mutation. They have been tried only where caught names them.
	system string
	// caught is the test that caught the mutation when it was listed.
	caught string
	// survives says why nothing can catch the mutation, empty if something has to.
	survives string
}

// list is the same before and after a change of the structure of the product: what was caught before
// must not survive. Only file, find and put follow the code.
var list = []mutation{
	{
		name: "udp-answer-ports", file: "ofpunt/frame/udp.go",
		find: `binary.BigEndian.PutUint16(d, e.Dst.Port())`, put: `binary.BigEndian.PutUint16(d, e.Src.Port())`,
		system: "^TestPlain$",
		caught: "ofpunt/frame TestUDP",
	},
	{
		name: "nd-hop-limit", file: "ofpunt/frame/nd.go",
		find: `case p.hops != ndHops:`, put: `case p.hops == 0:`,
		system: "^TestWireService$",
		caught: "ofpunt/frame TestNeighborRefused",
	},
	{
		name: "entry-of-any-port", file: "ofpunt/placement/key.go",
		find: `, openflow.Reg(RegInPort, k.Port)}`, put: `}`,
		system: "^TestTable$",
		caught: "ofpunt/placement TestFlowsInOVN",
	},
	{
		name: "workload-punted", file: "ofpunt/placement/ovn.go",
		find: `s.without(g.Left)`, put: `s.without(nil)`,
		system: "^TestAddressPerGuest$",
		caught: "ofpunt/placement TestFlowsInOVN",
	},
	{
		name: "reset-of-fin", file: "ofpunt/tcp/reset.go",
		find: `{header.TCPFlagSyn, header.TCPFlagFin}`, put: `{header.TCPFlagSyn}`,
		system: "^TestTCPHostile$",
		caught: "ofpunt/tcp TestUnknown",
	},
	{
		name: "urgent-byte", file: "ofpunt/tcp/urgent.go",
		find: `pointer - 1 - u.first`, put: `pointer - u.first`,
		system: "^TestTCPHostile$",
		caught: "ofpunt/tcp TestHandedOver",
	},
	{
		name: "cookie-with-padding", file: "ofpunt/openflow/packetin.go",
		find: `be.Uint64(v[4:])`, put: `be.Uint64(v)`,
		caught: "ofpunt/openflow TestPacketInDecode",
	},
	{
		name: "resumed-without-mark", file: "ofpunt/openflow/packetin.go",
		find: `SetField{PktMark(p.PktMark)}`, put: `SetField{PktMark(0)}`,
		system: "^TestPipelineService$",
		caught: "ofpunt/openflow TestAppendResume",
	},
	{
		name: "takeover-at-once", file: "ofpunt/flows/ownership.go",
		find: `lease.installed && lease.generation == releasedGeneration`, put: `lease.generation == releasedGeneration`,
		system: "^TestFlowsAreMended$",
		caught: "ofpunt/flows TestOwnership",
	},
	{
		name: "removal-of-any-cookie", file: "ofpunt/flows/flow.go",
		find: `openflow.DeleteStrict, exactMask, nil`, put: `openflow.DeleteStrict, cookieMask, nil`,
		caught: "ofpunt/flows TestRemoval",
	},
	{
		name: "left-addresses-forgotten", file: "ofpunt/placement/placement.go",
		pkg: "./ofpunt/flows", tests: "^TestPlanned$",
		find: `slices.Equal(g.Left, o.Left) && `, put: ``,
		caught: "ofpunt/flows TestPlanned",
	},
	{
		name: "closed-guest-forgotten", file: "ofpunt/placement/placement.go",
		pkg: "./ofpunt/flows", tests: "^TestPlanned$",
		find: `g.Closed == o.Closed && `, put: ``,
		system: "^TestFailClosed$",
		caught: "ofpunt/flows TestPlanned",
	},
	{
		name: "closed-guest-opened", file: "ofpunt/flows/withdraw.go",
		find: `keep := m.keep && !replaced`, put: `keep := false`,
		system: "^TestFailClosed$",
		caught: "ofpunt/flows TestScripts",
	},
	{
		name: "closed-guest-overloaded", file: "ofpunt/punt/datagram.go",
		find: ` && !x.server.Guests.FailsClosed(x.from.limit)`, put: ``,
		caught: "ofpunt/punt TestOverloadInHijackMode",
	},
	{
		name: "moved-port-reason", file: "ofpunt/punt/exchange.go",
		find: `x.drops(metric.ReasonPort)`, put: `x.drops(metric.ReasonConnection)`,
		system: "^TestPortReuse$",
		caught: "ofpunt/punt TestPublishedTCP",
	},
	{
		name: "query-stays-on-reader", file: "ofpunt/punt/exchange.go",
		find: `x.from.channel.conn.LeaveReader(turn)`, put: `_ = turn`,
		system: "^TestNeighbourWaitsForKnownName$",
		caught: "ofpunt/punt TestChainLeavesReader",
	},
	{
		name: "repeats-of-network", file: "ofpunt/punt/repeat.go",
		find: `o.from.account == x.from.account`, put: `o.from.account.network == x.from.account.network`,
		system: "^TestForwardToGuest$",
		caught: "ofpunt/punt TestSameInFlight",
	},
	{
		name: "limit-of-another-host", file: "ofpunt/placement/key.go",
		find: `k.MAC, ok = frame.SenderMAC(in.Data)`, put: `_, ok = frame.SenderMAC(in.Data)`,
		system: "^TestLimits$",
		caught: "ofpunt/placement TestKeyOf",
	},
	{
		name: "cache-scope-guest", file: "ofpunt/tenantcache/keyvariant.go",
		pkg: "./ofpunt/chain", tests: "^TestCache",
		find: `case c.scope == Network:`, put: `case c.scope != Shared:`,
		caught: "ofpunt/chain TestCacheScope",
	},
	{
		name: "cache-key-of-plugins", file: "ofpunt/tenantcache/keyvariant.go",
		pkg: "./ofpunt/chain", tests: "^TestCache",
		find: `key := cachekey.Of(ctx); key != ""`, put: `key := cachekey.Of(ctx); key == "-"`,
		system: "^TestForwarding$",
		caught: "ofpunt/chain TestCacheKeyOfPlugins",
	},
	{
		name: "cache-label-values", file: "ofpunt/tenantcache/keyvariant.go",
		pkg: "./ofpunt/chain", tests: "^TestCache",
		find: `appendPart(keyVariant, partLabels, v)`, put: `appendPart(keyVariant, partLabels, v[:0])`,
		caught: "ofpunt/chain TestCacheAsksAgain",
	},
	{
		name: "top-names-of-all", file: "ofpunt/watch/top.go",
		find: `return networkKey(b, e)`, put: `return b, true`,
		system: "^TestWatch$",
		caught: "ofpunt/watch TestTopKeys",
	},
	{
		name: "interface-unchecked", file: "ofpunt/guests/ovn.go",
		find: `owner.IfaceID == g.Port.Interface()`, put: `g.Port.Interface() != ""`,
		caught: "ofpunt/guests TestSender",
	},
	{
		name: "tag-unchecked", file: "ofpunt/guests/guests.go",
		find: `return g.Port == nil || g.book`, put: `return g.Port != nil || g.book`,
		caught: "ofpunt/guests TestSender",
	},
	{
		name: "options-to-next-hop", file: "ofpunt/chain/hop.go",
		find: `&dns.OPT{Hdr: o.Hdr}`, put: `&dns.OPT{Hdr: o.Hdr, Option: o.Option}`,
		system: "^TestForwarding$",
		caught: "ofpunt/chain TestNextHop",
	},
	{
		name: "dns-server-of-tenant", file: "ofpunt/guests/guests.go",
		find: ` && !g.book.snapshot.HasMachine(n, a.Addr())`, put: ``,
		system: "^TestAddressPerGuest$",
		caught: "ofpunt/guests TestOwnResolvers",
	},
	{
		name: "grace-keys-reused", file: "internal/ovn/binding/outcome.go",
		find: `case f.keysReused:`, put: `case f.keysReused && f.timedOut:`,
		system: "^TestKeysChangeHands$",
		caught: "internal/ovn/binding TestDecide",
	},
	{
		name: "rows-not-swept", file: "internal/ovsdb/rows/table.go",
		find: `for id := range t.unseen {`, put: `for id := range t.staged {`,
		system: "^TestDatabaseReset$",
		caught: "internal/ovn/ovndb TestJoinWhileKept",
	},
	{
		name: "joined-by-provider", file: "internal/ovn/topology/graph.go",
		pkg: "./internal/ovn/ovndb", tests: "^TestRouterScope$",
		find: ` && !g.isProvider(l.to)`, put: ``,
		system: "^TestScript$/^scope_router$",
		caught: "internal/ovn/ovndb TestRouterScope",
	},
	{
		name: "warm-start-unconfirmed", file: "internal/ovn/binding/inputs.go",
		find: `if !in.Restored {`, put: `if !in.Restored || len(in.Confirmed) > 0 {`,
		system: "^TestWarmStartKeysReused$",
		caught: "internal/ovn/ovndb TestWarmStartKeysReused",
	},
	{
		name: "reverse-byte-order", file: "internal/ovn/names/reversename.go",
		find: `slices.Reverse(a[:n])`, put: `slices.Reverse(a[:0])`,
		system: "^TestScript$/^names$",
		caught: "internal/ovn/names TestDirectory",
	},
	{
		name: "ovn-owned-forgotten", file: "internal/ovn/names/table.go",
		find: `Provenance{sourceDNS, t.owned}`, put: `Provenance{sourceDNS, false}`,
		system: "^TestOVNOwned$",
		caught: "internal/ovn/names TestDirectory",
	},
	{
		name: "records-bound", file: "internal/ovn/names/rrparse.go",
		find: `len(all) > maxRRs`, put: `len(all) >= maxRRs`,
		caught: "internal/ovn/names TestParseRRs",
	},
	{
		name: "saved-file-mode", file: "internal/ovn/saved/disk.go",
		find: `Perm()&0o077`, put: `Perm()&0o022`,
		system: "^TestWarmStartRefused$",
		caught: "internal/ovn/saved TestReadHead",
	},
	{
		name: "domain-of-other-network", file: "plugin/ovnhosts/ovnhosts.go",
		find: ` && p.Network == id`, put: ``,
		caught: "plugin/ovnhosts TestDomainOfPort",
	},
	{
		name: "unread-scope-denied", file: "plugin/ovnhosts/ovnhosts.go",
		find: `if !found && a.unread {`, put: `if !found && a.unread && zone == "" {`,
		system: "^TestScript$/^scope_router$",
		caught: "plugin/ovnhosts TestScopeRouterUnread",
	},
	{
		name: "forward-cache-key", file: "plugin/ovnforward/ovnforward.go",
		find: `cachekey.Route(ctx, z.Key, f)`, put: `cachekey.Route(ctx, z.Zone, f)`,
		system: "^TestForwarding$",
		caught: "plugin/ovnforward TestThroughCache",
	},
	{
		name: "forward-allowed-widely", file: "plugin/ovnforward/policy.go",
		find: ` && prefix.Bits() >= bits`, put: ``,
		system: "^TestForwarding$",
		caught: "plugin/ovnforward TestPolicy",
	},
	{
		name: "signature-left", file: "plugin/private/rebind.go",
		find: `sig.TypeCovered`, put: `sig.Hdr.Rrtype`,
		system: "^TestScript$/^private$",
		caught: "plugin/private TestRebind",
	},
	{
		name: "rpz-order-of-zones", file: "plugin/rpz/decide.go",
		find: `if waits {`, put: `if waits && s.answered {`,
		system: "^TestRPZ$",
		caught: "plugin/rpz TestZonesInOrder",
	},
	{
		name: "rpz-word-order", file: "plugin/rpz/rules/trigger.go",
		find: `binary.BigEndian.PutUint16(b[2*at:]`, put: `binary.LittleEndian.PutUint16(b[2*at:]`,
		system: "^TestRPZ$",
		caught: "plugin/rpz/rules TestAddress",
	},
	{
		name: "egress-apex", file: "internal/policy/policy.go",
		find: `entries = append(entries, at.exact...)`, put: `entries = append(append(entries, at.exact...), at.below...)`,
		system: "^TestEgress$",
		caught: "internal/policy TestNPEP133",
	},
	{
		name: "egress-opens-private", file: "plugin/egress/open.go",
		find: `if !q.foreign && !closes(a) && `, put: `if !q.foreign && `,
		caught: "plugin/egress TestOpens",
	},
	{
		name: "egress-opens-node", file: "plugin/egress/open.go",
		find: `case h.onNode(to):`, put: `case h.onNode(to) && false:`,
		system: "^TestEgressOpens$",
		caught: "plugin/egress TestOpens",
	},
	{
		name: "egress-opens-replaced", file: "plugin/egress/open.go",
		find: `if origin.JudgeAnswer(q.Context, q.request, m) {`, put: `if false {`,
		caught: "plugin/egress TestReplaced",
	},
	{
		name: "egress-opens-by-tenant", file: "plugin/egress/egress.go",
		find: `q.foreign = h.forwards != nil && h.forwards.Takes(o, qname, r.Question[0].Qtype)`, put: `q.foreign = false`,
		caught: "plugin/egress TestEnforce",
	},
	{
		name: "egress-not-withdrawn", file: "ofpunt/flows/openings.go",
		find: `return !p.Allows(name, e.To) })`, put: `return false })`,
		system: "^TestEgressEnds$",
		caught: "ofpunt/flows TestScripts",
	},
	{
		name: "egress-waiting-not-judged", file: "ofpunt/flows/openings.go",
		find: `if err := m.refuseOpening(r); err != nil { // the`, put: `if err := m.refuseOpening(r); err != nil && false { // the`,
		caught: "ofpunt/flows TestScripts",
	},
	{
		name: "egress-explain-opens", file: "ofpunt/punt/ask.go",
		find: `trial.Trial = true`, put: `trial.Trial = false`,
		caught: "ofpunt/punt TestAskOpensNothing",
	},
	{
		name: "egress-group-not-read-again", file: "internal/ovn/topology/portgroups.go",
		find: `if g.membership(port, old) != g.membership(port, next) {`, put: `if g.membership(port, old).name != g.membership(port, next).name {`,
		system: "^TestEgressNorthbound$",
		caught: "internal/ovn/ovndb TestEgress",
	},
	{
		name: "egress-adopts-new", file: "ofpunt/placement/egress.go",
		find: `openflow.TCPFlags(0, tcpSYN)`, put: `openflow.TCPFlags(0, 0)`,
		system: "^TestEgressMigration$",
		caught: "ofpunt/flows TestScripts",
	},
	{
		name: "egress-adopted-kept", file: "ofpunt/flows/connections.go",
		find: `if _, ok := has[cookie]; !ok {`, put: `if len(has) == 0 {`,
		caught: "ofpunt/flows TestScripts",
	},
	{
		name: "egress-escaped-dot", file: "internal/policy/policy.go",
		find: `escapes%2 == 0`, put: `escapes >= 0`,
		system: "^TestEgress$",
		caught: "internal/policy TestName",
	},
	{
		name: "egress-lookup-of-guest", file: "plugin/egress/egress.go",
		find: `|| ctx.Value(judgedKey{}) != nil`, put: `|| o.Lookup`,
		system: "^TestEgress$",
		caught: "plugin/egress TestLookups",
	},
	{
		name: "audit-of-dropped", file: "plugin/audit/audit.go",
		find: `rec.answered = outcome.Result != resultDropped`, put: `rec.answered = true`,
		system: "^TestAuditOfTenants$",
		caught: "plugin/audit TestResults",
	},
	{
		name: "neutron-unread-passed-on", file: "plugin/neutronhosts/neutronhosts.go",
		find: `case !read:`, put: `case !read && n != nil:`,
		system: "^TestNeutronHosts$",
		caught: "plugin/neutronhosts TestUnread",
	},
	{
		name: "hedge-of-another-zone", file: "ofpunt/chain/hedge.go",
		find: `err == nil && !before[p.Addr()]`, put: `err == nil`,
		system: "^TestHedge$",
		caught: "ofpunt/chain TestHedge",
	},
	{
		name: "hedge-before-asked", file: "ofpunt/chain/hedge.go",
		find: `if asked.server.Load() != nil {`, put: `if true {`,
		system: "^TestHedge$",
		caught: "ofpunt/chain TestHedgeUnderLoad",
	},
	{
		name: "hedge-unbounded", file: "ofpunt/chain/hedge.go",
		find: `h.open.Load() > maxOpen`, put: `false`,
		system: "^TestHedge$",
		caught: "ofpunt/chain TestHedgeBounded",
	},
	{
		name: "hedge-takes-failure", file: "ofpunt/chain/hedge.go",
		find: `m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError, `, put: ``,
		system: "^TestHedge$",
		caught: "ofpunt/chain TestHedge",
	},
	{
		name: "passthrough-over-tcp", file: "plugin/passthrough/passthrough.go",
		find: `case punted && h.Next == nil:`, put: `case !punted && h.Next == nil:`,
		system: "^TestTCP$",
		caught: "plugin/passthrough TestServeDNS",
	},
	{
		name: "guest-before-its-groups", file: "internal/ovn/build/ports.go",
		find: `d.Local = i >= 0; d.Local {`, put: `d.Local = true; i >= 0 {`,
		system: "^TestLabelsReloadUnderLoad$",
		caught: "internal/ovn/build TestNetworkAwaitsGroups",
	},
}
