// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Status is the state of a process.
type Status struct {
	Well     bool      `json:"well"`
	Problems []Problem `json:"problems"`
	// Warnings do not clear Well.
	Warnings []Problem `json:"warnings"`
	Process  Process   `json:"process"`
	Corefile Corefile  `json:"corefile"`
	// Bridges and Databases are sorted by name.
	Bridges   []Bridge   `json:"bridges"`
	Databases []Database `json:"databases"`
}

// Process is the process behind the socket.
type Process struct {
	// Version includes CoreDNS's.
	Version       string    `json:"version"`
	Go            string    `json:"go"`
	PID           int       `json:"pid"`
	UID           int       `json:"uid"`
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
}

// Corefile is the Corefile in force.
type Corefile struct {
	// Taken is when it came into force.
	Path  string     `json:"path,omitempty"`
	Taken *time.Time `json:"taken,omitempty"`
	// Refused is the last refused or failed reload since Taken.
	Refused *RefusedReload `json:"refused,omitempty"`
}

// RefusedReload is a reload without an effect.
type RefusedReload struct {
	Time time.Time `json:"time"`
	// By is a signal, or a file change seen by plugin reload.
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Bridge is one bridge that the process serves.
type Bridge struct {
	Name string `json:"name"`
	// Serving: queries are punted and answered; Waiting is why not.
	Serving       bool          `json:"serving"`
	Waiting       string        `json:"waiting,omitempty"`
	Chassis       string        `json:"chassis,omitempty"`
	Connection    Connection    `json:"connection"`
	LocalDatabase LocalDatabase `json:"local_database"`
	Placement     Placement     `json:"placement"`
	// Addresses are the resolver addresses with ports, and the words "dhcp", "gateway" and "any".
	Addresses []string    `json:"addresses"`
	Lease     Lease       `json:"lease"`
	Flows     Flows       `json:"flows"`
	Guests    GuestCounts `json:"guests"`
	// EgressBit is the bit of pkt_mark in ACLs for egress, 0 without *egress*.
	EgressBit uint8 `json:"egress_bit,omitempty"`
	// QueriesInFlight are in the plugin chains.
	QueriesInFlight int64 `json:"queries_in_flight"`
	TCPConnections  int64 `json:"tcp_connections"`
}

// Connection is the OpenFlow connection to a bridge.
type Connection struct {
	Endpoint string     `json:"endpoint"`
	Up       bool       `json:"up"`
	Since    *time.Time `json:"since,omitempty"`
	// Version is OpenFlow's, Switch the switch's description.
	Version string `json:"version,omitempty"`
	Switch  string `json:"switch,omitempty"`
	// DatapathID has 16 hexadecimal digits.
	DatapathID   string   `json:"datapath_id,omitempty"`
	ControllerID uint16   `json:"controller_id,omitempty"`
	Failure      *Failure `json:"failure,omitempty"`
}

// LocalDatabase is the local Open_vSwitch database.
type LocalDatabase struct {
	Endpoint string `json:"endpoint"`
	Up       bool   `json:"up"`
	// HasBridge is valid once the database is read.
	HasBridge bool     `json:"has_bridge"`
	Failure   *Failure `json:"failure,omitempty"`
}

// Placement is where the entry flows are.
type Placement struct {
	// Kind is ovn, neutron or table.
	Kind string `json:"kind"`
	// Table is the entry flows' OpenFlow table, StageTable, with OVN, that of ls_in_dns_lookup behind it.
	// Both are unknown on a chassis without a guest.
	Table      *uint8 `json:"table,omitempty"`
	StageTable *uint8 `json:"stage_table,omitempty"`
	// LogicalTable is the stage's table in Southbound.
	LogicalTable *int   `json:"logical_table,omitempty"`
	Priority     uint16 `json:"priority"`
}

// Lease is the lease of the punt.
type Lease struct {
	// Seconds is how long the punt lasts without renewal, 0 for ever.
	Seconds float64 `json:"seconds"`
	// HeartbeatSeconds is the time between two probes.
	HeartbeatSeconds float64 `json:"beat_seconds"`
	// LastHeartbeatSecondsAgo is the age of the last reply to a probe, LeftSeconds the punt's remaining time.
	LastHeartbeatSecondsAgo *float64 `json:"last_beat_seconds_ago,omitempty"`
	LeftSeconds             *float64 `json:"left_seconds,omitempty"`
	// Overdue: a probe's reply is late.
	Overdue bool `json:"overdue"`
}

// Flows are the flows of this process in the switch.
type Flows struct {
	// Cookie is hexadecimal with 0x.
	Cookie string `json:"cookie,omitempty"`
	// OtherProcess: another process owns the bridge's flows.
	OtherProcess bool `json:"other_process"`
	// Expected is the number of installed flows.
	Expected int      `json:"expected"`
	Counted  *Counted `json:"counted,omitempty"`
	// Error is why Counted is missing.
	Error string `json:"error,omitempty"`
}

// Counted has the switch's counters since the flows were installed.
type Counted struct {
	// SecondsAgo is the counters' age: the switch is asked at most once a second.
	SecondsAgo float64 `json:"seconds_ago"`
	Flows      int     `json:"flows"`
	// EntryPackets matched an entry flow, PuntPackets the punt, PassedPackets only an entry flow: no lease,
	// or resumed.
	EntryPackets  uint64 `json:"entry_packets"`
	PuntPackets   uint64 `json:"punt_packets"`
	PassedPackets uint64 `json:"passed_packets"`
}

// GuestCounts are a bridge's guests by state.
type GuestCounts struct {
	// Served includes Retained, which have no binding, within the grace period.
	Served   int `json:"served"`
	Retained int `json:"kept"`
	// WithoutAddress lack a resolver address; Unserved have another reason.
	WithoutAddress int `json:"without_address"`
	Unserved       int `json:"unserved"`
}

// Database is one OVN database.
type Database struct {
	// Name is OVN_Southbound or OVN_Northbound.
	Name string `json:"name"`
	// Endpoint is the current or last tried server.
	Endpoint string `json:"endpoint"`
	Synced   bool   `json:"synced"`
	// Since is when Synced last changed.
	Since   time.Time `json:"since"`
	Failure *Failure  `json:"failure,omitempty"`
	// Model is standalone, clustered or relay. Leader is for a cluster.
	Model  string `json:"model,omitempty"`
	Leader bool   `json:"leader"`
	// Snapshot is shared with the other database.
	Snapshot Snapshot `json:"snapshot"`
}

// Snapshot is the state of the networks by which queries are answered.
type Snapshot struct {
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	// Settled: every guest of the chassis is known.
	Settled  bool `json:"settled"`
	Networks int  `json:"networks"`
	Ports    int  `json:"ports"`
	DNSRows  int  `json:"dns_rows"`
	Names    int  `json:"names"`
	// BadValues counts unusable values since the start.
	BadValues uint64 `json:"bad_values"`
	LastBad   string `json:"last_bad_value,omitempty"`
	// PresentBad counts unusable values now; FirstBad has a few.
	PresentBad int      `json:"present_bad_values"`
	FirstBad   []string `json:"first_bad_values,omitempty"`
	// RebuildSeconds is the last change's duration.
	RebuildSeconds float64 `json:"rebuild_seconds"`
}
