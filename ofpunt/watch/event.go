// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/coredns/coredns/plugin/pkg/rcode"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// Outcomes without an answer, larger than any rcode in a message (RFC 6891, section 6.1.3).
const (
	RcodeResumed = 1<<12 + iota
	RcodeDropped
)

// Event is a finished query. Its references are immutable.
type Event struct {
	// Took is the time to the answer, resume or drop.
	Arrived time.Time
	Took    time.Duration
	// Port is the logical port, empty if unknown. Switch and Network are name and UUID of its network.
	Bridge, Port, Switch string
	Network              origin.Network
	// Attributes are the port's data in the databases, or nil.
	Attributes origin.Attributes
	// Client sent the query to Server. Both are invalid if the packet was not decoded.
	Client, Server netip.AddrPort
	TCP            bool
	// nil for none
	Block *Block
	// Question is the question as sent (RFC 1035, section 4.1.2), empty unless the message has exactly one,
	// uncompressed.
	Question []byte
	// Result and Reason are labels of coredns_ofpunt_packet_ins_total. Rcode is the answer's, RcodeResumed or
	// RcodeDropped.
	Result, Reason string
	Rcode          uint16
	// Upstream was asked last by *forward* or *ovnforward*, invalid for none.
	Upstream netip.AddrPort
	// position in the history, 0 without
	number uint64
}

// Block is an immutable server block.
type Block struct {
	// Name has Corefile line and zones: /etc/puntdns/Corefile:7 - example.org.
	Name string
	// Words name the block in a filter: name, line, zones.
	Words []string
	// Labels are metadata labels of the block, with values in an origin's attributes.
	Labels []Label
}

// Label is a metadata label. Value reads only attributes.
type Label struct {
	Name  string
	Value func(*origin.Origin) string
}

const questionTail = 4

// name is in wire format, empty if unknown.
func (e *Event) name() []byte {
	if len(e.Question) <= questionTail {
		return nil
	}
	return e.Question[:len(e.Question)-questionTail]
}

func (e *Event) qtype() (qtype uint16, ok bool) {
	n := e.name()
	if n == nil {
		return 0, false
	}
	return binary.BigEndian.Uint16(e.Question[len(n):]), true
}

func (e *Event) class() uint16 {
	return binary.BigEndian.Uint16(e.Question[len(e.name())+2:])
}

// nameText is in zone file format (RFC 1035, section 5.1), empty without a name.
func nameText(wire []byte) string {
	if len(wire) == 0 {
		return ""
	}
	text, _, err := dns.UnpackDomainName(wire, 0)
	if err != nil {
		return ""
	}
	return text
}

func rcodeText(of uint16) string {
	switch of {
	case RcodeResumed:
		return "RESUMED"
	case RcodeDropped:
		return "DROPPED"
	case dns.RcodeBadVers:
		return "BADVERS" // dns: BADSIG, not for headers
	}
	return rcode.ToString(int(of))
}
