// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// The streams have one JSON value a line. They end with the client, the request, or the socket. A line of
// type [Error] ends one early.
const (
	// PathWatch answers with a [WatchLine] for each query. Its parameters beside the filters below:
	//
	//	rate    queries a second at most, 1 to MaxWatchRate
	//	count   ends after this number of queries, 0 for never
	//	last    begins with this number of stored queries
	//	since   begins with stored queries of this age, in whole seconds
	//	follow  false ends after the stored queries
	PathWatch = "/v1/watch"
	// PathTop answers with a [Top] for each interval. Its parameters beside the filters below:
	//
	//	interval  1 to 60 seconds
	//	count     ends after this number of intervals, 0 for never
	//	limit     entries of a table at most, 1 to MaxTopLimit
	//	by        tables, by default all
	PathTop = "/v1/top"
)

// The filters may be repeated: a query has to match one value of each.
const (
	FilterPort   = "port"
	FilterSwitch = "switch"
	// FilterName is a domain name, or *.NAME for all names below it.
	FilterName = "name"
	// FilterType is as AAAA or TYPE65. FilterRcode is a name or number, RESUMED or DROPPED.
	FilterType  = "type"
	FilterRcode = "rcode"
	// FilterBlock is a zone of a block, its line (Corefile:7), or its name.
	FilterBlock = "server-block"
)

// Limits of the parameters, and their defaults.
const (
	DefaultWatchRate   = 1000
	WatchHistory       = 1024 // queries that a process stores
	MaxWatchRate       = 10000
	DefaultTopInterval = 2  // seconds
	MaxTopInterval     = 60 // seconds
	DefaultTopLimit    = 20
	MaxTopLimit        = 200
)

// The kinds of lines.
const (
	EventQuery  = "query"
	EventMissed = "missed"
	// EventHistory comes first with last or since, with the time of the oldest stored query, or now without
	// one.
	EventHistory = "history"
	EventEnd     = "end"
)

// WatchLine is a query, a count of missed queries, or the end.
type WatchLine struct {
	Event string `json:"event"`
	// Time is when the query arrived, or the count was made.
	Time time.Time `json:"time"`

	// Seconds is the time to the answer, resume or drop.
	Seconds float64 `json:"duration_seconds,omitempty"`
	Bridge  string  `json:"bridge,omitempty"`
	Port    string  `json:"port,omitempty"`
	Switch  string  `json:"switch,omitempty"`
	Network string  `json:"network,omitempty"`
	// Labels are of external_ids and routers that the block names.
	Labels map[string]string `json:"labels,omitempty"`
	// Transport is udp or tcp.
	Client    string `json:"client,omitempty"`
	Server    string `json:"server,omitempty"`
	Transport string `json:"transport,omitempty"`
	Block     string `json:"server_block,omitempty"`
	// Class is empty for IN.
	Name  string `json:"name,omitempty"`
	Type  string `json:"type,omitempty"`
	Class string `json:"class,omitempty"`
	// Rcode may be RESUMED (to the guest's server) or DROPPED. Result and Reason are labels of
	// coredns_ofpunt_packet_ins_total.
	Rcode  string `json:"rcode,omitempty"`
	Result string `json:"result,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Upstream was asked last by *forward* or *ovnforward*.
	Upstream string `json:"upstream,omitempty"`

	// OverRate are over the rate, Lost for a client that reads too slowly: since the last count, at the end
	// in all.
	OverRate uint64 `json:"over_rate,omitempty"`
	Lost     uint64 `json:"lost,omitempty"`
	Shown    uint64 `json:"shown,omitempty"`
}
