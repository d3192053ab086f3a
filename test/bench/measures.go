// SPDX-License-Identifier: Apache-2.0

package main

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

	pRelay    = "CoreDNS, no switch"
	pUpstream = "the upstream itself"

	pBefore = "puntdns before"

	pUnwatched = "nobody looks on"
	pWatch     = "puntctl watch is open"
	pTop       = "puntctl top is open"
)

// Measures, each a table of the report.
const (
	tCode         = "code, ns"
	tAllocs       = "code, allocations"
	tLocal        = "local names, queries/s"
	tCPU          = "processor time a query, µs"
	tTCPOpen      = "local names over TCP, 8 connections kept open, queries/s"
	tTCPOpenCPU   = "local names over TCP, 8 connections kept open, processor time a query, µs"
	tTCPNew       = "local names over TCP, a connection a query, queries/s"
	tTCPNewCPU    = "local names over TCP, a connection a query, processor time a query, µs"
	tMedian       = "latency at 2,000 queries/s, median µs"
	tP99          = "latency at 2,000 queries/s, p99 µs"
	tForward50    = "outside names, 50 outstanding, queries/s"
	tForward500   = "outside names, 500 outstanding, queries/s"
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

	tWatchLoad = "50,000 queries/s are asked while somebody looks on, queries/s"
	tWatch     = "local names while somebody looks on, queries/s"
	tWatchCPU  = "local names while somebody looks on, processor time of puntdns a query, µs"
	tWatchLost = "local names while somebody looks on, % that the ring had no room for"

	tBeforeLocal             = "beside another version: local names, queries/s"
	tBeforeLocalCPU          = "beside another version: local names, processor time a query, µs"
	tBeforeMetadata          = "beside another version: local names with metadata, queries/s"
	tBeforeMetadataCPU       = "beside another version: local names with metadata, processor time a query, µs"
	tBeforeCached            = "beside another version: outside names from cache, queries/s"
	tBeforeCachedCPU         = "beside another version: outside names from cache, processor time a query, µs"
	tBeforeCachedMetadata    = "beside another version: outside names from cache with metadata, queries/s"
	tBeforeCachedMetadataCPU = "beside another version: outside names from cache with metadata, processor time a query, µs"
)
