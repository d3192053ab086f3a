// SPDX-License-Identifier: Apache-2.0

// Package api has what puntdns tells an operator over the control socket, as JSON: the paths,
// and the types of their answers. The server and puntctl share it. It has no logic.
//
// A field is added where there is more to tell; none is removed and none changes its meaning
// within a version of the paths. Durations are in seconds, as the names of their fields say.
// Times are as in RFC 3339. What is not known is left out, or null where it is a list.
package api

// DefaultSocket is the default path of the control socket for puntctl.
const DefaultSocket = "/run/puntdns/control.sock"

// The paths.
const (
	// PathStatus answers with a [Status].
	PathStatus = "/v1/status"
	// PathGuests answers with [Guests].
	PathGuests = "/v1/guests"
	// PathNames answers with [Names]. The parameter of takes the name of a port, the name or the UUID of a
	// switch, or a domain name. Without it the answer has the networks alone.
	PathNames = "/v1/names"
)

// Error is the answer with a status other than 200.
type Error struct {
	// Message says what was found and what was expected.
	Message string `json:"error"`
}

// Problem is something that is not well.
type Problem struct {
	// Code is one of the codes below, for programs.
	Code string `json:"code"`
	// About is the bridge, the database or the port that it is about.
	About string `json:"about"`
	// Text says what was found.
	Text string `json:"text"`
	// Remedy says what to do about it, and Commands has lines to paste. Both are left out where there is
	// nothing to do.
	Remedy   string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// Docs is the section of the pages that explains the code, PAGE#ANCHOR from the root of the project:
	// docs/troubleshooting.md#outside-names-fail.
	Docs string `json:"docs,omitempty"`
}

// The codes of problems.
const (
	// CodeSwitch: there is no connection to the switch.
	CodeSwitch = "switch"
	// CodeStalled: the switch does nothing because the local ovsdb-server is or was away.
	CodeStalled = "ovsdb-server"
	// CodeLocalDatabase: the local Open_vSwitch database is not read.
	CodeLocalDatabase = "local-database"
	// CodeNoBridge: the local Open_vSwitch database has no bridge of that name.
	CodeNoBridge = "no-bridge"
	// CodeOtherProcess: another process owns the flows.
	CodeOtherProcess = "other-process"
	// CodeLease: the punt is not renewed, or has expired.
	CodeLease = "lease"
	// CodeNotServed: the bridge is not served for another reason.
	CodeNotServed = "not-served"
	// CodeBinding: the databases do not have this chassis as they should.
	CodeBinding = "binding"
	// CodeDatabase: a database is not in sync.
	CodeDatabase = "database"
	// CodeUnserved: interfaces are not served.
	CodeUnserved = "unserved"
	// CodeNoAddress: guests have no resolver address.
	CodeNoAddress = "no-address"
	// CodeOverLimit: a limit refuses queries of the guest.
	CodeOverLimit = "over-limit"
	// CodeAddressTaken: another machine of the guest's network has a resolver address.
	CodeAddressTaken = "address-taken"
	// CodeAttachedMAC: the MAC address of the guest's interface is not the one of its logical port.
	CodeAttachedMAC = "attached-mac"
	// CodePortConfig: the config of the guest's OpenFlow port stops queries or answers.
	CodePortConfig = "port-config"
	// CodeLinkDown: the link of the guest's interface is down.
	CodeLinkDown = "link-down"
	// CodeNoMeters: limits are not enforced by the switch.
	CodeNoMeters = "no-meters"
)

// The codes of warnings.
const (
	// CodeReload: the last reload was refused.
	CodeReload = "reload-refused"
	// CodeBadValues: values of a database are skipped, as they can't be used.
	CodeBadValues = "bad-values"
	// CodeRefusedServers: servers that networks name for zones of theirs are not asked.
	CodeRefusedServers = "refused-servers"
	// CodePolicyZone: a policy zone could not be read the last time.
	CodePolicyZone = "policy-zone"
	// CodeUnsaved: the snapshot for the next start can't be written.
	CodeUnsaved = "unsaved"
	// CodeUpstreams: servers that forward asks do not answer.
	CodeUpstreams = "upstreams"
)

// The causes of a failed connection.
const (
	// CausePermission: the socket may not be written, or a folder of its path not be entered.
	CausePermission = "permission"
	// CauseMissing: there is no such socket.
	CauseMissing = "missing"
	// CauseRefused: no process listens there.
	CauseRefused = "refused"
	// CauseTimeout: no answer has come, as behind a firewall that drops packets.
	CauseTimeout = "timeout"
	// CauseUnreachable: there is no route, or a firewall rejects packets.
	CauseUnreachable = "unreachable"
	// CauseVersion: both ends have no common version of the protocol.
	CauseVersion = "version"
	// CauseTLS: the handshake has failed, or a certificate is not valid.
	CauseTLS = "tls"
	// CauseOther is any other.
	CauseOther = "other"
)

// Failure is why a connection is down.
type Failure struct {
	// Cause is one of the causes above.
	Cause string `json:"cause"`
	Text  string `json:"text"`
}
