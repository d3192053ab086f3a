// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// Peers.
const (
	pPuntdns   = "puntdns"
	pMetadata  = "puntdns with metadata"
	pCeiling   = "ceiling"
	pNative    = "OVN's own DNS"
	pStock     = "CoreDNS on a socket"
	pBlocking  = "blocking forwarder"
	pQuiet     = "alone"
	pLimited   = "beside a flood, rate 1000"
	pUnlimited = "beside a flood, rate off"

	pSocketQuiet = "a server in a guest, alone"
	pSocketFlood = "a server in a guest, beside the flood, rate 1000"
	pNativeQuiet = "OVN's own DNS, alone"
	pNativeFlood = "OVN's own DNS, beside the flood"

	pNeutron  = "Neutron's forwarder"
	pDnsmasq  = "dnsmasq in a guest"
	pResolved = "systemd-resolved in the guest"

	pNextSoon = "puntdns, options of forward"
	pHedge    = "puntdns, hedge 50ms"

	pRelay    = "CoreDNS, no switch"
	pUpstream = "the upstream itself"

	pBefore = "puntdns before"

	pEgress = "puntdns with egress"

	pUnwatched = "nobody looks on"
	pWatch     = "puntctl watch is open"
	pTop       = "puntctl top is open"
)

// Starts of one node.
const (
	pCold      = "with nothing"
	pWarm      = "with a saved snapshot"
	pWarmChurn = "with a saved snapshot, in churn"
)

// Generators.
const (
	gDnsperf = "dnsperf"
	gOwn     = "own generator"
)

// by is the row of a peer that a generator has asked.
func by(peer, generator string) string { return peer + ", " + generator }

// Measures, each a table of the report.
const (
	tCode         = "code, ns"
	tAllocs       = "code, allocations"
	tLocal        = "local names, queries/s"
	tCPU          = "local names, processor time a query, µs"
	tLocalEqual   = "local names, all of one priority, queries/s"
	tLocalSwitch  = "local names, processor time of ovs-vswitchd a query, µs"
	tLocalLoad    = "local names, processor time of the generator a query, µs"
	tTCPOpen      = "local names over TCP, 8 connections kept open, queries/s"
	tTCPOpenCPU   = "local names over TCP, 8 connections kept open, processor time a query, µs"
	tTCPNew       = "local names over TCP, a connection a query, queries/s"
	tTCPNewCPU    = "local names over TCP, a connection a query, processor time a query, µs"
	tMedian       = "latency at 2,000 queries/s, median µs"
	tP99          = "latency at 2,000 queries/s, p99 µs"
	tForward50    = "outside names, 50 outstanding, queries/s"
	tForward500   = "outside names, 500 outstanding, queries/s"
	tCached       = "outside names from a cache, queries/s"
	tSteady       = "outside names, 50 a second, median ms"
	tSteady99     = "outside names, 50 a second, p99 ms"
	tDead         = "outside names, 20 a second, the first of two upstreams is silent, median ms"
	tDead99       = "outside names, 20 a second, the first of two upstreams is silent, p99 ms"
	tDeadLost     = "outside names, 20 a second, the first of two upstreams is silent, % lost"
	tTwo50        = "outside names, two upstreams, 50 outstanding, queries/s"
	tDying        = "outside names, 200 a second, the first of two upstreams falls silent, % over 100 ms"
	tDyingMedian  = "outside names, 200 a second, the first of two upstreams falls silent, median ms"
	tDying99      = "outside names, 200 a second, the first of two upstreams falls silent, p99 ms"
	tDyingSecond  = "outside names, 200 a second, two upstreams that answer, % that the second is asked"
	tVictim       = "a guest that asks 100 a second, median µs"
	tVictim99     = "a guest that asks 100 a second, p99 µs"
	tVictimLost   = "a guest that asks 100 a second, % lost"
	tFlood        = "the flood beside it, queries/s"
	tChange       = "a commit in Northbound is in the answers, ms"
	tChangesOwn   = "200 records a second change in the guests' network, ms of processor time a second"
	tChangesOther = "200 records a second change in another network, ms of processor time a second"
	tGuestsRSS    = "resident memory with so many guests on the node, MB"
	tConnections  = "resident memory with TCP connections that are open, MB"
	tBeat         = "the switch: a beat of the lease, ms of processor time"
	tIdle         = "the switch: by itself, ms of processor time a second"
	tSync         = "first sync, s"
	tRSS          = "resident memory after the sync, MB"
	tHWM          = "highest resident memory, MB"
	tHeap         = "live heap, everything, MB"
	tChanged      = "one record changed, median ms"
	tChangedMost  = "one record changed, worst ms"
	tRebuild      = "rebuild after one record, ms"
	tWorstQuiet   = "worst lookup, quiet, ms"
	tWorstBusy    = "worst lookup while records change, ms"
	tLost         = "lookups lost while records change"
	tLocalStart   = "start of a node with 20 ports, s"
	tLocalMB      = "live heap, a node with 20 ports, MB"
	tLocalHeap    = "live heap, a node with 20 ports, % of everything"
	tNewGuest     = "a new guest's network is known, ms"

	// Of the suite egress.
	eCached      = "egress: cached answers"
	eNewOne      = "egress: a new address in each answer, 1 guest"
	eNewAll      = "egress: a new address in each answer, 8 guests"
	eMany        = "egress: a new address in each answer, 1 guest, by openings in the switch"
	eSwitchCPU   = ", processor time of ovs-vswitchd a query, µs"
	eMedian      = ", median µs"
	eP99         = ", p99 µs"
	eConnections = "egress: resolved and connected at once, connections"
	eAgain       = "egress: resolved and connected at once, connections whose SYN was sent again"
	eFailed      = "egress: resolved and connected at once, failures"
	eServes      = "egress: a start of puntdns, ms until a guest has an answer"
	eHWM         = "egress: highest resident memory of a start, MB"
	eGapOpen     = "egress: a daemon is killed and starts again, ms without a connection to an open address"
	eGapNew      = "egress: a daemon is killed and starts again, ms without an answer and a connection to its address"
	ePolicy      = "a guest with a policy"
	eNoPolicy    = "a guest without a policy, with ACLs"
	eClosed      = "closed guests"
	eOpen        = "a guest without policy and ACLs"
	eBesideFlood = ", beside a flood of refused packets"
	eNoOpenings  = "no openings"

	tWatchLoad = "50,000 queries/s are asked while somebody looks on, queries/s"
	tWatch     = "local names while somebody looks on, queries/s"
	tWatchCPU  = "local names while somebody looks on, processor time of puntdns a query, µs"
	tWatchLost = "local names while somebody looks on, % that the ring had no room for"

	tCloudCPU        = "Southbound in churn: processor time of the server for a second of it, ms"
	tCloudIdle       = "Southbound, nothing changes: processor time of the server, ms a second"
	tCloudRatio      = "Southbound in churn: processor time of the server, to ovn-controller alone"
	tCloudRatioLess  = "Southbound in churn: processor time of the server less that with nobody, to ovn-controller alone"
	tCloudRate       = "Southbound in churn: changes a second that the server took, of 100"
	tCloudFirst      = "Southbound: processor time of the server for a transaction after its start, ms"
	tCloudChanges    = "Southbound in churn: changes of conditions a second"
	tCloudProbe      = "Southbound in churn: the server answers an echo, worst ms"
	tCloudNodeCPU    = "Southbound in churn: processor time of a node, ms a second"
	tCloudBytes      = "Southbound in churn: to a node, bytes a second"
	tCloudRecord     = "Southbound in churn: a commit of a record is in the answers, median ms"
	tCloudRecord99   = "Southbound in churn: a commit of a record is in the answers, p99 ms"
	tCloudGuest      = "Southbound in churn: a new guest is known on its node, median ms"
	tCloudGuest99    = "Southbound in churn: a new guest is known on its node, p99 ms"
	tCloudRequest    = "Southbound: processor time of the server for one request of a node, ms"
	tCloudRSS        = "Southbound: resident memory of the server, MB"
	tCloudRSSEach    = "Southbound: resident memory of the server for each client, KB"
	tCloudStart      = "Southbound, clients start at once: the last is in sync, s"
	tCloudStartCPU   = "Southbound, clients start at once: processor time of the server for each, ms"
	tCloudStartProbe = "Southbound, clients start at once: the server answers an echo, worst ms"
	tCloudStartKB    = "Southbound, clients start at once: to each, KB"
	tCloudNodeMB     = "Southbound: resident memory of a simulated node, MB"
	tCloudOneAnswer  = "one node starts among others: it answers for all guests, ms"
	tCloudOneSync    = "one node starts among others: in sync, ms"
	tCloudOneKB      = "one node starts among others: sent to it, KB"
	tCloudOneCPU     = "one node starts among others: processor time of the server, ms"
	tCloudMove       = "live migrations at once: the guest is known at its destination, median ms"
	tCloudMove99     = "live migrations at once: the guest is known at its destination, p99 ms"
	tCloudMoveCPU    = "live migrations at once: processor time of the server for each, ms"
	tCloudMoveProbe  = "live migrations at once: the server answers an echo, worst ms"
	tCloudBack       = "all cut off at once: back in sync, median s"
	tCloudBackLast   = "all cut off at once: back in sync, the last, s"
	tCloudBackCPU    = "all cut off at once: processor time of the server for each, ms"
	tCloudBackKB     = "all cut off at once: to each, KB"
	tCloudBackProbe  = "all cut off at once: the server answers an echo, worst ms"
	tCloudKept       = "all cut off at once: nodes that kept all guests meanwhile, %"

	// Of the suite before, each what is asked and a measure.
	besideAnother = "beside another version: "
	bLocal        = besideAnother + "local names"
	bCached       = besideAnother + "outside names from cache"
	bMetadata     = " with metadata"
	bTCPOpen      = bLocal + " over TCP, 8 connections kept open"
	bTCPNew       = bLocal + " over TCP, a connection a query"
	bHijack       = besideAnother + "hijack mode, resumed"
	bMillion      = besideAnother + "among 1,000,000 names"
	bRate         = ", queries/s"
	bCPU          = ", processor time a query, µs"
	bMedian       = ", median µs at 2,000 queries/s"
	bP99          = ", p99 µs at 2,000 queries/s"
	bMedianAlone  = ", median µs one after the other"
	bP99Alone     = ", p99 µs one after the other"
	bSync         = ", first sync, s"
	bRSS          = ", resident memory after the sync, MB"
	bChanged      = ", one record changed, median ms"
)

// Tables of loads of outside names.
var (
	forward50     = forwardTables(tForward50)
	forward500    = forwardTables(tForward500)
	forwardCached = forwardTables(tCached)
	forwardTwo    = forwardTables(tTwo50)
)

func forwardTables(rate string) loadTables {
	what := strings.TrimSuffix(rate, "queries/s")
	return loadTables{rate, what + "processor time a query, µs", what + "processor time of ovs-vswitchd a query, µs", what + "processor time of the generator a query, µs"}
}
