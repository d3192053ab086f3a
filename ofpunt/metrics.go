// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	punts = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "packet_ins_total",
		Help: "Packet-ins by what became of them: answered, resumed, refused, dropped or taken, and why.",
	}, []string{"bridge", "result", "reason"})
	answerDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "answer_duration_seconds",
		Help:    "Time from a packet-in to its answer or resume.",
		Buckets: append([]float64{.00005, .0001}, plugin.TimeBuckets...),
	}, []string{"server", "view"})
	inFlight = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "in_flight",
		Help: "Queries in a plugin chain.",
	}, []string{"bridge"})
	flowsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "flows",
		Help: "Flows of this process that stand in the switch.",
	}, []string{"bridge"})
	flowInstalls = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "flow_installs_total",
		Help: "Flows installed: new ones, and lost ones put back.",
	}, []string{"bridge", "reason"})
	rateDrops = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "rate_drops_total",
		Help: "Packets of guests that the switch dropped by rate, as of the last beat of the lease.",
	}, []string{"bridge"})
	connected = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "connected",
		Help: "1 while the OpenFlow connection to the bridge is up, else 0.",
	}, []string{"bridge"})
	localUp = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "local_database_up",
		Help: "1 while the local Open_vSwitch database is connected and read, else 0.",
	}, []string{"bridge"})
	streamQueries = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "tcp_queries_total",
		Help: "Queries over TCP by what became of them: answered, refused or dropped, and why.",
	}, []string{"bridge", "result", "reason"})
	segmentsLost = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "tcp_segments_lost_total",
		Help: "TCP segments to guests that found no room on the way to the switch; they are sent again.",
	}, []string{"bridge"})
	connections = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "tcp_connections",
		Help: "TCP connections with guests, those that begin or end included.",
	}, []string{"bridge"})
	switchErrors = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "switch_errors_total",
		Help: "OpenFlow errors of the switch about packet-outs, resumes and renewals, by name.",
	}, []string{"bridge", "error"})
	probeDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: name, Name: "probe_duration_seconds",
		Help:    "Time that a probe takes through the switch and a worker back to its sender.",
		Buckets: plugin.TimeBuckets,
	}, []string{"bridge"})
)

// What becomes of a packet-in. Each has the reasons below, refusals of the frame
// package too.
const (
	answered = "answered"
	resumed  = "resumed"
	refused  = "refused" // answered with an error before any chain saw it
	dropped  = "dropped"
	taken    = "taken" // a segment of a TCP connection
)

const (
	reasonChain        = "chain"         // the plugins answered, or passed it through
	reasonDeadline     = "deadline"      // no answer in time: SERVFAIL
	reasonOverload     = "overload"      // over max_concurrent
	reasonPortLimit    = "port-limit"    // over max_concurrent of one guest
	reasonOrigin       = "origin"        // from a port that the snapshot does not know
	reasonResponse     = "response"      // QR is set
	reasonShort        = "short"         // less than a DNS header
	reasonMalformed    = "malformed"     // FORMERR
	reasonForeignQuery = "class"         // of another class or EDNS version
	reasonOpcode       = "opcode"        // NOTIMP
	reasonUnanswered   = "unanswered"    // the chain ended without a word, as acl drop does
	reasonForeign      = "foreign"       // a packet-in that no flow of ours caused
	reasonUndecodable  = "undecodable"   // a packet-in that breaks the protocol
	reasonConnection   = "connection"    // the connection or its queue was gone
	reasonPort         = "port"          // of a guest that has left its OpenFlow port
	reasonPanic        = "panic"         // a bug: the log has it
	reasonSegment      = "segment"       // of TCP
	reasonNoConnection = "no-connection" // of TCP, and of none that is known: reset
	reasonConnections  = "connections"   // a connection too many of a guest or its network: reset
	reasonNeighbor     = "neighbor"      // ARP or neighbour solicitation, answered
)

// tally counts the packet-ins of a bridge without looking up labels for those
// results that every query has.
type tally struct {
	bridge             string
	answered, passedOn prometheus.Counter
	inFlight           prometheus.Gauge
}

func newTally(bridge string) *tally {
	return &tally{
		bridge:   bridge,
		answered: punts.WithLabelValues(bridge, answered, reasonChain),
		passedOn: punts.WithLabelValues(bridge, resumed, reasonChain),
		inFlight: inFlight.WithLabelValues(bridge),
	}
}

func (t *tally) count(result, reason string) {
	switch {
	case reason != reasonChain:
		punts.WithLabelValues(t.bridge, result, reason).Inc()
	case result == answered:
		t.answered.Inc()
	case result == resumed:
		t.passedOn.Inc()
	default:
		punts.WithLabelValues(t.bridge, result, reason).Inc()
	}
}

// countStream counts what became of a query over TCP.
func (t *tally) countStream(result, reason string) {
	streamQueries.WithLabelValues(t.bridge, result, reason).Inc()
}
