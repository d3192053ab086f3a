// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

// threatTests has the tests of each threat of docs/security.md by its key there: the functions of package
// test, and of others behind their folders.
var threatTests = map[string]string{
	// Who asks.
	"forged-sender":    "TestHostileSource",
	"neighbours-frame": "TestHostileSource TestTenants",
	"forged-origin":    "TestHostileOrigin TestTenants TestContainers",
	"port-number-reused": `TestKeysChangeHands TestPortReuse ofpunt/ports.TestNumberOfADeletedPort ofpunt/ports.TestMoved
		ofpunt/ports.TestMovedUnknown ofpunt/bridge.TestNumberOfAnotherPort ofpunt/punt.TestConnectionOfAnotherPort`,
	"label-chosen": "TestLabelsOfProjects TestLabelsReloadUnderLoad internal/ovn/ovndb.TestLabelsOfNewNetworks internal/ovn/ovndb.TestGroupsOfNewGuests",
	"entry-port":   "TestPipelineService TestHijack TestExternal",

	// Names.
	"names-isolated":         "internal/ovn/ovndb.TestIsolation TestTenants TestScript/scope_router",
	"names-in-cache":         "TestPoisonNames TestNeutronHosts cmd/puntdns.TestDirectiveOrder",
	"neutron-files-isolated": "TestNeutronHosts plugin/neutronhosts.TestIsolation",
	"neutron-file-unread":    "plugin/neutronhosts.TestUnread",
	"rpz-bypassed":           "plugin/rpz.TestWithoutRD plugin/rpz.TestSigned plugin/rpz.TestHijacked TestRPZHijack",
	"rpz-policy-of-another":  "TestRPZ cmd/puntdns.TestDirectiveOrder",
	"egress-bypassed":        "plugin/egress.TestStrict plugin/egress.TestLookups internal/policy.TestName internal/policy.FuzzName TestEgress TestEgressInit internal/puntctl.TestEgressInit",
	"egress-opened":          "plugin/egress.TestOpens TestEgressOpens ofpunt/chain.TestEgressPolicies",
	"egress-widened":         "plugin/egress.TestNorthbound",
	"egress-marked":          "ofpunt/placement.TestMarks",
	"egress-adopted":         "ofpunt/flows.TestScripts plugin/egress.TestPolicyOf internal/ovn/ovndb.TestMigrationFromAnUnknownNetwork TestEgressMigration",
	"egress-flooded":         "ofpunt/flows.TestScripts ofpunt/flows.TestBridgeFull ofpunt/flows.TestLapsesTogether ofpunt/flows.TestOpeningNames ofpunt/flows.TestRequestsBounded",
	"transfer-by-address":    "ofpunt.TestBlocksWarnedOf",
	"transfer-of-upstream":   "ofpunt/chain.TestZoneTransfersByBlock",
	"tsig-key-of-another":    "TestTransfers ofpunt/chain.TestTSIGOfBlock ofpunt/punt.TestTSIGStatus plugin/rpz.TestShareKeys",
	"plugin-order":           "internal/plugincfg.TestCheckOrder",
	"rpz-slow-names":         "plugin/rpz/rules.TestName",
	"rpz-large-zone": `plugin/rpz/rules.TestLimits plugin/rpz/rules.TestLimitsOfFile plugin/rpz/source.TestTransferTooLarge
		plugin/rpz/source.TestFileTooLarge plugin/rpz/source.TestPartOfZone plugin/rpz/source.TestPause
		plugin/rpz/source.FuzzTransfer plugin/rpz/source.TestDelta plugin/rpz/rules.TestEditTooLarge`,
	"rpz-wrong-delta": `plugin/rpz/source.TestDelta plugin/rpz/source.TestFallback plugin/rpz/source.FuzzDelta
		plugin/rpz/rules.TestWrongEdits plugin/rpz/rules.TestEdits`,
	"rpz-forged-notify": `plugin/rpz.TestServeNotify plugin/rpz.TestTransferFromBIND plugin/rpz/source.TestNotify
		plugin/rpz/source.TestNotifyRate plugin/rpz/source.TestNotifyOfLargeZone`,
	"rpz-blocks-start": "plugin/rpz.TestStartWithoutRules",
	"names-file-large": `plugin/neutronhosts/addnhosts.TestParseIsBounded plugin/neutronhosts/addnhosts.TestAddressesAreBounded
		plugin/neutronhosts/addnhosts.FuzzParse`,
	"options-forwarded": "ofpunt/chain.TestNextHop",
	"cache-key":         "TestCacheShared ofpunt/tenantcache.TestNormalized",
	"lookup-cached":     `TestCacheShared TestLookups ofpunt/chain.TestAnswerWithLookupIsNotStored ofpunt/chain.TestEmptyLookupIsNotStored`,
	"cache-of-another": `TestCacheOfTenants ofpunt/chain.TestCacheEqualsNone ofpunt/chain.TestCacheKnowsAsker ofpunt/chain.TestCacheAsksAgain
		ofpunt/chain.FuzzCacheEqualsNone`,
	"cache-entry-forged": "ofpunt/chain.TestCacheForgedName",
	"cache-filled":       "ofpunt/chain.TestCacheShare ofpunt/tenantcache.TestLedger",
	"cache-timing":       "TestCacheOfTenants ofpunt/chain.TestCacheScope",
	"lookup-resumes":     "TestLookups TestTenantRecords ofpunt/chain.TestPrefetchIsALookup",
	"alias":              "TestTenantRecords plugin/ovnhosts.TestServeRRs plugin/ovnhosts.TestAliasLookups",
	"bad-records":        "internal/ovn/names.TestParseRRs internal/ovn/names.FuzzRRTable",
	"dns-forward-target": `TestForwarding plugin/ovnforward.TestPolicy internal/address.TestNodeReader
		plugin/ovnforward.TestRoutesToNode`,
	"dns-forward-answers": "TestForwarding TestChainIsolation ofpunt/chain.TestCacheRoute internal/ovn.TestForwardKey",
	"dns-forward-many": `plugin/ovnforward.TestServers plugin/ovnforward.TestPool plugin/ovnforward.TestChange
		internal/ovn.TestParseForwards internal/ovn.FuzzParseForwards`,
	"dns-forward-loop":      "plugin/ovnforward.TestLoop",
	"dns-forward-leak":      "TestForwarding plugin/ovnforward.TestServers",
	"upstream-lies":         "TestPoisonUpstream TestViewsCache",
	"answer-forged":         "TestPoisonResponses",
	"private-names-leak":    "TestScript/private TestScript/private_hijack cmd/puntdns.TestExampleKeepsPrivateNames plugin/private.TestZones",
	"rebinding":             "plugin/private.TestRebind internal/address.TestKinds",
	"query-before-network":  "TestObserveStart TestMigration",
	"tunnel-keys-reused":    "internal/ovn/ovndb.TestGrace internal/ovn/ovndb.TestGraceRenamed TestGrace",
	"saved-keys-reused":     "internal/ovn/ovndb.TestWarmStartKeysReused TestWarmStartKeysReused",
	"saved-snapshot-forged": "internal/ovn/ovndb.TestWarmStartRefuses TestWarmStartRefused internal/ovn/saved.FuzzDecode",

	// Answers.
	"third-party":           "TestHostileAddresses ofpunt/frame.FuzzUDP",
	"tcp-connection-forged": "TestTCP ofpunt/tcp.TestSameAddresses ofpunt/tcp/light.TestConversations",
	"amplification":         "TestHostileAmplification TestQuestions",
	"resolver-address-chosen": `TestAddressPerGuest TestAddressChanges ofpunt/guests.TestOwnResolvers internal/ovn/ovndb.TestManyRouters
		internal/ovn/topology.TestParseDNSServers internal/ovn/topology.FuzzParseDNSServers`,
	"neighbour-discovery": "TestAnswersOnLink TestMetadataOVN TestMetadataNeutron ofpunt/frame.FuzzNeighbor",

	// Floods.
	"packet-in-queue": "TestNeighbourFloods TestRate TestRateDefault",
	"limit-chosen": `TestLimits TestLimitOfConnections ofpunt/punt.TestAdmissionByLimit ofpunt/tcp.TestLimitByOwner
		ofpunt/config.TestParseLimitRefuses`,
	// make bench has the latency beside a flood too.
	"processor-flood":  "deploy.TestUnitPrivileges cmd/puntdns.TestTimeSlice",
	"dead-upstream":    `TestNeighbourAsksTheDead TestNeighboursFillTheirShare TestAnswersForward ofpunt/punt.TestAdmission`,
	"forward-to-guest": "TestForwardToGuest ofpunt/punt.TestSameInFlight",
	"chain-waits": `internal/ovn.TestFound TestNeighbourWaitsForKnownName ofpunt/chain.TestAnswersFromMemory
		ofpunt/chain.TestChainLeavesReader ofpunt/punt.TestChainLeavesReader ofpunt/punt.TestReaderIsRelieved ofpunt/openflow.TestTasks`,
	"tcp-flood": `TestTCP TestTCPHostile ofpunt/tcp.TestLimitOfOwner ofpunt/tcp.TestLimitOfNetwork
		ofpunt/tcp.TestEndedMakeRoom ofpunt/tcp.TestNothingIsLeft ofpunt/tcp.TestSlowReader
		ofpunt/tcp.TestHeldIsBounded ofpunt/tcp.TestSmallMSS ofpunt/tcp.TestLightEnds
		ofpunt/tcp.TestNoMemoryToHandOver ofpunt/tcp.TestHandedOverTooLate ofpunt/tcp.TestHandedOverToNobody
		ofpunt/tcp.TestLightEndedMakeRoom ofpunt/tcp.FuzzDeliver ofpunt/tcp/light.FuzzReceive
		ofpunt/openflow.TestWriteThatMayBeLost`,
	"memory": `TestNeighbourAsksTheDead TestWireService TestWireHijack ofpunt/punt.TestQueriesOfConnection
		ofpunt/punt.TestFirst ofpunt/punt.TestFirstIsNotKept ofpunt/tcp.TestReserve`,

	// The lease.
	"probe-forged":  "TestHostileProbe ofpunt/placement.TestFlowsInOVN ofpunt/flows.TestProbeToken",
	"process-stops": "TestPipelineLease TestFailOpenStopped TestFailOpenStuck",
	"unfiltered":    "TestFailClosed ofpunt/flows.TestScripts ofpunt/punt.TestOverloadInHijackMode",
	"flows-deleted": "TestFlowsAreMended TestFailOpenBridge TestRate",

	// Bytes.
	"malformed-frames": `TestWireService TestWireHijack ofpunt/frame.FuzzAnnouncement ofpunt/frame.FuzzUDP ofpunt/frame.FuzzTCP
		ofpunt/frame.FuzzNeighbor ofpunt/frame.FuzzProbe`,
	"malformed-dns":  "TestQuestions ofpunt/punt.FuzzQuery ofpunt/punt.FuzzAppendError plugin/ovnhosts.FuzzServeDNS",
	"tcp-stream-cut": "ofpunt/punt.TestReadLong ofpunt/punt.FuzzFraming",
	"malformed-openflow-ovsdb": `TestDatabaseMisbehaves ofpunt/openflow.FuzzPacketIn ofpunt/openflow.FuzzMatch
		ofpunt/openflow.FuzzFlowUpdate ofpunt/openflow.FuzzFlowStats ofpunt/openflow.FuzzMeters
		ofpunt/openflow.FuzzError ofpunt/openflow.FuzzMessage ofpunt/openflow.FuzzLoaded
		internal/ovsdb.FuzzMessage internal/ovsdb.FuzzTokens internal/ovsdb.FuzzSchema
		internal/ovsdb.FuzzServerError internal/ovsdb.FuzzServerRow internal/ovsdb.FuzzDecodeRow`,
	"dhcp-options-in-commands": "internal/puntctl.FuzzSetRoute",
	"bad-values": `TestDatabaseGarbage internal/ovn/ovndb.TestBadValuesAreBounded internal/ovn.FuzzParseForwards
		internal/ovn/topology.FuzzParseHostname internal/ovn/ovndb.FuzzRows internal/ovn/topology.FuzzParseDNSServers
		internal/ovn/topology.FuzzParsePortAddresses internal/ovn/topology.FuzzParseDomainName`,

	// The process.
	"control-socket-user": "TestControl",
	"control-socket-load": `TestControl internal/control.TestManyConnections internal/control.TestGarbage
		internal/control.TestSlowClients`,
	"process-taken-over": `deploy.TestUnit deploy.TestSockets deploy.TestRevoke internal/endpoint.TestEnsureAccess
		internal/vswitch.TestReplica TestImage`,
	"escaped-text": `internal/escape.TestValue internal/escape.FuzzEscape ofpunt/chain.TestLabelValues
		ofpunt/metric.TestNetworkNames internal/puntctl.TestHostileNames plugin/audit.TestHostileText`,
	"endpoints-impersonated": "TestTLSDatabase TestTLSSwitch",
}

// Each threat of the page has a row of tests, and each row has a threat and tests that there are.
func TestThreatModelHasTests(t *testing.T) {
	const page, table = "docs/security.md", "threatTests in test/docs/threats_test.go"
	threats := map[string]bool{}
	key := regexp.MustCompile("^\\| `([a-z0-9-]+)` \\|")
	keyed := false // the last lines are a table whose rows have keys
	for line := range strings.Lines(readFile(t, page)) {
		m := key.FindStringSubmatch(line)
		switch {
		case m != nil:
			keyed = true
			if threats[m[1]] {
				t.Errorf("%s has two threats with the key %s", page, m[1])
			}
			threats[m[1]] = true
			if threatTests[m[1]] == "" {
				t.Errorf("%s: the threat %s has no tests; add a row %q: \"TestName FOLDER.TestName\" to %s", page, m[1], m[1], table)
			}
		case !strings.HasPrefix(line, "|"):
			keyed = false
		case keyed && !strings.HasPrefix(line, "| | **"):
			t.Errorf("%s: this row has no key in its first cell, as | `some-key` |, or is no heading, as | | **Heading** |:\n%s", page, line)
		}
	}
	there := functions(t)
	for key, names := range threatTests {
		if !threats[key] {
			t.Errorf("%s: no threat has the key %s; its row in %s goes, or gets the new key", page, key, table)
		}
		for _, name := range strings.Fields(names) {
			if !strings.Contains(name, ".") {
				name = "test." + name
			}
			if !there[name] {
				t.Errorf("%s: there is no %s; %s", key, name, table)
			}
		}
	}
}
