// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// strangeQuestion is a message to a DNS server.
type strangeQuestion struct {
	name  string
	query []byte // its ID is put in later
	// want is the answer of puntdns as strangeAnswer writes it, empty for none. It has
	// no "ra": each has that where somebody stands behind, but for other opcodes.
	want    string
	outcome strangeOutcome
	// alone is the answer where no plugin stands behind ovnhosts and it is another.
	alone string
}

// strangeOutcome is what becomes of a query, by result and reason of the metric.
type strangeOutcome struct {
	service, hijack string
	// upstream is whether forward asks for it in service mode.
	upstream bool
}

var (
	strangeAnswered  = strangeOutcome{service: "answered chain", hijack: "answered chain"}
	strangeUpstream  = strangeOutcome{service: "answered chain", hijack: "resumed chain", upstream: true}
	strangeOwn       = strangeOutcome{service: "answered chain", hijack: "resumed chain"} // below the asker's domain
	strangeForeign   = strangeOutcome{service: "answered chain", hijack: "resumed class"}
	strangeElsewhere = strangeOutcome{service: "answered chain", hijack: "resumed class", upstream: true}
	strangeMalformed = strangeOutcome{service: "refused malformed", hijack: "resumed malformed"}
	strangeOpcode    = strangeOutcome{service: "refused opcode", hijack: "resumed opcode"}
	strangeNoData    = strangeOutcome{service: "refused type", hijack: "resumed type"}
	strangeTransfer  = strangeOutcome{service: "refused transfer", hijack: "resumed transfer"}
	strangeNoClass   = strangeOutcome{service: "refused class", hijack: "resumed class"}
	strangeShort     = strangeOutcome{service: "dropped short", hijack: "resumed short"}
	strangeResponse  = strangeOutcome{service: "dropped response", hijack: "resumed response"}
)

// Names: one of the asker's switch, one that has more addresses than fit, and one
// that only others have. The first two are ports': OVN's own DNS, which asks
// neither for opcode nor for class, does not answer to them what is resumed.
const (
	strangeKnown   = "vm1.red."
	strangeMany    = "many.red."
	strangeUnknown = "www.example.org."
)

// strangeLong is as long as a name can be: 255 bytes.
var strangeLong = strings.Repeat(strings.Repeat("x", 63)+".", 3) + strings.Repeat("x", 61) + "."

// Answers that several have.
const (
	strangeRight   = "NOERROR aa rd ? vm1.red. A = 10.0.0.31"
	strangeNothing = "FORMERR rd"
)

var strangeQuestions = []strangeQuestion{
	{"a known name", strangeQuery(strangeKnown), strangeRight, strangeAnswered, ""},
	{"an unknown name", strangeQuery(strangeUnknown), "NOERROR aa rd ? www.example.org. A = 192.0.2.1", strangeUpstream, "NXDOMAIN aa rd ? www.example.org. A SOA org."},

	// Opcodes. NOTIFY is for somebody who has zones (RFC 1996).
	{"opcode IQUERY", strangeQuery(strangeKnown, strangeSet(inOpcode, 1)), "opcode 1 NOTIMP ? vm1.red. A", strangeOpcode, ""},
	{"opcode STATUS", strangeQuery(strangeKnown, strangeSet(inOpcode, 2)), "opcode 2 NOTIMP ? vm1.red. A", strangeOpcode, ""},
	{"opcode 3", strangeQuery(strangeUnknown, strangeSet(inOpcode, 3)), "opcode 3 NOTIMP ? www.example.org. A", strangeOpcode, ""},
	{"opcode NOTIFY", strangeQuery(strangeKnown, strangeSet(inOpcode, 4), strangeSet(inType, dns.TypeSOA)), "opcode 4 NOTIMP ? vm1.red. SOA", strangeOpcode, ""},
	{"opcode NOTIFY of an unknown name", strangeQuery(strangeUnknown, strangeSet(inOpcode, 4), strangeSet(inType, dns.TypeSOA)), "opcode 4 NOTIMP ? www.example.org. SOA", strangeOpcode, ""},
	{"opcode UPDATE", strangeQuery(strangeKnown, strangeSet(inOpcode, 5), strangeSet(inType, dns.TypeSOA), strangeRecords(0, 0, 1)), "opcode 5 NOTIMP ? vm1.red. SOA", strangeOpcode, ""},
	{"opcode DSO", strangeQuery(strangeKnown, strangeSet(inOpcode, 6), strangeNoQuestion), "opcode 6 NOTIMP", strangeOpcode, ""},
	{"opcode 15", strangeQuery(strangeUnknown, strangeSet(inOpcode, 15)), "opcode 15 NOTIMP ? www.example.org. A", strangeOpcode, ""},

	// Classes. CoreDNS refuses others than IN unless forward is there.
	{"class CH", strangeQuery(strangeKnown, strangeSet(inClass, dns.ClassCHAOS)), "REFUSED rd ? vm1.red. CH A", strangeForeign, "REFUSED rd ? vm1.red. CH A"},
	{"class CH with EDNS DO", strangeQuery(strangeKnown, strangeSet(inClass, dns.ClassCHAOS), strangeEDNS(1232, 0, 0x8000)), "REFUSED rd ? vm1.red. CH A OPT 1232 flags 8000", strangeForeign, "REFUSED rd ? vm1.red. CH A OPT 1232 flags 8000"},
	{"class CH of version.bind", strangeQuery("version.bind.", strangeSet(inClass, dns.ClassCHAOS), strangeSet(inType, dns.TypeTXT)), "NXDOMAIN aa rd ? version.bind. CH TXT SOA bind.", strangeElsewhere, "REFUSED rd ? version.bind. CH TXT"},
	{"class HS", strangeQuery(strangeKnown, strangeSet(inClass, dns.ClassHESIOD)), "REFUSED rd ? vm1.red. HS A", strangeForeign, "REFUSED rd ? vm1.red. HS A"},
	{"class NONE", strangeQuery(strangeKnown, strangeSet(inClass, dns.ClassNONE)), "FORMERR rd ? vm1.red. NONE A", strangeNoClass, ""},
	{"class ANY", strangeQuery(strangeKnown, strangeSet(inClass, dns.ClassANY)), "FORMERR rd ? vm1.red. CLASS255 A", strangeNoClass, ""},
	{"class 4711", strangeQuery(strangeKnown, strangeSet(inClass, 4711)), "REFUSED rd ? vm1.red. CLASS4711 A", strangeForeign, "REFUSED rd ? vm1.red. CLASS4711 A"},
	{"class 4711 of an unknown name", strangeQuery(strangeUnknown, strangeSet(inClass, 4711)), "NOERROR aa rd ? www.example.org. CLASS4711 A = 192.0.2.1", strangeElsewhere, "REFUSED rd ? www.example.org. CLASS4711 A"},

	// Counts.
	{"QDCOUNT 0", strangeQuery(strangeKnown, strangeNoQuestion), strangeNothing, strangeMalformed, ""},
	{"QDCOUNT 0 with EDNS", strangeQuery(strangeKnown, strangeNoQuestion, strangeEDNS(1232, 0, 0)), strangeNothing, strangeMalformed, ""},
	{"QDCOUNT 0 before a question", strangePut(strangeQuery(strangeKnown), 4, 0, 0), strangeNothing, strangeMalformed, ""},
	{"QDCOUNT 2", strangeQuery(strangeKnown, func(m *dns.Msg) { m.Question = slices.Repeat(m.Question, 2) }), strangeNothing, strangeMalformed, ""},
	{"QDCOUNT 2 before one question", strangePut(strangeQuery(strangeKnown), 4, 0, 2), strangeNothing, strangeMalformed, ""},
	{"QDCOUNT 65535", strangePut(strangeQuery(strangeKnown), 4, 0xff, 0xff), strangeNothing, strangeMalformed, ""},
	{"one record in each section", strangeQuery(strangeKnown, strangeRecords(1, 1, 1)), strangeRight, strangeAnswered, ""},
	{"fewer records than counted", strangePut(strangeQuery(strangeKnown), 11, 1), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"two answers", strangeQuery(strangeKnown, strangeRecords(2, 0, 0)), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"two authorities", strangeQuery(strangeKnown, strangeRecords(0, 2, 0)), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"three additional records", strangeQuery(strangeKnown, strangeRecords(0, 0, 3)), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},

	// Flags: of those only RD and CD return.
	{"no RD", strangePut(strangeQuery(strangeKnown), 2, 0, 0), "NOERROR aa ? vm1.red. A = 10.0.0.31", strangeAnswered, ""},
	{"AA and TC", strangePut(strangeQuery(strangeKnown), 2, 7, 0), strangeRight, strangeAnswered, ""},
	{"RA and AD", strangePut(strangeQuery(strangeKnown), 2, 1, 0xa0), strangeRight, strangeAnswered, ""},
	{"Z", strangePut(strangeQuery(strangeKnown), 2, 1, 0x40), strangeRight, strangeAnswered, ""},
	{"Z for an unknown name", strangePut(strangeQuery(strangeUnknown), 2, 1, 0x40), "NOERROR aa rd ? www.example.org. A = 192.0.2.1", strangeUpstream, "NXDOMAIN aa rd ? www.example.org. A SOA org."},
	{"CD", strangePut(strangeQuery(strangeKnown), 2, 1, 0x10), "NOERROR aa rd cd ? vm1.red. A = 10.0.0.31", strangeAnswered, ""},
	{"RCODE 3", strangePut(strangeQuery(strangeKnown), 2, 1, 3), strangeRight, strangeAnswered, ""},
	{"QR", strangePut(strangeQuery(strangeKnown), 2, 0x81, 0), "", strangeResponse, ""},
	{"QR for an unknown name", strangePut(strangeQuery(strangeUnknown), 2, 0x81, 0), "", strangeResponse, ""},
	{"all flags", strangePut(strangeQuery(strangeKnown), 2, 0xff, 0xff), "", strangeResponse, ""},

	// EDNS.
	{"EDNS", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0)), strangeRight + " OPT 1232", strangeAnswered, ""},
	{"EDNS version 1", strangeQuery(strangeKnown, strangeEDNS(1232, 1, 0)), "BADVERS rd ? vm1.red. A OPT 1232", strangeForeign, ""},
	{"EDNS version 1 with DO", strangeQuery(strangeKnown, strangeEDNS(1232, 1, 0x8000)), "BADVERS rd ? vm1.red. A OPT 1232 flags 8000", strangeForeign, ""},
	{"EDNS version 255 for an unknown name", strangeQuery(strangeUnknown, strangeEDNS(1232, 255, 0)), "BADVERS rd ? www.example.org. A OPT 1232", strangeForeign, ""},
	{"EDNS version 1 with an option", strangeQuery(strangeKnown, strangeEDNS(1232, 1, 0, strangeOption)), "BADVERS rd ? vm1.red. A OPT 1232", strangeForeign, ""},
	{"EDNS option", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0, strangeOption)), strangeRight + " OPT 1232", strangeAnswered, ""},
	{"EDNS options", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0, strangeOption, strangeOption)), strangeRight + " OPT 1232", strangeAnswered, ""},
	{"EDNS option cut off", strangePut(append(strangeQuery(strangeKnown), 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 4, 0xfd, 0xe9, 0, 9), 11, 1), "FORMERR rd ? vm1.red. A OPT 1232", strangeMalformed, ""},
	{"EDNS cut off", strangePut(append(strangeQuery(strangeKnown), 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0), 11, 1), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"EDNS DO", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0x8000)), strangeRight + " OPT 1232 flags 8000", strangeAnswered, ""},
	{"EDNS DO for an unknown name", strangeQuery(strangeUnknown, strangeEDNS(1232, 0, 0x8000)), "NOERROR aa rd ? www.example.org. A = 192.0.2.1 OPT 1232 flags 8000", strangeUpstream, "NXDOMAIN aa rd ? www.example.org. A SOA org. OPT 1232 flags 8000"},
	{"EDNS DO before what is missing", strangePut(strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0x8000)), 11, 2), "FORMERR rd ? vm1.red. A OPT 1232 flags 8000", strangeMalformed, ""},
	{"EDNS flag 0x0040", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0x40)), strangeRight + " OPT 1232", strangeAnswered, ""},
	{"EDNS flag 0x4000", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0x4000)), strangeRight + " OPT 1232", strangeAnswered, ""},
	{"EDNS all flags but DO", strangeQuery(strangeMany, strangeEDNS(512, 0, 0x7fff)), "NOERROR aa tc rd ? many.red. A = 10.0.2.1 of 29 OPT 1232", strangeAnswered, ""},
	{"EDNS in the answer", strangePut(append(strangeQuery(strangeKnown), strangeOPT...), 7, 1), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"EDNS in the authority", strangePut(append(strangeQuery(strangeKnown), strangeOPT...), 9, 1), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"EDNS with an owner", strangePut(slices.Concat(strangeQuery(strangeKnown), []byte("\x01a"), strangeOPT), 11, 1), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"EDNS twice", strangeQuery(strangeKnown, strangeEDNS(1232, 0, 0), strangeEDNS(1232, 0, 0)), "FORMERR rd ? vm1.red. A OPT 1232", strangeMalformed, ""}, // RFC 6891, section 6.1.1
	{"EDNS twice for an unknown name", strangeQuery(strangeUnknown, strangeEDNS(512, 0, 0), strangeEDNS(4096, 0, 0)), "FORMERR rd ? www.example.org. A OPT 1232", strangeMalformed, ""},
	{"EDNS twice, versions 1 and 0", strangeQuery(strangeKnown, strangeEDNS(1232, 1, 0), strangeEDNS(1232, 0, 0)), "FORMERR rd ? vm1.red. A OPT 1232", strangeMalformed, ""},

	// Room for the answer.
	{"many addresses", strangeQuery(strangeMany), "NOERROR aa tc rd ? many.red. A = 10.0.2.1 of 30", strangeAnswered, ""},
	{"buffer 0", strangeQuery(strangeKnown, strangeEDNS(0, 0, 0)), strangeRight + " OPT 1232", strangeAnswered, ""},
	{"many addresses, buffer 0", strangeQuery(strangeMany, strangeEDNS(0, 0, 0)), "NOERROR aa tc rd ? many.red. A = 10.0.2.1 of 29 OPT 1232", strangeAnswered, ""},
	{"many addresses, buffer 512", strangeQuery(strangeMany, strangeEDNS(512, 0, 0)), "NOERROR aa tc rd ? many.red. A = 10.0.2.1 of 29 OPT 1232", strangeAnswered, ""},
	{"many addresses, buffer 4096", strangeQuery(strangeMany, strangeEDNS(4096, 0, 0)), "NOERROR aa rd ? many.red. A = 10.0.2.1 of 60 OPT 1232", strangeAnswered, ""},

	// Types.
	{"type HTTPS", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeHTTPS)), "NOERROR aa rd ? vm1.red. HTTPS SOA red.", strangeAnswered, ""},
	{"type HTTPS of an unknown name", strangeQuery(strangeUnknown, strangeSet(inType, dns.TypeHTTPS)), "NOERROR aa rd ? www.example.org. HTTPS SOA org.", strangeUpstream, "NXDOMAIN aa rd ? www.example.org. HTTPS SOA org."},
	{"type SVCB", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeSVCB)), "NOERROR aa rd ? vm1.red. SVCB SOA red.", strangeAnswered, ""},
	{"type SVCB of an unknown name", strangeQuery(strangeUnknown, strangeSet(inType, dns.TypeSVCB)), "NOERROR aa rd ? www.example.org. SVCB SOA org.", strangeUpstream, "NXDOMAIN aa rd ? www.example.org. SVCB SOA org."},
	{"type 1000", strangeQuery(strangeKnown, strangeSet(inType, 1000)), "NOERROR aa rd ? vm1.red. TYPE1000 SOA red.", strangeAnswered, ""},
	{"type 1000 of an unknown name", strangeQuery(strangeUnknown, strangeSet(inType, 1000)), "NOERROR aa rd ? www.example.org. TYPE1000 SOA org.", strangeUpstream, "NXDOMAIN aa rd ? www.example.org. TYPE1000 SOA org."},
	{"type 0", strangeQuery(strangeKnown, strangeSet(inType, 0)), "NOERROR aa rd ? vm1.red. None SOA red.", strangeAnswered, ""},
	{"type 65535", strangeQuery(strangeKnown, strangeSet(inType, 65535)), "NOERROR aa rd ? vm1.red. Reserved SOA red.", strangeAnswered, ""},
	{"type OPT", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeOPT)), "FORMERR rd ? vm1.red. OPT", strangeNoData, ""},
	{"type TKEY", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeTKEY)), "FORMERR rd ? vm1.red. TKEY", strangeNoData, ""},
	{"type TSIG", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeTSIG)), "FORMERR rd ? vm1.red. TSIG", strangeNoData, ""},
	{"type MAILA", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeMAILA)), "NOTIMP rd ? vm1.red. MAILA", strangeNoData, ""},
	{"type MAILB", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeMAILB)), "NOTIMP rd ? vm1.red. MAILB", strangeNoData, ""},
	{"type TSIG with EDNS", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeTSIG), strangeEDNS(4096, 0, 0)), "FORMERR rd ? vm1.red. TSIG OPT 1232", strangeNoData, ""},
	{"type TSIG with EDNS DO", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeTSIG), strangeEDNS(4096, 0, 0xffff)), "FORMERR rd ? vm1.red. TSIG OPT 1232 flags 8000", strangeNoData, ""},
	{"type TSIG with EDNS version 1", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeTSIG), strangeEDNS(4096, 1, 0)), "BADVERS rd ? vm1.red. TSIG OPT 1232", strangeForeign, ""},
	{"type NXNAME of an unknown name", strangeQuery(strangeUnknown, strangeSet(inType, 128)), "FORMERR rd ? www.example.org. NXNAME", strangeNoData, ""}, // RFC 9824, section 3.4
	{"type AXFR", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeAXFR)), "REFUSED rd ? vm1.red. AXFR", strangeTransfer, ""},
	{"type AXFR with EDNS DO", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeAXFR), strangeEDNS(1232, 0, 0x8000)), "REFUSED rd ? vm1.red. AXFR OPT 1232 flags 8000", strangeTransfer, ""},
	{"type AXFR of an unknown name", strangeQuery(strangeUnknown, strangeSet(inType, dns.TypeAXFR)), "REFUSED rd ? www.example.org. AXFR", strangeTransfer, ""},
	{"type IXFR", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeIXFR), strangeRecords(0, 1, 0)), "REFUSED rd ? vm1.red. IXFR", strangeTransfer, ""},
	{"type DS", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeDS)), "NOERROR aa rd ? vm1.red. DS SOA red.", strangeAnswered, ""},
	{"type ANY", strangeQuery(strangeKnown, strangeSet(inType, dns.TypeANY)), "NOERROR aa rd ? vm1.red. ANY = 10.0.0.31 of 2", strangeAnswered, ""},

	// Messages that are cut off, and one that goes on.
	{"nothing", nil, "", strangeShort, ""},
	{"one byte", strangeQuery(strangeKnown)[:1], "", strangeShort, ""},
	{"11 bytes", strangeQuery(strangeKnown)[:11], "", strangeShort, ""},
	{"12 bytes", strangeQuery(strangeKnown)[:12], strangeNothing, strangeMalformed, ""},
	{"cut in a label", strangeQuery(strangeKnown)[:14], strangeNothing, strangeMalformed, ""},
	{"cut between labels", strangeQuery(strangeKnown)[:16], strangeNothing, strangeMalformed, ""},
	{"cut before the end of the name", strangeQuery(strangeKnown)[:20], strangeNothing, strangeMalformed, ""},
	{"cut before the type", strangeQuery(strangeKnown)[:21], strangeNothing, strangeMalformed, ""},
	{"cut in the type", strangeQuery(strangeKnown)[:22], strangeNothing, strangeMalformed, ""},
	{"cut before the class", strangeQuery(strangeKnown)[:23], strangeNothing, strangeMalformed, ""},
	{"cut in the class", strangeQuery(strangeKnown)[:24], strangeNothing, strangeMalformed, ""},
	{"cut before the class, unknown name", strangeQuery(strangeUnknown)[:31], strangeNothing, strangeMalformed, ""},
	{"bytes behind", append(strangeQuery(strangeKnown), 1, 2, 3), strangeRight, strangeAnswered, ""},

	// Names.
	{"pointer to itself", strangeAsks(0xc0, 12), strangeNothing, strangeMalformed, ""},
	{"pointers in a circle", strangeAsks(1, 'a', 0xc0, 12), strangeNothing, strangeMalformed, ""},
	{"pointer out of the message", strangeAsks(0xc0, 200), strangeNothing, strangeMalformed, ""},
	{"pointer cut off", strangeAsks(0xc0)[:13], strangeNothing, strangeMalformed, ""},
	{"pointer forward", append(strangeAsks(0xc0, 18), "\x03vm1\x03red\x00"...), strangeNothing, strangeMalformed, ""},
	{"pointer forward of a record", strangePut(append(strangeQuery(strangeKnown), 0xc0, 41, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1, 0), 11, 1), "FORMERR rd ? vm1.red. A", strangeMalformed, ""},
	{"pointer to a zero in the header", strangeAsks([]byte("\x03vm1\x03red\xc0\x04")...), strangeRight, strangeAnswered, ""},
	{"label of type 0x40", strangeAsks(0x41, 'a', 0), strangeNothing, strangeMalformed, ""},
	{"label of type 0x80", strangeAsks(0x81, 'a', 0), strangeNothing, strangeMalformed, ""},
	{"bytes of the name in other case", strangeQuery("vM1.rED."), "NOERROR aa rd ? vM1.rED. A = 10.0.0.31", strangeAnswered, ""},
	{"one label with the dot inside", strangeQuery(`vm1\.red.`), `NXDOMAIN aa rd ? vm1\.red. A SOA vm1\.red.`, strangeUpstream, ""},
	{"a NUL in a label", strangeQuery(`vm1\000.red.`), `NXDOMAIN aa rd ? vm1\000.red. A SOA red.`, strangeOwn, ""},
	{"a name of 255 bytes", strangeQuery(strangeLong), "NXDOMAIN aa rd ? " + strangeLong + " A SOA " + strangeLong[192:], strangeUpstream, ""},
	{"a name of 255 NULs", strangeQuery(strings.ReplaceAll(strangeLong, "x", `\000`)), strings.ReplaceAll("NXDOMAIN aa rd ? "+strangeLong+" A SOA "+strangeLong[192:], "x", `\000`), strangeUpstream, ""},
	{"a name of 256 bytes", strangeAsks([]byte(strings.Repeat("\x3f"+strings.Repeat("x", 63), 3) + "\x3e" + strings.Repeat("x", 62) + "\x00")...), strangeNothing, strangeMalformed, ""},
	{"the root", strangeQuery(".", strangeSet(inType, dns.TypeNS)), "NXDOMAIN aa rd ? . NS SOA .", strangeUpstream, "SERVFAIL rd ? . NS"},
}

// strangeQuery is a query for the A records of a name, with changes.
func strangeQuery(name string, changes ...func(*dns.Msg)) []byte {
	m := new(dns.Msg).SetQuestion(name, dns.TypeA)
	for _, change := range changes {
		change(m)
	}
	b, err := m.Pack()
	if err != nil {
		panic(err) // a literal of this file
	}
	return b
}

// Fields for strangeSet.
func inOpcode(m *dns.Msg, v uint16) { m.Opcode = int(v) }
func inType(m *dns.Msg, v uint16)   { m.Question[0].Qtype = v }
func inClass(m *dns.Msg, v uint16)  { m.Question[0].Qclass = v }

func strangeSet(field func(*dns.Msg, uint16), v uint16) func(*dns.Msg) {
	return func(m *dns.Msg) { field(m, v) }
}

func strangeNoQuestion(m *dns.Msg) { m.Question = nil }

// strangeRecords adds so many records to the sections behind the question.
func strangeRecords(answer, authority, additional int) func(*dns.Msg) {
	rr := &dns.A{Hdr: dns.RR_Header{Name: strangeKnown, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, 66)}
	return func(m *dns.Msg) {
		m.Answer = slices.Repeat([]dns.RR{rr}, answer)
		m.Ns = slices.Repeat([]dns.RR{rr}, authority)
		m.Extra = slices.Repeat([]dns.RR{rr}, additional)
	}
}

// strangeOption is of those for local use.
var strangeOption = &dns.EDNS0_LOCAL{Code: 65001, Data: []byte{1, 2}}

// strangeOPT is a record of EDNS.
var strangeOPT = []byte{0, 0, byte(dns.TypeOPT), 4, 0xd0, 0, 0, 0, 0, 0, 0}

func strangeEDNS(size uint16, version uint8, flags uint16, options ...dns.EDNS0) func(*dns.Msg) {
	return func(m *dns.Msg) {
		m.Extra = append(m.Extra, &dns.OPT{
			Hdr:    dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: size, Ttl: uint32(version)<<16 | uint32(flags)},
			Option: options,
		})
	}
}

// strangePut overwrites bytes of a message.
func strangePut(m []byte, at int, b ...byte) []byte {
	copy(m[at:], b)
	return m
}

// strangeAsks is a query with a name as it is on the wire.
func strangeAsks(name ...byte) []byte {
	return slices.Concat([]byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, name, []byte{0, byte(dns.TypeA), 0, dns.ClassINET})
}

// strangeAnswer writes a message: ra, status and other flags, ? the question, = the first of
// the answers, the owner of an SOA record, OPT with buffer, flags and options.
func strangeAnswer(b []byte) string {
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		return fmt.Sprintf("%x: %v", b, err)
	}
	var words []string
	say := func(when bool, what string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(what, args...))
		}
	}
	status := dns.RcodeToString[m.Rcode]
	if m.Rcode == dns.RcodeBadVers {
		status = "BADVERS" // the table has BADSIG, which has the same number
	}
	say(m.RecursionAvailable, "ra")
	say(!m.Response, "query")
	say(m.Opcode != dns.OpcodeQuery, "opcode %d", m.Opcode)
	say(true, "%s", status)
	say(m.Authoritative, "aa")
	say(m.Truncated, "tc")
	say(m.RecursionDesired, "rd")
	say(m.Zero, "z")
	say(m.AuthenticatedData, "ad")
	say(m.CheckingDisabled, "cd")
	for _, q := range m.Question {
		say(true, "? %s", q.Name)
		say(q.Qclass != dns.ClassINET, "%s", dns.Class(q.Qclass))
		say(true, "%s", dns.Type(q.Qtype))
	}
	if len(m.Answer) > 0 {
		say(true, "= %s", strings.TrimPrefix(m.Answer[0].String(), m.Answer[0].Header().String()))
		say(len(m.Answer) > 1, "of %d", len(m.Answer))
	}
	for _, rr := range m.Ns {
		say(true, "%s %s", dns.Type(rr.Header().Rrtype), rr.Header().Name)
	}
	for _, rr := range m.Extra {
		o, ok := rr.(*dns.OPT)
		if !ok {
			say(true, "and %s", rr)
			continue
		}
		say(true, "OPT %d", o.UDPSize())
		say(o.Version() != 0, "version %d", o.Version())
		say(o.Hdr.Ttl&0xffff != 0, "flags %04x", o.Hdr.Ttl&0xffff)
		for _, e := range o.Option {
			say(true, "option %d", e.Option())
		}
	}
	say(len(b) > m.Len(), "and %d bytes", len(b)-m.Len())
	return strings.Join(words, " ")
}

// What becomes of each message, in the modes that puntdns has. One resolver family a mode is enough: the
// message does not know which family brought it.
func TestQuestions(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	emptyPort(n.Lab, "red", "red-vm1", "02:00:00:00:00:31 10.0.0.31 fd00:10::31", "vm1")
	emptyPort(n.Lab, "red", "red-many", "02:00:00:00:00:32 "+addresses(60), "many")
	n.Sync()
	const domain = "domain red\n"
	upstream := n.Upstream(strangeUnknown + " 60 IN A 192.0.2.1")

	t.Run("service", func(t *testing.T) {
		s := serve(t, n.Lab, pipelineCorefile("", domain+"fallthrough", "forward . "+upstream.Addr))
		testQuestionsService(t, n, s, resolver4, upstream)
		s.endWell()
	})
	t.Run("service alone", func(t *testing.T) {
		s := serve(t, n.Lab, pipelineCorefile("", domain, ""))
		testQuestionsService(t, n, s, resolver6, nil)
		s.endWell()
	})
	t.Run("hijack", func(t *testing.T) {
		s := serve(t, n.Lab, pipelineCorefile(modes[1].properties, domain+modes[1].fall, modes[1].behind))
		testQuestionsHijack(t, n, s, "10.0.0.12")
		s.endWell()
	})
}

// testQuestionsService asks puntdns. Without an upstream there is nobody behind it.
func testQuestionsService(t *testing.T, n *routed, s *server, resolver string, upstream *lab.DNSServer) {
	before := s.outcomes()
	for i, q := range strangeQuestions {
		inTurn(t, q.name, func(t *testing.T) {
			client := newStrangeClient(t, n.vm, resolver, 2*i)
			var asked, due []dns.Question
			if upstream != nil {
				client.ra = strangeRecursive
				asked = upstream.Asked()
			}
			answer := q.want
			switch {
			case upstream == nil && q.alone != "":
				answer = q.alone
			case upstream != nil && answer != "" && q.outcome != strangeOpcode:
				answer = strangeRecursive + answer
			}
			query := client.send(t, q.query)
			if answer != "" {
				client.want(t, query, answer)
			}
			client.mark(t)
			before = s.tell(t, before, strangeCounted(q.outcome.service))
			if upstream == nil {
				return
			}
			if q.outcome.upstream {
				m := new(dns.Msg)
				if err := m.Unpack(query); err != nil {
					t.Fatal(err)
				}
				due = m.Question
			}
			if got := upstream.Asked()[len(asked):]; !slices.Equal(got, due) {
				t.Errorf("the upstream was asked %v, want %v", got, due)
			}
		})
	}
}

// testQuestionsHijack asks a server of the tenant, whose port gets what puntdns
// has no answer to.
func testQuestionsHijack(t *testing.T, n *routed, s *server, server string) {
	behind := datagrams(t, n.peer, net.JoinHostPort(server, "53"))
	before := s.outcomes()
	for i, q := range strangeQuestions {
		inTurn(t, q.name, func(t *testing.T) {
			client := newStrangeClient(t, n.vm, server, 2*i)
			client.ra = strangeRecursive
			query := client.send(t, q.query)
			if q.outcome.hijack == strangeAnswered.hijack {
				client.want(t, query, strangeRecursive+q.want)
			}
			client.mark(t)
			now := s.tell(t, before, strangeCounted(q.outcome.hijack))
			resumed := now.since(before)[strangeAnswered.hijack] == 1
			before = now
			if !resumed {
				return
			}
			// A message that comes twice, or though it was answered, is there
			// in the place of the next one.
			if got := behind.next(t); !bytes.Equal(got, query) {
				t.Errorf("arrived\n%x, want\n%x", got, query)
			}
		})
	}
}

// strangeCounted is the packet-ins of a query and of a mark.
func strangeCounted(outcome string) outcomes {
	o := outcomes{strangeAnswered.service: 1}
	o[outcome]++
	return o
}

// strangeRecursive is of an answer where what is not known goes to somebody else.
const strangeRecursive = "ra "

// next is the next datagram.
func (b datagramBox) next(t *testing.T) []byte {
	t.Helper()
	if err := b.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1500)
	n, _, err := b.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// strangeClient has one question on the way at a time.
type strangeClient struct {
	net.Conn
	id uint16 // of the last
	ra string // before what a mark gets
}

func newStrangeClient(t *testing.T, g *lab.Guest, server string, id int) *strangeClient {
	t.Helper()
	conn, err := g.Dial(within(t, wait), "udp", net.JoinHostPort(server, "53"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &strangeClient{Conn: conn, id: uint16(id)}
}

// send sends a message with an ID of its own, if there is room for it, and returns it.
func (c *strangeClient) send(t *testing.T, query []byte) []byte {
	t.Helper()
	c.id++
	query = slices.Clone(query)
	if len(query) >= 2 {
		binary.BigEndian.PutUint16(query, c.id)
	}
	if _, err := c.Write(query); err != nil {
		t.Fatal(err)
	}
	return query
}

// want takes the next answer.
func (c *strangeClient) want(t *testing.T, query []byte, want string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1500)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	if got := strangeAnswer(buf[:n]); !bytes.HasPrefix(buf, query[:2]) || got != want {
		t.Errorf("the answer to %x is\n%s, want\n%s\n%x", query, got, want, buf[:n])
	}
}

// mark asks for a known name: what was to come before has come by now.
func (c *strangeClient) mark(t *testing.T) {
	t.Helper()
	c.want(t, c.send(t, strangeQuery(strangeKnown)), c.ra+strangeRight)
}
