// SPDX-License-Identifier: Apache-2.0

// Package metric has the metrics of the plugin ofpunt, and the values of their labels result
// and reason: what becomes of a packet-in, and why. README.md documents them. It counts nothing
// by itself, and has no goroutine.
package metric

import (
	"sync/atomic"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const subsystem = "ofpunt"

// The metrics. Help says what each counts.
var (
	PacketIns = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "packet_ins_total",
		Help: "Packet-ins by what became of them: answered, resumed, refused, dropped or taken, and why.",
	}, []string{"bridge", "result", "reason"})
	AnswerDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "answer_duration_seconds",
		Help:    "Time from a packet-in to its answer or resume.",
		Buckets: append([]float64{.00005, .0001}, plugin.TimeBuckets...),
	}, []string{"server", "view"})
	InFlight = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "in_flight",
		Help: "Queries in a plugin chain.",
	}, []string{"bridge"})
	Flows = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "flows",
		Help: "Flows of this process that are installed in the switch.",
	}, []string{"bridge"})
	Guests = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "guests",
		Help: "Guests whose queries are punted.",
	}, []string{"bridge"})
	Unserved = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "interfaces_unserved",
		Help: "Interfaces of the bridge with the name of a logical port that is no guest of this chassis; the log says why.",
	}, []string{"bridge"})
	WithoutAddress = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "guests_without_address",
		Help: "Guests that have no resolver address, as none is configured and their network has none; the log names the networks.",
	}, []string{"bridge"})
	Kept = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "guests_kept",
		Help: "Guests whose binding has vanished and that are served for the grace, as their interfaces are still there.",
	}, []string{"bridge"})
	FlowInstalls = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "flow_installs_total",
		Help: "Flows installed: new ones, and lost ones put back.",
	}, []string{"bridge", "reason"})
	RateDrops = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "rate_drops_total",
		Help: "Packets of guests that the switch dropped by rate, as of the last beat of the lease.",
	}, []string{"bridge"})
	LimitRefused = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "limit_refused_total",
		Help: "What guests were refused by a limit of their own, by the property of it: packets over rate, queries over max_concurrent, SYNs over tcp_connections.",
	}, []string{"bridge", "limit", "property"})
	Connected = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "connected",
		Help: "1 while the OpenFlow connection to the bridge is up, else 0.",
	}, []string{"bridge"})
	LocalDatabaseUp = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "local_database_up",
		Help: "1 while the local Open_vSwitch database is connected and read, else 0.",
	}, []string{"bridge"})
	TCPQueries = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "tcp_queries_total",
		Help: "Queries over TCP by what became of them: answered, refused or dropped, and why.",
	}, []string{"bridge", "result", "reason"})
	TCPSegmentsLost = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "tcp_segments_lost_total",
		Help: "TCP segments to guests that found no room in the queue to the switch; those with data are sent again.",
	}, []string{"bridge"})
	TCPConnections = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "tcp_connections",
		Help: "TCP connections with guests, those that begin or end included.",
	}, []string{"bridge"})
	SwitchErrors = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "switch_errors_total",
		Help: "OpenFlow errors of the switch about packet-outs, resumes and renewals, by name.",
	}, []string{"bridge", "error"})
	CacheUnstored = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "cache_unstored_total",
		Help: "Answers that the plugin cache was not to store, and why: asker, lookup or share.",
	}, []string{"server", "view", "reason"})
	LeaseExpiries = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "lease_expiries_total",
		Help: "How often the punt has expired in the switch, as it was not renewed in time.",
	}, []string{"bridge"})
	LeaseRenewed = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "lease_renewed_timestamp_seconds",
		Help: "When the lease of the punt was last renewed, in Unix time; with lease 0, when a probe last came back.",
	}, []string{"bridge"})
	ProbeDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: subsystem, Name: "probe_duration_seconds",
		Help:    "Time that a probe takes through the switch and a worker back to its sender.",
		Buckets: plugin.TimeBuckets,
	}, []string{"bridge"})
)

// DescReady is of a metric that is computed at each scrape.
var DescReady = desc("ready", "1 while the guests of the bridge are served and the databases are in sync, else 0; the plugin ready says why.", "bridge")

func desc(metric, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, subsystem, metric), help, labels, nil)
}

// Values of the label property: those of a limit, as in a Corefile.
const (
	PropertyRate        = "rate"
	PropertyConcurrent  = "max_concurrent"
	PropertyConnections = "tcp_connections"
	// PropertyOverload is for what is refused though the guest is within its own limits: all
	// guests, or those of its network, are over max_concurrent.
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
