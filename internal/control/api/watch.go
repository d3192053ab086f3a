// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// The streams. Each line of the answer is a value of JSON; the answer lasts until the client goes, what
// was asked for is complete, or the socket is closed. A line of the type [Error] ends it early.
const (
	// PathWatch answers with a [WatchLine] for each query that has been dealt with. Its parameters
	// are the filters below, rate, which is how many queries a second are shown at most, from 1 to
	// [MaxWatchRate], and count, after how many queries it ends (0 for never). With last or since it
	// begins with stored queries: last is their number, and since their age in whole seconds. A follow of
	// false ends it behind these.
	PathWatch = "/v1/watch"
	// PathTop answers with a [Top] at the end of each interval. Its parameters are the filters below,
	// interval in whole seconds, from 1 to 60, count, after how many intervals it ends (0 for
	// never), limit, how many entries each table has at most, from 1 to [MaxTopLimit], and by, the
	// names of tables, for all of them if it is left out.
	PathTop = "/v1/top"
)

// The filters. Each may be given several times: a query has to match one value of each that is given.
const (
	// FilterPort is the name of a logical port, FilterSwitch the name of a logical switch.
	FilterPort   = "port"
	FilterSwitch = "switch"
	// FilterName is a domain name, or *. and one for all names below it.
	FilterName = "name"
	// FilterType is a type such as AAAA or TYPE65, FilterRcode the name or the number of an rcode,
	// RESUMED or DROPPED.
	FilterType  = "type"
	FilterRcode = "rcode"
	// FilterBlock is a server block: one of its zones, its line as Corefile:7, with or without the
	// folder, or its whole name.
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
	// EventHistory is the first line with last or since. Its time is the time of the oldest query that the
	// process stores, whatever the filters, or the present time if it stores none.
	EventHistory = "history"
	EventEnd     = "end"
)

// WatchLine is a query, a count of queries that are not shown, or the end.
type WatchLine struct {
	// Event is one of the kinds above.
	Event string `json:"event"`
	// Time is when the query has come, or when the count was made.
	Time time.Time `json:"time"`

	// What follows is of a query.

	// Seconds is how long it took, up to the answer, the resume or the drop.
	Seconds float64 `json:"duration_seconds,omitempty"`
	Bridge  string  `json:"bridge,omitempty"`
	// Port is the logical port of the guest, left out if that is not known. Switch and Network are
	// the name and the UUID of its network.
	Port    string `json:"port,omitempty"`
	Switch  string `json:"switch,omitempty"`
	Network string `json:"network,omitempty"`
	// Labels are the labels of metadata for external_ids and routers that the block names.
	Labels map[string]string `json:"labels,omitempty"`
	// Client has sent the query, to Server, by Transport, which is udp or tcp.
	Client    string `json:"client,omitempty"`
	Server    string `json:"server,omitempty"`
	Transport string `json:"transport,omitempty"`
	// Block is the server block that has taken the query.
	Block string `json:"server_block,omitempty"`
	// Name, Type and Class are the question. Class is left out if it is IN.
	Name  string `json:"name,omitempty"`
	Type  string `json:"type,omitempty"`
	Class string `json:"class,omitempty"`
	// Rcode is the rcode of the answer, RESUMED for a query that goes on to the server that the guest has
	// asked, or DROPPED. Result and Reason are the values of these labels in coredns_ofpunt_packet_ins_total.
	Rcode  string `json:"rcode,omitempty"`
	Result string `json:"result,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Upstream is the server that *forward* or *ovnforward* has asked last.
	Upstream string `json:"upstream,omitempty"`

	// What follows is of a count and of the end.

	// OverRate is how many queries were over the rate, Lost how many the process had no room for as
	// the client has not read fast enough: since the last count, and of the end in all.
	OverRate uint64 `json:"over_rate,omitempty"`
	Lost     uint64 `json:"lost,omitempty"`
	// Shown is how many queries there were lines for, in all.
	Shown uint64 `json:"shown,omitempty"`
}
