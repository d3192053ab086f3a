// SPDX-License-Identifier: Apache-2.0

// Package metric has the metrics of the plugin ofpunt, and the values of their labels result
// and reason: what becomes of a packet-in, and why. README.md documents them. It counts nothing
// by itself, and has no goroutine.
package metric

import (
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/metricset"
)

var series = metricset.New("ofpunt")

// The metrics. Help says what each counts.
var (
	PacketIns = series.Counter("packet_ins_total",
		"Packet-ins by what became of them: answered, resumed, refused, dropped or taken, and why.", "bridge", "result", "reason")
	AnswerDuration = series.Histogram("answer_duration_seconds",
		"Time from a packet-in to its answer or resume.",
		append([]float64{.00005, .0001}, plugin.TimeBuckets...), "server", "view")
	InFlight = series.Gauge("in_flight",
		"Queries in a plugin chain.", "bridge")
	Flows = series.Gauge("flows",
		"Flows of this process that are installed in the switch.", "bridge")
	Guests = series.Gauge("guests",
		"Guests whose queries are punted.", "bridge")
	Unserved = series.Gauge("interfaces_unserved",
		"Interfaces of the bridge with the name of a logical port that is no guest of this chassis; the log says why.", "bridge")
	WithoutAddress = series.Gauge("guests_without_address",
		"Guests that have no resolver address, as none is configured and their network has none; the log names the networks.", "bridge")
	Retained = series.Gauge("guests_kept",
		"Guests whose binding has vanished and that are served for the grace, as their interfaces are still there.", "bridge")
	OpenDestinations = series.Gauge("open_destinations",
		"Destinations that answers have opened for guests with an egress policy.", "bridge")
	EgressOpen = series.Gauge("guests_unenforced",
		"Guests that have an egress policy and may send to any address, as no ACL closes them.", "bridge")
	FlowInstalls = series.Counter("flow_installs_total",
		"Flows installed: new ones, and lost ones put back.", "bridge", "reason")
	RateDrops = series.Counter("rate_drops_total",
		"Packets of guests that the switch dropped by rate, as of the last heartbeat.", "bridge")
	LimitRefused = series.Counter("limit_refused_total",
		"What guests were refused by a limit of their own, by the property of it: packets over rate, queries over max_concurrent, SYNs over tcp_connections.", "bridge", "limit", "property")
	Announcements = series.Counter("announcements_total",
		"Announcements of the MAC address of the resolver addresses that were sent to physical networks of external ports.", "bridge")
	Connected = series.Gauge("connected",
		"1 while the OpenFlow connection to the bridge is up, else 0.", "bridge")
	LocalDatabaseUp = series.Gauge("local_database_up",
		"1 while the local Open_vSwitch database is connected and read, else 0.", "bridge")
	TCPQueries = series.Counter("tcp_queries_total",
		"Queries over TCP by what became of them: answered, refused or dropped, and why.", "bridge", "result", "reason")
	TCPSegmentsLost = series.Counter("tcp_segments_lost_total",
		"TCP segments to guests that found no room in the queue to the switch; those with data are sent again.", "bridge")
	TCPConnections = series.Gauge("tcp_connections",
		"TCP connections with guests, those that begin or end included.", "bridge")
	SwitchErrors = series.Counter("switch_errors_total",
		"OpenFlow errors of the switch about packet-outs, resumes and renewals, by name.", "bridge", "error")
	CacheUnstored = series.QueryCounter("cache_unstored_total",
		"Answers that the plugin cache was not to store, and why: asker, lookup or share.", "reason")
	HedgedQueries = series.Counter("hedged_queries_total",
		"Queries for which a second server of forward was asked, by the server whose answer the guest has got.", "answer")
	LeaseExpiries = series.Counter("lease_expiries_total",
		"How often the punt has expired in the switch, as it was not renewed in time.", "bridge")
	LeaseRenewed = series.Gauge("lease_renewed_timestamp_seconds",
		"When the lease of the punt was last renewed, in Unix time; with lease 0, when a probe last came back.", "bridge")
	ProbeDuration = series.Histogram("probe_duration_seconds",
		"Time that a probe takes through the switch and a worker back to its sender.",
		plugin.TimeBuckets, "bridge")
)

// Bridges are the metrics of bridges that the plugin reads at each scrape.
var (
	Bridges = metricset.New("ofpunt")

	Ready   = Bridges.ScrapedGauge("ready", "1 while the guests of the bridge are served and the databases are in sync, else 0; the plugin ready says why.", "bridge")
	Stalled = Bridges.ScrapedGauge("switch_stalled", "1 while the switch does nothing because the local ovsdb-server is away, else 0.", "bridge")
)

// Values of the label property: the property of a limit, as in a Corefile.
const (
	PropertyRate        = "rate"
	PropertyConcurrent  = "max_concurrent"
	PropertyConnections = "tcp_connections"
	// PropertyOverload is for queries that are refused though the guest is within its limits: all guests, or
	// the guests of its network, are over max_concurrent.
	PropertyOverload = "overload"
)

// Values of the label result: what becomes of a packet-in.
const (
	Answered = "answered"
	Resumed  = "resumed"
	Refused  = "refused" // answered with an error before any chain saw it
	Dropped  = "dropped"
	Taken    = "taken" // a segment of a TCP connection
)

// Values of the label reason: why that becomes of it. Further ones are frame.Refusal.
const (
	ReasonChain        = "chain"         // the plugins answered, or passed it through
	ReasonWhy          = "why"           // what a guest has asked of its own queries, by the property why
	ReasonNoBlock      = "no-block"      // no block takes the name or the asker: REFUSED, or resumed in hijack mode
	ReasonDeadline     = "deadline"      // no answer in time: SERVFAIL
	ReasonOverload     = "overload"      // over max_concurrent
	ReasonPortLimit    = "port-limit"    // over max_concurrent of one guest
	ReasonLimit        = "limit"         // over max_concurrent of a limit, by all guests that it is for
	ReasonOrigin       = "origin"        // from a port that the snapshot does not know
	ReasonResponse     = "response"      // QR is set
	ReasonShort        = "short"         // less than a DNS header
	ReasonMalformed    = "malformed"     // FORMERR
	ReasonForeignQuery = "class"         // class ANY or NONE; in hijack mode any but IN, and unknown EDNS versions
	ReasonOpcode       = "opcode"        // NOTIMP
	ReasonType         = "type"          // a question for a type that no data has
	ReasonTransfer     = "transfer"      // AXFR or IXFR: REFUSED
	ReasonLoop         = "loop"          // forward would ask the guest what it asks
	ReasonUnpackable   = "unpackable"    // the plugins' answer is no DNS message: SERVFAIL
	ReasonUnanswered   = "unanswered"    // the chain ended without an answer, as with drop of acl, and of rpz
	ReasonAddress      = "address"       // to an address that is none of the guest's resolver addresses, any more perhaps
	ReasonForeign      = "foreign"       // a packet-in that no flow of ours caused
	ReasonUndecodable  = "undecodable"   // a packet-in that breaks the protocol
	ReasonConnection   = "connection"    // the connection or its queue was gone
	ReasonPort         = "port"          // of a guest that has left its OpenFlow port
	ReasonPanic        = "panic"         // a bug: the log has it
	ReasonSegment      = "segment"       // of TCP
	ReasonNoConnection = "no-connection" // of TCP, and of none that is known: reset
	ReasonConnections  = "connections"   // a connection too many of a guest or its network: reset, or dropped if the guest may find room when it tries again
	ReasonNeighbor     = "neighbor"      // ARP or neighbour solicitation, answered
)

// Tally counts for one bridge. It has the counters that every query needs ready, since a look-up
// by labels takes a lock. It is safe for concurrent use.
type Tally struct {
	bridge                   string
	answered, resumed        prometheus.Counter // with ReasonChain
	taken, answeredOverTCP   prometheus.Counter // with ReasonSegment, and with ReasonChain
	inFlight, tcpConnections prometheus.Gauge
	segmentsLost             prometheus.Counter
	networks                 atomic.Pointer[networks] // nil unless it counts by network
}

// watched are the packet-ins that alerts are about. Their counters are there from the start:
// increase and rate of PromQL do not see the first of a counter that begins at 1.
var watched = []struct{ result, reason string }{
	{Answered, ReasonDeadline},
	{Refused, ReasonOverload},
	{Refused, ReasonPortLimit},
	{Refused, ReasonLimit},
	{Refused, ReasonConnections},
	{Dropped, ReasonOverload},
	{Dropped, ReasonPortLimit},
	{Dropped, ReasonLimit},
	{Dropped, ReasonConnections},
	{Dropped, ReasonConnection},
	{Dropped, ReasonForeign},
	{Dropped, ReasonUndecodable},
	{Dropped, ReasonPanic},
}

// NewTally returns the tally of a bridge.
func NewTally(bridge string) *Tally {
	for _, w := range watched {
		PacketIns.WithLabelValues(bridge, w.result, w.reason)
	}
	FlowInstalls.WithLabelValues(bridge, "lost")
	RateDrops.WithLabelValues(bridge)
	LeaseExpiries.WithLabelValues(bridge)
	return &Tally{
		bridge:         bridge,
		answered:       PacketIns.WithLabelValues(bridge, Answered, ReasonChain),
		resumed:        PacketIns.WithLabelValues(bridge, Resumed, ReasonChain),
		taken:          PacketIns.WithLabelValues(bridge, Taken, ReasonSegment),
		inFlight:       InFlight.WithLabelValues(bridge),
		tcpConnections: TCPConnections.WithLabelValues(bridge),
		segmentsLost:   TCPSegmentsLost.WithLabelValues(bridge),

		answeredOverTCP: TCPQueries.WithLabelValues(bridge, Answered, ReasonChain),
	}
}

// PacketIn counts a packet-in. A nil Tally counts nothing, as for TCPQuery.
func (t *Tally) PacketIn(result, reason string) {
	switch {
	case t == nil:
	case reason == ReasonChain && result == Answered:
		t.answered.Inc()
	case reason == ReasonChain && result == Resumed:
		t.resumed.Inc()
	case reason == ReasonSegment && result == Taken:
		t.taken.Inc()
	default:
		PacketIns.WithLabelValues(t.bridge, result, reason).Inc()
	}
}

// TCPQuery counts a query over TCP.
func (t *Tally) TCPQuery(result, reason string) {
	switch {
	case t == nil:
		return
	case reason == ReasonChain && result == Answered:
		t.answeredOverTCP.Inc()
		return
	}
	TCPQueries.WithLabelValues(t.bridge, result, reason).Inc()
}

// LimitRefused counts what a limit has refused, by its property.
func (t *Tally) LimitRefused(limit, property string) {
	LimitRefused.WithLabelValues(t.bridge, limit, property).Inc()
}

// InFlight sets how many queries are in a plugin chain.
func (t *Tally) InFlight(n int64) { t.inFlight.Set(float64(n)) }

// TCPConnections sets how many connections there are.
func (t *Tally) TCPConnections(n int) { t.tcpConnections.Set(float64(n)) }

// TCPSegmentLost counts a segment that found no room in the queue to the switch.
func (t *Tally) TCPSegmentLost() { t.segmentsLost.Inc() }
