// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// Status is the state of a process.
type Status struct {
	// Well is set if there is no problem.
	Well     bool      `json:"well"`
	Problems []Problem `json:"problems"`
	// Warnings are problems that keep no guest from its answers. They leave the status well.
	Warnings []Problem `json:"warnings"`
	Process  Process   `json:"process"`
	Corefile Corefile  `json:"corefile"`
	// Bridges and Databases are sorted by their names.
	Bridges   []Bridge   `json:"bridges"`
	Databases []Database `json:"databases"`
}

// Process is the process behind the socket.
type Process struct {
	// Version is the version of puntdns, with the version of CoreDNS.
	Version string `json:"version"`
	// Go is the version of the Go runtime.
	Go  string `json:"go"`
	PID int    `json:"pid"`
	UID int    `json:"uid"`
	// Started is when the process began to serve, as the control socket knows it.
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
}

// Corefile is the one in force.
type Corefile struct {
	// Path is where it was read, and Taken when it came into force. Both are left out before that.
	Path  string     `json:"path,omitempty"`
	Taken *time.Time `json:"taken,omitempty"`
	// Refused is the last reload that was refused, or has failed, since then; left out without one.
	Refused *RefusedReload `json:"refused,omitempty"`
}

// RefusedReload is a reload that has changed nothing.
type RefusedReload struct {
	Time time.Time `json:"time"`
	// By is what has asked for it: a signal, or a change of the Corefile that the plugin reload saw.
	By string `json:"by"`
	// Reason says what was found and what was expected.
	Reason string `json:"reason"`
}

// Bridge is one bridge that the process serves.
type Bridge struct {
	Name string `json:"name"`
	// Serving is set while queries are punted and answered; Waiting says why they are not.
	Serving bool   `json:"serving"`
	Waiting string `json:"waiting,omitempty"`
	// Chassis is the name of the chassis in OVN.
	Chassis       string        `json:"chassis,omitempty"`
	Connection    Connection    `json:"connection"`
	LocalDatabase LocalDatabase `json:"local_database"`
	Placement     Placement     `json:"placement"`
	// Addresses are the resolver addresses of all guests, with ports; "dhcp", "gateway" and
	// "any" stand for what the Corefile says by these words.
	Addresses []string    `json:"addresses"`
	Lease     Lease       `json:"lease"`
	Flows     Flows       `json:"flows"`
	Guests    GuestCounts `json:"guests"`
	// QueriesInFlight are in the plugin chains now.
	QueriesInFlight int64 `json:"queries_in_flight"`
	// TCPConnections of guests are open now.
	TCPConnections int64 `json:"tcp_connections"`
}

// Connection is the OpenFlow connection to a bridge.
type Connection struct {
	Endpoint string `json:"endpoint"`
	Up       bool   `json:"up"`
	// Since is when it was opened, if it is up.
	Since *time.Time `json:"since,omitempty"`
	// Version is the version of OpenFlow; Switch is the description of the switch.
	Version string `json:"version,omitempty"`
	Switch  string `json:"switch,omitempty"`
	// DatapathID is the datapath id of the bridge, 16 hexadecimal digits.
	DatapathID   string   `json:"datapath_id,omitempty"`
	ControllerID uint16   `json:"controller_id,omitempty"`
	Failure      *Failure `json:"failure,omitempty"`
}

// LocalDatabase is the local Open_vSwitch database.
type LocalDatabase struct {
	Endpoint string `json:"endpoint"`
	Up       bool   `json:"up"`
	// HasBridge is set if it has a bridge of the name. It is valid once the database was read.
	HasBridge bool     `json:"has_bridge"`
	Failure   *Failure `json:"failure,omitempty"`
}

// Placement is where the entry flows stand.
type Placement struct {
	// Kind is ovn, neutron or table.
	Kind string `json:"kind"`
	// Table is the OpenFlow table of the entry flows, and StageTable, with OVN, the table of the stage
	// ls_in_dns_lookup behind it. Both are left out as long as they are not known, and on a chassis without a
	// guest.
	Table      *uint8 `json:"table,omitempty"`
	StageTable *uint8 `json:"stage_table,omitempty"`
	// LogicalTable is the table of that stage in OVN's logical pipeline, by the Southbound database.
	LogicalTable *int `json:"logical_table,omitempty"`
	// Priority is the priority of the entry flows.
	Priority uint16 `json:"priority"`
}

// Lease is the lease of the punt.
type Lease struct {
	// Seconds is how long the punt outlives its last renewal, 0 for good.
	Seconds float64 `json:"seconds"`
	// BeatSeconds is the time between two probes.
	BeatSeconds float64 `json:"beat_seconds"`
	// LastBeatSecondsAgo is when the last probe has come back, and LeftSeconds how long the punt
	// stands without another renewal. They are left out without a probe, or a punt.
	LastBeatSecondsAgo *float64 `json:"last_beat_seconds_ago,omitempty"`
	LeftSeconds        *float64 `json:"left_seconds,omitempty"`
	// Overdue is set while a probe does not come back.
	Overdue bool `json:"overdue"`
}

// Flows are the flows of this process in the switch.
type Flows struct {
	// Cookie is the cookie of all of them, with 0x in front; left out before there is one.
	Cookie string `json:"cookie,omitempty"`
	// OtherProcess is set while another process owns the flows of the bridge.
	OtherProcess bool `json:"other_process"`
	// Expected is how many this process has installed.
	Expected int `json:"expected"`
	// Counted is what the switch has counted; left out if it has not told.
	Counted *Counted `json:"counted,omitempty"`
	// Error is why it has not.
	Error string `json:"error,omitempty"`
}

// Counted is what the switch has counted, since the flows were installed.
type Counted struct {
	// SecondsAgo is when the switch was asked: it is asked at most once a second.
	SecondsAgo float64 `json:"seconds_ago"`
	// Flows is how many there are.
	Flows int `json:"flows"`
	// EntryPackets have matched an entry flow, PuntPackets the punt, and PassedPackets none of
	// the two after an entry flow: there was no lease, or the packet was resumed.
	EntryPackets  uint64 `json:"entry_packets"`
	PuntPackets   uint64 `json:"punt_packets"`
	PassedPackets uint64 `json:"passed_packets"`
}

// GuestCounts are the guests of a bridge by their state.
type GuestCounts struct {
	// Served have their flows; Kept are those among them that have lost their binding and are
	// served for the grace.
	Served int `json:"served"`
	Kept   int `json:"kept"`
	// WithoutAddress have no resolver address, and Unserved are interfaces that are not served
	// for another reason.
	WithoutAddress int `json:"without_address"`
	Unserved       int `json:"unserved"`
}

// Database is one OVN database, as it is read.
type Database struct {
	// Name is OVN_Southbound or OVN_Northbound.
	Name string `json:"name"`
	// Endpoint is the server that it is read from, or was tried last.
	Endpoint string `json:"endpoint"`
	Synced   bool   `json:"synced"`
	// Since is when Synced has last changed.
	Since   time.Time `json:"since"`
	Failure *Failure  `json:"failure,omitempty"`
	// Model is standalone, clustered or relay, and Leader is set for the leader of a cluster. Both are of the
	// last server that reported them.
	Model  string `json:"model,omitempty"`
	Leader bool   `json:"leader"`
	// Snapshot is what was made of this database and the one beside it.
	Snapshot Snapshot `json:"snapshot"`
}

// Snapshot is the picture of the networks that queries are answered from.
type Snapshot struct {
	// AgeSeconds is how long ago the last change was taken in; left out before the first.
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	// Settled is set if every guest of the chassis is known.
	Settled bool `json:"settled"`
	// Networks, Ports, DNSRows and Names count the rows that are read.
	Networks int `json:"networks"`
	Ports    int `json:"ports"`
	DNSRows  int `json:"dns_rows"`
	Names    int `json:"names"`
	// BadValues counts the values of the databases that could not be used since the start, and LastBad
	// says which was the last.
	BadValues uint64 `json:"bad_values"`
	LastBad   string `json:"last_bad_value,omitempty"`
	// PresentBad counts those that can't be used at present, and FirstBad says which a few of them are.
	PresentBad int      `json:"present_bad_values"`
	FirstBad   []string `json:"first_bad_values,omitempty"`
	// RebuildSeconds is how long the last change took.
	RebuildSeconds float64 `json:"rebuild_seconds"`
}
