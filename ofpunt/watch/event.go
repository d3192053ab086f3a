// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

// Outcomes of a query without an answer, instead of an rcode. They are larger than any rcode in a message
// (RFC 6891, section 6.1.3).
const (
	RcodeResumed = 1<<12 + iota
	RcodeDropped
)

// Event is a query that the process has finished with. Nothing that it refers to changes.
type Event struct {
	// Arrived is when the query has come, and Took how long it was here: up to the answer, the resume
	// or the drop.
	Arrived time.Time
	Took    time.Duration
	// Bridge is the bridge of the guest, and Port its logical port, empty if that is not known.
	// Switch and Network are the name and the UUID of its network.
	Bridge, Port, Switch string
	Network              origin.Network
	// Attributes are what the databases say of the port beside that, nil for nothing.
	Attributes origin.Attributes
	// Client has sent the query, to Server. Both are invalid of a packet that is not understood.
	Client, Server netip.AddrPort
	TCP            bool
	// Block is the server block that has taken the query, nil for none.
	Block *Block
	// Question is the question of the message as it was sent (RFC 1035, section 4.1.2), its name without
	// compression. It is empty for a message that has not one plain question.
	Question []byte
	// Result and Reason are the values of these labels in coredns_ofpunt_packet_ins_total. Rcode is the rcode
	// of the answer, RcodeResumed or RcodeDropped.
	Result, Reason string
	Rcode          uint16
	// Upstream is the server that *forward* or *ovnforward* has asked last, invalid if none was.
	Upstream netip.AddrPort
	// number is the place of the event in the history, 0 without a history.
	number uint64
}

// Block is a server block. It is immutable.
type Block struct {
	// Name has the line of the Corefile and the zones, as /etc/puntdns/Corefile:7 - example.org.
	Name string
	// Words are those by which an operator may name the block: its name, the line, the zones.
	Words []string
	// Labels are the labels of metadata that the block names and whose values are in the attributes of an
	// origin.
	Labels []Label
}

// Label is a label of metadata. Value needs nothing of the origin but its attributes.
type Label struct {
	Name  string
	Value func(*origin.Origin) string
}

// questionTail is the length of type and class.
const questionTail = 4

// name returns the name of the question in the form of a message, empty if it is not known.
func (e *Event) name() []byte {
	if len(e.Question) <= questionTail {
		return nil
	}
	return e.Question[:len(e.Question)-questionTail]
}

// qtype returns the type of the question. It reports whether that is known.
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

// nameText returns a name in the form of a zone file (RFC 1035, section 5.1), empty without a name.
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

// rcodeText returns the name of an rcode, or of what has become of a query without one.
func rcodeText(rcode uint16) string {
	switch rcode {
	case RcodeResumed:
		return "RESUMED"
	case RcodeDropped:
		return "DROPPED"
	case dns.RcodeBadVers:
		return "BADVERS" // the library names it BADSIG, which is none of a header
	}
	if text, ok := dns.RcodeToString[int(rcode)]; ok {
		return text
	}
	return "RCODE" + strconv.Itoa(int(rcode))
}
