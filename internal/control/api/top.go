// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// The tables of a [Top].
const (
	TopGuests    = "guests"
	TopNames     = "names"
	TopNetworks  = "networks"
	TopUpstreams = "upstreams"
)

// TopKinds are all tables.
var TopKinds = []string{TopGuests, TopNames, TopNetworks, TopUpstreams}

// Top is what was asked in one interval.
type Top struct {
	// Time is the end of the interval, Seconds its length.
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
	// All counts all queries.
	All TopEntry `json:"all"`
	// Missed are queries skipped for lack of time, in no other figure.
	Missed    uint64    `json:"missed"`
	Guests    *TopTable `json:"guests,omitempty"`
	Names     *TopTable `json:"names,omitempty"`
	Networks  *TopTable `json:"networks,omitempty"`
	Upstreams *TopTable `json:"upstreams,omitempty"`
}

// Table returns one of the tables, nil if it was not requested.
func (t *Top) Table(kind string) *TopTable {
	switch kind {
	case TopGuests:
		return t.Guests
	case TopNames:
		return t.Names
	case TopNetworks:
		return t.Networks
	case TopUpstreams:
		return t.Upstreams
	}
	return nil
}

// TopTable has the most frequent of one kind.
type TopTable struct {
	// Entries are sorted by Queries, the highest first.
	Entries []TopEntry `json:"entries"`
	// Distinct counts keys; without Exact it is a lower bound.
	Distinct int `json:"distinct"`
	// Exact: each key had a counter. Else a missing key had at most MissingAtMost queries, or as many as the
	// last entry.
	Exact         bool   `json:"exact"`
	MissingAtMost uint64 `json:"missing_at_most,omitempty"`
}

// TopEntry is a guest, name, network or upstream.
type TopEntry struct {
	Bridge   string `json:"bridge,omitempty"`
	Port     string `json:"port,omitempty"`
	Switch   string `json:"switch,omitempty"`
	Network  string `json:"network,omitempty"`
	Name     string `json:"name,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Queries may be too high by up to TooHigh.
	Queries   uint64  `json:"queries"`
	TooHigh   uint64  `json:"too_high_by_at_most,omitempty"`
	PerSecond float64 `json:"per_second"`
	// Outcomes of Queries less TooHigh.
	NoError     uint64 `json:"noerror"`
	NXDomain    uint64 `json:"nxdomain"`
	ServFail    uint64 `json:"servfail"`
	OtherRcodes uint64 `json:"other_rcodes"`
	Resumed     uint64 `json:"resumed"`
	Dropped     uint64 `json:"dropped"`
	// MedianSeconds and P99Seconds are to the answer or resume, within an eighth.
	MedianSeconds float64 `json:"median_seconds,omitempty"`
	P99Seconds    float64 `json:"p99_seconds,omitempty"`
}
