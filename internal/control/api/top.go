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
	// Time is when the interval ended, and Seconds its length.
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
	// All is of all queries that were counted.
	All TopEntry `json:"all"`
	// Missed is how many further queries were not looked at, as the process had no time for it. They
	// are in no other figure.
	Missed uint64 `json:"missed"`
	// The tables, left out if they were not asked for.
	Guests    *TopTable `json:"guests,omitempty"`
	Names     *TopTable `json:"names,omitempty"`
	Networks  *TopTable `json:"networks,omitempty"`
	Upstreams *TopTable `json:"upstreams,omitempty"`
}

// Table returns one of the tables, nil if it was not asked for.
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
	// Distinct is how many there were, and at least so many if Exact is not set.
	Distinct int `json:"distinct"`
	// Exact is set if there was a counter for each. Then Queries is exact. Else one that is not in
	// the table was asked for at most MissingAtMost times, or as often as the last entry.
	Exact         bool   `json:"exact"`
	MissingAtMost uint64 `json:"missing_at_most,omitempty"`
}

// TopEntry is a guest, a name of a network, a network or an upstream.
type TopEntry struct {
	Bridge string `json:"bridge,omitempty"`
	Port   string `json:"port,omitempty"`
	// Switch and Network are the name and the UUID of the network.
	Switch   string `json:"switch,omitempty"`
	Network  string `json:"network,omitempty"`
	Name     string `json:"name,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Queries is how many there were: that or less, by TooHigh at most.
	Queries   uint64  `json:"queries"`
	TooHigh   uint64  `json:"too_high_by_at_most,omitempty"`
	PerSecond float64 `json:"per_second"`
	// What has become of them. Where TooHigh is not 0, that is of Queries less TooHigh.
	NoError     uint64 `json:"noerror"`
	NXDomain    uint64 `json:"nxdomain"`
	ServFail    uint64 `json:"servfail"`
	OtherRcodes uint64 `json:"other_rcodes"`
	Resumed     uint64 `json:"resumed"`
	Dropped     uint64 `json:"dropped"`
	// MedianSeconds and P99Seconds are of the time to the answer or the resume, within an eighth.
	// They are left out if there was none.
	MedianSeconds float64 `json:"median_seconds,omitempty"`
	P99Seconds    float64 `json:"p99_seconds,omitempty"`
}
