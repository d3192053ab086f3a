// SPDX-License-Identifier: Apache-2.0

package api

// PathExplain answers with an [Explanation]. Its parameters are port, which is the name of a logical
// port, of a local interface, or an address or a MAC address of one guest; name; and, where the
// defaults will not do, type (A), server (the first resolver address of the guest), from (the first
// address of the guest of that family) and tcp (false).
const PathExplain = "/v1/explain"

// The codes of the findings of an explanation, beside the codes of problems.
const (
	// CodeNoFlows: the switch has no flow of the guest.
	CodeNoFlows = "no-flows"
	// CodeNotPunted: a query does not get to the punt, by a trace in the switch.
	CodeNotPunted = "not-punted"
	// CodeNotTraced: it is not known whether a query gets to the punt. puntctl finds it, and it leaves Well
	// alone.
	CodeNotTraced = "not-traced"
	// CodeNotResolver: the server that is asked is no resolver address of the guest.
	CodeNotResolver = "not-a-resolver"
	// CodeUnknownGuest: the process does not know whose packet it would be.
	CodeUnknownGuest = "unknown-guest"
	// CodeNoBlock: no server block takes the query.
	CodeNoBlock = "no-block"
	// CodeView: a view of a block does not match.
	CodeView = "view"
	// CodeOtherNetwork: a network that the guest is not in knows the name.
	CodeOtherNetwork = "other-network"
	// CodePortSecurity: OVN's port security drops ARP packets of the guest.
	CodePortSecurity = "port-security"
	// CodeSlowUpstream: an upstream takes long to answer.
	CodeSlowUpstream = "slow-upstream"
	// CodeFirstServer: DHCP announces a server before the resolver addresses, and the guest asks it first.
	CodeFirstServer = "first-server"
	// CodeNotAnnounced: DHCP announces other servers to the guest.
	CodeNotAnnounced = "not-announced"
	// CodeNoRoute: DHCP gives the guest no route to the server that it asks. puntctl finds it, and it
	// leaves Well alone: the guest may have a route by hand or by its image.
	CodeNoRoute = "no-route"
	// CodeUpstream: an upstream does not answer, or answers with an error.
	CodeUpstream = "upstream"
	// CodeLoop: a server that is asked asks the same question here.
	CodeLoop = "loop"
	// CodeSearchDomain: the guest's network knows the name with a domain behind it, or without one.
	CodeSearchDomain = "search-domain"
	// CodeUnreadable: the guest's network has a record of the name, but none with a value that can be
	// read.
	CodeUnreadable = "unreadable"
	// CodeNoSwitch: Northbound has the name in a DNS row, and no logical switch refers to the row.
	CodeNoSwitch = "no-switch"
	// CodeNorthd: Northbound has the name for the guest's network, and ovn-northd has not copied it to
	// Southbound.
	CodeNorthd = "northd"
	// CodeAlias: the CNAME records of the name lead in a circle, or are too many.
	CodeAlias = "alias"
	// CodePrivate: the name is private, and no server outside is asked.
	CodePrivate = "private"
	// CodePolicy: a rule of a policy zone (plugin rpz) or an egress policy (plugin egress) decides.
	CodePolicy = "policy"
	// CodeCached: the guest gets an answer that was stored earlier.
	CodeCached = "cached"
	// CodeDeadline: the plugins do not answer in time.
	CodeDeadline = "deadline"
	// CodeNoData: there is no such name.
	CodeNoData = "no-data"
	// CodeNoType: the name has no record of the type. It leaves Well alone, as most names lack most types.
	CodeNoType = "no-type"
	// CodeTruncated: the answer over UDP is too small for the records, and the guest asks again over TCP. It
	// leaves Well alone.
	CodeTruncated = "truncated"
	// CodeError: the answer is an error.
	CodeError = "error"
	// CodeDropped: the guest gets no answer, and the query goes nowhere.
	CodeDropped = "dropped"
)

// Explanation is the way of one query of one guest. Nothing of it was sent.
type Explanation struct {
	// Well is set if there is no finding other than CodeNoRoute.
	Well     bool            `json:"well"`
	Findings []Problem       `json:"findings"`
	Question ExplainQuestion `json:"question"`
	Guest    Guest           `json:"guest"`
	// Flows are the flows of the guest in the switch, and the punt for all guests. FlowsError is why the
	// switch has not reported them.
	Flows      []GuestFlow `json:"flows"`
	FlowsError string      `json:"flows_error,omitempty"`
	// EntryTable is the table of the entry flows, left out as long as it is not known.
	EntryTable *uint8 `json:"entry_table,omitempty"`
	// Trace is that of the switch. Puntctl makes it.
	Trace *Trace `json:"trace,omitempty"`
	// Labels are those of metadata that the plugins see.
	Labels []Label `json:"labels"`
	// Views are those that were asked, in their order; Block is the server block that takes the
	// query, and View its view.
	Views []View `json:"views"`
	Block string `json:"block,omitempty"`
	View  string `json:"view,omitempty"`
	// Steps are the plugins, in the order in which they have got the query. Notes are of none of
	// them.
	Steps []Step   `json:"steps"`
	Notes []string `json:"notes,omitempty"`
	// Result and Reason are the values of these labels in coredns_ofpunt_packet_ins_total.
	Result  string  `json:"result,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`
	// Rcode and Answer, as dig prints it, are what the guest gets. They are left out where it gets
	// none from here.
	Rcode  string `json:"rcode,omitempty"`
	Answer string `json:"answer,omitempty"`
	// Without is what the guest gets while puntdns does not run.
	Without string `json:"without_puntdns"`
	// Unasked is why the query is not one for puntdns, empty if it is: then there are no steps.
	Unasked string `json:"unasked,omitempty"`
	// Effects are what the explanation has changed.
	Effects []string `json:"effects"`
}

// ExplainQuestion is the explained question.
type ExplainQuestion struct {
	Port   string `json:"port"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Server string `json:"server"`
	TCP    bool   `json:"tcp"`
	// Client is the address that the query is from, with a port, and ClientMAC its MAC address.
	// Assumed is set where the databases know none of the guest, and others stand in for it.
	Client    string `json:"client,omitempty"`
	ClientMAC string `json:"client_mac,omitempty"`
	Assumed   bool   `json:"assumed,omitempty"`
}

// GuestFlow is a flow in the switch.
type GuestFlow struct {
	Table    uint8  `json:"table"`
	Priority uint16 `json:"priority"`
	Match    string `json:"match"`
	// For is the purpose of the flow: query, neighbor, punt, limit for the punt of this guest by its rate,
	// closed for the drop of a guest that fails closed, or onward for packets that are not punted.
	For     string `json:"for"`
	Packets uint64 `json:"packets"`
}

// Trace is what the switch says of a packet.
type Trace struct {
	// Command shows it.
	Command string `json:"command"`
	// Punted is set if the packet gets to the punt; else Table and Flow are the last flow that
	// it meets, and Dropped is set if it goes no further.
	Punted  bool   `json:"punted"`
	Dropped bool   `json:"dropped"`
	Table   string `json:"table,omitempty"`
	Flow    string `json:"flow,omitempty"`
	// Error is why there is no trace.
	Error string `json:"error,omitempty"`
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
	// Labels are those that the expressions read.
	Labels []Label `json:"labels"`
}

// Expression is one of a view: a view matches if all of its expressions are true.
type Expression struct {
	Text  string `json:"text"`
	Value string `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// Step is the part of one plugin.
type Step struct {
	Plugin string `json:"plugin"`
	// Depth is 0 for the first plugin, and one more for each that it stands behind.
	Depth int `json:"depth"`
	// Seconds is the time of the plugin with all plugins behind it.
	Seconds float64 `json:"seconds"`
	// Verdict is one of the verdicts below.
	Verdict string   `json:"verdict"`
	Notes   []string `json:"notes,omitempty"`
}

// The verdicts.
const (
	VerdictAnswers = "answers"
	VerdictWould   = "would answer" // were it not for the entry of cache
	VerdictResumes = "resumes"      // the packet goes on to the server that the guest has asked
	VerdictPasses  = "passes on"
	VerdictLeft    = "left out"
	VerdictReturns = "returns" // it neither answers nor passes on
	VerdictWaits   = "waits"   // it has not returned
)
