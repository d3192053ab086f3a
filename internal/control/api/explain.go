// SPDX-License-Identifier: Apache-2.0

package api

// PathExplain answers with an [Explanation]. Its parameters, with their defaults:
//
//	port    a logical port, a local interface, or an address or a MAC address of one guest
//	name    a domain name
//	type    A
//	server  the first resolver address of the guest
//	from    the first address of the guest in the family of server
//	tcp     false
const PathExplain = "/v1/explain"

// Explanation is the path of one query of one guest. No packet is sent for it.
type Explanation struct {
	// Well is set if all findings are notes, see [Code].
	Well     bool            `json:"well"`
	Findings []Problem       `json:"findings"`
	Question ExplainQuestion `json:"question"`
	Guest    Guest           `json:"guest"`
	// Flows include the punt for all guests. FlowsError is why they are missing.
	Flows      []GuestFlow `json:"flows"`
	FlowsError string      `json:"flows_error,omitempty"`
	EntryTable *uint8      `json:"entry_table,omitempty"`
	// Trace is added by puntctl.
	Trace *Trace `json:"trace,omitempty"`
	// Labels are metadata of the query.
	Labels []Label `json:"labels"`
	// Views are in the order of evaluation. Block takes the query, by View.
	Views []View `json:"views"`
	Block string `json:"block,omitempty"`
	View  string `json:"view,omitempty"`
	// Notes belong to no step.
	Steps []Step   `json:"steps"`
	Notes []string `json:"notes,omitempty"`
	// Result and Reason are labels of coredns_ofpunt_packet_ins_total.
	Result  string  `json:"result,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`
	// Answer is as dig prints it.
	Rcode  string `json:"rcode,omitempty"`
	Answer string `json:"answer,omitempty"`
	// Without is what the guest gets without puntdns.
	Without string `json:"without_puntdns"`
	// Unasked is why the query does not reach puntdns; then there are no steps.
	Unasked string   `json:"unasked,omitempty"`
	Effects []string `json:"effects"`
}

// ExplainQuestion is the explained question.
type ExplainQuestion struct {
	Port   string `json:"port"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Server string `json:"server"`
	TCP    bool   `json:"tcp"`
	// Client has a port. Assumed: the databases have no address, and stand-ins are used.
	Client    string `json:"client,omitempty"`
	ClientMAC string `json:"client_mac,omitempty"`
	Assumed   bool   `json:"assumed,omitempty"`
}

// GuestFlow is a flow in the switch.
type GuestFlow struct {
	Table    uint8  `json:"table"`
	Priority uint16 `json:"priority"`
	Match    string `json:"match"`
	// For is query, neighbor, punt, limit (the guest's punt with its rate), closed (a guest that fails
	// closed), egress (a policy of the guest), or onward (not punted). "puntctl egress" has the openings.
	For     string `json:"for"`
	Packets uint64 `json:"packets"`
}

// Trace is the switch's trace of a packet.
type Trace struct {
	Command string `json:"command"`
	// Punted: the packet reaches the punt; else Table and Flow are the last matched flow.
	Punted  bool   `json:"punted"`
	Dropped bool   `json:"dropped"`
	Table   string `json:"table,omitempty"`
	Flow    string `json:"flow,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Label is a label of metadata.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// View is the view of a server block.
type View struct {
	Block       string       `json:"block"`
	Name        string       `json:"name"`
	Matches     bool         `json:"matches"`
	Expressions []Expression `json:"expressions"`
	// Labels are read by the expressions.
	Labels []Label `json:"labels"`
}

// Expression is one of a view, which needs all to be true.
type Expression struct {
	Text  string `json:"text"`
	Value string `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// Step is one plugin.
type Step struct {
	Plugin string `json:"plugin"`
	// Depth is the number of plugins in front.
	Depth int `json:"depth"`
	// Seconds includes all plugins behind this one.
	Seconds float64  `json:"seconds"`
	Verdict string   `json:"verdict"`
	Notes   []string `json:"notes,omitempty"`
}

// The verdicts.
const (
	VerdictAnswers = "answers"
	VerdictWould   = "would answer" // without the entry of cache
	VerdictResumes = "resumes"      // the packet goes on to the guest's server
	VerdictPasses  = "passes on"
	VerdictLeft    = "left out"
	VerdictReturns = "returns" // neither answers nor passes on
	VerdictWaits   = "waits"   // has not returned
)
