// SPDX-License-Identifier: Apache-2.0

package api

// PathEgress answers with [Egress].
const PathEgress = "/v1/egress"

// Egress has the openings for guests with an egress policy.
type Egress struct {
	// Openings are sorted by bridge, port and address.
	Openings []Opening `json:"openings"`
	// Errors say which bridges are missing, and why.
	Errors []string `json:"errors,omitempty"`
}

// Opening is a destination that an answer has opened for a guest.
type Opening struct {
	Bridge string `json:"bridge"`
	// Port and Switch are "" if the guest is no longer known.
	Port   string `json:"port"`
	Switch string `json:"switch,omitempty"`
	// Protocol is "tcp", "udp", "sctp", or "" for all. TransportPort is 0 for all.
	Address       string `json:"address"`
	Protocol      string `json:"protocol,omitempty"`
	TransportPort uint16 `json:"transport_port,omitempty"`
	// Names are in the order in which they opened it.
	Names   []string `json:"names"`
	Packets uint64   `json:"packets"`
	// OpenedSecondsAgo is when it was opened or last reopened.
	OpenedSecondsAgo float64 `json:"opened_seconds_ago"`
	// LastPacketSecondsAgo is unknown with OpenFlow 1.3. ClosesInSeconds assumes no further packet.
	LastPacketSecondsAgo *float64 `json:"last_packet_seconds_ago,omitempty"`
	ClosesInSeconds      *float64 `json:"closes_in_seconds,omitempty"`
}

// PathEgressLearn answers with [LearnedPolicies].
const PathEgressLearn = "/v1/egress/learn"

// LearnedPolicies are the policies with observe on.
type LearnedPolicies struct {
	Policies []LearnedPolicy `json:"policies"`
}

// LearnedPolicy has the queried names that no policy allows.
type LearnedPolicy struct {
	// Policy is LABEL VALUE, At the file and line.
	Policy string   `json:"policy"`
	At     string   `json:"at"`
	Allow  []string `json:"allow"`
	// Names are sorted. More is set if names over a bound or impossible as an entry are missing.
	Names []LearnedName `json:"names"`
	More  bool          `json:"more,omitempty"`
}

// LearnedName is a lower-case FQDN.
type LearnedName struct {
	Name    string `json:"name"`
	Queries uint64 `json:"queries"`
}

// PathEgressPolicies answers with [EgressPolicies].
const PathEgressPolicies = "/v1/egress/policies"

// EgressPolicies are the egress policies in force: the Corefile's first, then Northbound's, both by bridge.
type EgressPolicies struct {
	Policies []EgressPolicy `json:"policies"`
}

// EgressPolicy is a policy with the guests of this node that it applies to.
type EgressPolicy struct {
	Bridge string `json:"bridge"`
	// Policy is LABEL VALUE, or the key of external_ids. At is the file and line, or the table and the name of the row.
	Policy string `json:"policy"`
	At     string `json:"at"`
	// Mode is "enforce", "observe", "strict" or "strict names".
	Mode  string   `json:"mode"`
	Allow []string `json:"allow"`
	// Guests are the logical ports, sorted. A policy of the Corefile may have none.
	Guests []string `json:"guests"`
	// Warnings are about entries that allow more than their author may expect.
	Warnings []string `json:"warnings,omitempty"`
}

// Modes of an [EgressPolicy].
const (
	ModeEnforce     = "enforce"
	ModeObserve     = "observe"
	ModeStrict      = "strict"
	ModeStrictNames = "strict names"
)
