// SPDX-License-Identifier: Apache-2.0

// Package api has the paths of the control socket, the types of its JSON answers, and the codes of problems
// with their remedies (codes.go). The server and puntctl share it.
//
// Within a version of the paths, fields are only added. Durations are in seconds, times in RFC 3339. Unknown
// values are left out; unknown lists are null.
package api

import "net/netip"

// DefaultSocket is the path that puntctl uses by default.
const DefaultSocket = "/run/puntdns/control.sock"

// DefaultResolvers returns the resolver addresses of a bridge whose Corefile names none.
func DefaultResolvers() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00::254")}
}

// The paths.
const (
	PathStatus = "/v1/status"
	PathGuests = "/v1/guests"
	// PathNames takes the parameter "of": a port, a switch name or UUID, or a domain name. Without it the
	// answer has only the networks.
	PathNames = "/v1/names"
)

// Error is the answer with a status other than 200.
type Error struct {
	Message string `json:"error"`
}

// Problem is a problem, a warning or a finding.
type Problem struct {
	Code string `json:"code"`
	// About is a bridge, a database or a port.
	About string `json:"about"`
	Text  string `json:"text"`
	// Remedy says what to do, Commands are lines to paste.
	Remedy   string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// Docs is as docs/troubleshooting.md#outside-names-fail.
	Docs string `json:"docs,omitempty"`
}

// The causes of a failed connection.
const (
	// CausePermission: of the socket, or a folder of its path.
	CausePermission = "permission"
	CauseMissing    = "missing"
	CauseRefused    = "refused"
	// CauseTimeout: as by a firewall that drops packets.
	CauseTimeout = "timeout"
	// CauseUnreachable: no route, or a firewall rejects packets.
	CauseUnreachable = "unreachable"
	// CauseVersion: no common protocol version.
	CauseVersion = "version"
	// CauseTLS: a failed handshake, or an invalid certificate.
	CauseTLS   = "tls"
	CauseOther = "other"
)

// Failure is why a connection is down.
type Failure struct {
	Cause string `json:"cause"`
	Text  string `json:"text"`
}
