// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// The two tests of this file take a minute each. Go starts tests in the order of the files' names: at the end of the
// suite they would run alone.

// wireCase is a frame that is not quite what a resolver library sends.
type wireCase struct {
	name  string
	v6    bool
	extra []byte     // as in udpFrame
	noSum bool       // as in udpFrame
	zero  string     // "query" or "answer": the one whose UDP checksum comes out as 0
	long  bool       // with padding (RFC 7830)
	edits []wireEdit // of the frame that was right before
	tag   bool       // one VLAN tag more than the guest's frames have

	// What becomes of its packet-in in service mode; none where the switch has
	// no reason to punt it.
	result, reason string
	rcode          int // of the answer to what is refused
	// lost is set where OVN drops the frame by itself.
	lost bool
}

// wireEdit changes a frame.
type wireEdit func([]byte) []byte

// Where the headers begin in a frame without tag, options and extension headers.
const (
	wireIP   = 14
	wireUDP4 = wireIP + 20
	wireUDP6 = wireIP + 40
)

func wirePut(at int, b ...byte) wireEdit {
	return func(f []byte) []byte { copy(f[at:], b); return f }
}

// wireAdd adds to a 16-bit field.
func wireAdd(at, n int) wireEdit {
	return func(f []byte) []byte {
		binary.BigEndian.PutUint16(f[at:], binary.BigEndian.Uint16(f[at:])+uint16(n))
		return f
	}
}

// wireBehind puts bytes behind the IP packet, where Ethernet has its padding.
func wireBehind(b ...byte) wireEdit {
	return func(f []byte) []byte { return append(f, b...) }
}

// wireSumIP makes the checksum of an IPv4 header right.
func wireSumIP(f []byte) []byte {
	h := f[wireIP : wireIP+4*int(f[wireIP]&0xf)]
	copy(h[10:], []byte{0, 0})
	binary.BigEndian.PutUint16(h[10:], internetSum(h))
	return f
}

// wireSumUDP makes the UDP checksum right for the length that UDP has.
func wireSumUDP(f []byte) []byte {
	addresses, u := f[wireIP+12:wireUDP4], f[wireUDP4:]
	if f[12] == 0x86 {
		addresses, u = f[wireIP+8:wireUDP6], f[wireUDP6:]
	}
	u = u[:binary.BigEndian.Uint16(u[4:])]
	copy(u[6:], []byte{0, 0})
	binary.BigEndian.PutUint16(u[6:], internetSum(slices.Concat(addresses, []byte{0, 17}, u[4:6], u)))
	return f
}

// wireSumPseudo leaves the checksum as a virtual interface does that has
// hardware finish it: of the pseudo header, and not complemented.
func wireSumPseudo(f []byte) []byte {
	addresses, u := f[wireIP+12:wireUDP4], f[wireUDP4:]
	if f[12] == 0x86 {
		addresses, u = f[wireIP+8:wireUDP6], f[wireUDP6:]
	}
	binary.BigEndian.PutUint16(u[6:], ^internetSum(slices.Concat(addresses, []byte{0, 17}, u[4:6])))
	return f
}

// wireCut is how many bytes of the datagram its first fragment has.
const wireCut = 24

// wireFragment4 leaves the bytes from and up to of the datagram, 0 for its end.
func wireFragment4(from, to int) wireEdit {
	return func(f []byte) []byte {
		datagram, more := f[wireUDP4:], byte(0)
		if to == 0 {
			to = len(datagram)
		} else {
			more = 0x20
		}
		f = append(f[:wireUDP4:wireUDP4], datagram[from:to]...)
		binary.BigEndian.PutUint16(f[wireIP+2:], uint16(len(f)-wireIP))
		copy(f[wireIP+4:], []byte{0x12, 0x34, more, byte(from / 8)})
		return wireSumIP(f)
	}
}

// wireFragment6 is the same for IPv6.
func wireFragment6(from, to int) wireEdit {
	return func(f []byte) []byte {
		datagram, more := f[wireUDP6:], byte(0)
		if to == 0 {
			to = len(datagram)
		} else {
			more = 1
		}
		f = append(f[:wireUDP6:wireUDP6], 17, 0, byte(from>>8), byte(from)|more, 0, 0, 0x12, 0x34)
		f = append(f, datagram[from:to]...)
		binary.BigEndian.PutUint16(f[wireIP+4:], uint16(len(f)-wireUDP6))
		f[wireIP+6] = 44
		return f
	}
}

// IPv6 extension headers that hold 4 bytes of padding, by what follows them.
var (
	wireOptions   = []byte{17, 0, 1, 4, 0, 0, 0, 0}
	wireOptions60 = []byte{60, 0, 1, 4, 0, 0, 0, 0}
	wireOptions0  = []byte{0, 0, 1, 4, 0, 0, 0, 0}
)

// wireNext is the type of what follows the IPv6 header.
func wireNext(header byte) []wireEdit { return []wireEdit{wirePut(wireIP+6, header)} }

// wireCases has, of what puntdns drops, one frame for each reason: TestUDPRefused of ofpunt/frame has all.
var wireCases = []wireCase{
	{name: "IPv4", result: "answered", reason: "chain"},
	{name: "IPv6", v6: true, result: "answered", reason: "chain"},
	{name: "IPv4 options", extra: []byte{0x94, 4, 0, 0, 1, 0, 0, 0}, result: "answered", reason: "chain"}, // router alert
	{name: "IPv4 options as long as can be", extra: bytes.Repeat([]byte{1}, 40), result: "answered", reason: "chain"},
	{name: "IPv6 hop-by-hop options", v6: true, extra: wireOptions, result: "answered", reason: "chain"},
	{name: "IPv6 destination options", v6: true, extra: wireOptions, edits: wireNext(60), result: "answered", reason: "chain"},
	{name: "IPv6 hop-by-hop and destination options", v6: true, extra: slices.Concat(wireOptions60, wireOptions), result: "answered", reason: "chain"},
	{name: "IPv6 routing header without segments left", v6: true, extra: []byte{17, 0, 0, 0, 0, 0, 0, 0}, edits: wireNext(43), result: "answered", reason: "chain"},
	{name: "IPv6 fragment header of a whole packet", v6: true, extra: []byte{17, 0, 0, 0, 1, 2, 3, 4}, edits: wireNext(44), result: "answered", reason: "chain"}, // RFC 6946
	{name: "IPv4 padding behind the packet", edits: []wireEdit{wireBehind(1, 2, 3, 4, 5, 6, 7)}, result: "answered", reason: "chain"},
	{name: "IPv6 padding behind the packet", v6: true, edits: []wireEdit{wireBehind(1, 2, 3, 4, 5, 6, 7)}, result: "answered", reason: "chain"},
	{name: "IPv4 UDP shorter than IP", edits: []wireEdit{wireBehind(9, 9, 9), wireAdd(wireIP+2, 3), wireSumIP}, result: "answered", reason: "chain"},
	{name: "IPv6 UDP shorter than IP", v6: true, edits: []wireEdit{wireBehind(9, 9, 9), wireAdd(wireIP+4, 3)}, result: "answered", reason: "chain"},

	{name: "IPv4 no UDP checksum", noSum: true, result: "answered", reason: "chain"},
	{name: "IPv6 no UDP checksum", v6: true, noSum: true, result: "dropped", reason: "udp-checksum"}, // RFC 8200, section 8.1
	{name: "IPv4 UDP checksum of the pseudo header", edits: []wireEdit{wireSumPseudo}, result: "answered", reason: "chain"},
	{name: "IPv6 UDP checksum of the pseudo header", v6: true, edits: []wireEdit{wireSumPseudo}, result: "answered", reason: "chain"},
	{name: "IPv4 UDP checksum 0 of the query", zero: "query", result: "answered", reason: "chain"},
	{name: "IPv6 UDP checksum 0 of the query", v6: true, zero: "query", result: "answered", reason: "chain"},
	{name: "IPv4 UDP checksum 0 of the answer", zero: "answer", result: "answered", reason: "chain"},
	{name: "IPv6 UDP checksum 0 of the answer", v6: true, zero: "answer", result: "answered", reason: "chain"},

	{name: "IPv6 UDP length within the DNS header", v6: true, edits: []wireEdit{wirePut(wireUDP6+4, 0, 8+11), wireSumUDP}, result: "dropped", reason: "short"},
	{name: "IPv4 UDP length within the question", edits: []wireEdit{wirePut(wireUDP4+4, 0, 8+15), wireSumUDP}, result: "refused", reason: "malformed", rcode: dns.RcodeFormatError},
	{name: "IPv6 UDP length within the question", v6: true, edits: []wireEdit{wirePut(wireUDP6+4, 0, 8+15), wireSumUDP}, result: "refused", reason: "malformed", rcode: dns.RcodeFormatError},
	{name: "IPv4 length within the datagram", edits: []wireEdit{wireAdd(wireIP+2, -5), wireSumIP}, result: "dropped", reason: "udp-length"},

	{name: "IPv4 header of version 5", edits: []wireEdit{wirePut(wireIP, 0x55), wireSumIP}, result: "dropped", reason: "ip-header"},
	{name: "IPv4 wrong header checksum", edits: []wireEdit{wireAdd(wireIP+10, 1)}, result: "dropped", reason: "ip-checksum"},
	{name: "IPv4 source route", extra: []byte{131, 7, 4, 10, 0, 0, 9, 0}, result: "dropped", reason: "ip-options"},
	{name: "IPv6 hop-by-hop options behind others", v6: true, extra: slices.Concat(wireOptions0, wireOptions), edits: wireNext(60), result: "dropped", reason: "extension-headers"},
	{name: "IPv6 routing header with a segment left", v6: true, extra: []byte{17, 0, 0, 1, 0, 0, 0, 0}, edits: wireNext(43), result: "dropped", reason: "routing-header"},
	{name: "IPv6 authentication header", v6: true, extra: []byte{17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1}, edits: wireNext(51), result: "dropped", reason: "protocol"},
	{name: "IPv4 from loopback", edits: []wireEdit{wirePut(wireIP+12, 127), wireSumIP, wireSumUDP}, result: "dropped", reason: "source-address"},
	{name: "IPv4 from port 0", edits: []wireEdit{wirePut(wireUDP4, 0, 0), wireSumUDP}, result: "dropped", reason: "port"},
	{name: "IPv4 to everybody's MAC", edits: []wireEdit{wirePut(0, 255, 255, 255, 255, 255, 255)}, result: "dropped", reason: "destination-mac"},

	// These end in the switch or go on, and no packet-in tells of them.
	{name: "IPv4 first fragment", edits: []wireEdit{wireFragment4(0, wireCut)}},
	{name: "IPv4 later fragment", edits: []wireEdit{wireFragment4(wireCut, 0)}},
	{name: "IPv6 first fragment", v6: true, edits: []wireEdit{wireFragment6(0, wireCut)}},
	{name: "IPv6 later fragment", v6: true, edits: []wireEdit{wireFragment6(wireCut, 0)}},
	{name: "IPv4 whole datagram and more to come", edits: []wireEdit{wirePut(wireIP+6, 0x20), wireSumIP}},
	{name: "IPv4 length beyond the frame", edits: []wireEdit{wireAdd(wireIP+2, 1), wireSumIP}},
	{name: "IPv6 length beyond the frame", v6: true, edits: []wireEdit{wireAdd(wireIP+4, 1)}},
	{name: "IPv4 header of 16 bytes", edits: []wireEdit{wirePut(wireIP, 0x44)}},
	{name: "IPv4 a VLAN tag more", tag: true},
	{name: "IPv6 a VLAN tag more", v6: true, tag: true},
	{name: "IPv4 from a group's MAC", edits: []wireEdit{wirePut(6, 3)}, lost: true},
}

// wireAsker is the MAC of the frames, not that of the guest's interface: what the
// kernels of the guests say on their own has another.
const wireAsker = "02:00:00:00:0a:11"

// wireNobody is a MAC that no port has.
const wireNobody = "02:00:00:00:0b:0b"

// wireTarget is whom a frame is for. Answers in its name have RA if it is recursive.
type wireTarget struct {
	mac, v4, v6 string
	recursive   bool
}

var wireResolver = wireTarget{mac: wireNobody, v4: resolver4 + ":53", v6: "[" + resolver6 + "]:53"}

// Names that the guests' switches have and have not. The first is not in a DNS
// row: OVN's own DNS does not answer to it.
const (
	wireKnown   = "vm1."
	wireUnknown = "www.example.org."
)

// build makes the frame, and the one that answers it right.
func (c wireCase) build(t *testing.T, to wireTarget, qname string, tag []byte) (query, answer []byte) {
	t.Helper()
	f := udpFrame{srcMAC: wireAsker, dstMAC: to.mac, src: "10.0.0.11:40000", dst: to.v4, ttl: 64, extra: c.extra, noSum: c.noSum}
	sumAt := wireUDP4 + 6
	if c.v6 {
		f.src, f.dst = "[fd00:10::11]:40000", to.v6
		sumAt = wireUDP6 + 6
	}
	q := new(dns.Msg).SetQuestion(qname, dns.TypeA)
	q.Id = 0x2a2a
	if c.long {
		q.SetEdns0(dns.MinMsgSize, false)
		q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_PADDING{Padding: make([]byte, 1350)}}
	}
	both := func() (query, answer []byte) {
		f.payload = pack(t, q)
		r := new(dns.Msg).SetReply(q)
		r.Authoritative, r.RecursionAvailable = true, to.recursive
		r.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: qname, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 30}, A: net.IPv4(10, 0, 0, 11)}}
		if c.rcode != 0 {
			r = &dns.Msg{MsgHdr: dns.MsgHdr{Id: q.Id, Response: true, RecursionDesired: true, Rcode: c.rcode}}
		}
		back := udpFrame{srcMAC: to.mac, dstMAC: wireAsker, src: f.dst, dst: f.src, ttl: 64, payload: pack(t, r)}
		if back.v4() {
			back.flags = 0x40
		}
		return f.build(t), back.build(t)
	}
	query, answer = both()
	if c.zero != "" {
		// The sum grows with the ID, so that it is 0 for one of them.
		sum := func() uint16 {
			return binary.BigEndian.Uint16(map[string][]byte{"query": query, "answer": answer}[c.zero][sumAt:])
		}
		for id := 0; sum() != 0xffff; id++ {
			if id > 0xffff {
				t.Fatalf("%s: no ID has it", c.name)
			}
			q.Id = uint16(id)
			query, answer = both()
		}
	}
	for _, e := range c.edits {
		query = e(query)
	}
	if c.tag {
		query = slices.Insert(query, 12, 0x81, 0, 0, 9)
	}
	return slices.Insert(query, 12, tag...), slices.Insert(answer, 12, tag...)
}

// becomes is what the packet-in of the frame is counted as; nothing if there is
// none. In hijack mode the name is one that nobody here has.
func (c wireCase) becomes(side *wireSide, hijack bool) (result, reason string) {
	result, reason = c.result, c.reason
	if c.tag && side.tag != nil {
		result, reason = "dropped", "two-tags"
	}
	if hijack && result != "" {
		result = "resumed"
	}
	return result, reason
}

// ends is whether OVN drops the frame by itself.
func (c wireCase) ends(side *wireSide) bool { return c.lost || c.tag && side.tag == nil }

// wireSide is a switch with two guests. Nothing checks what they send. Their kernels have link-local addresses
// alone, and say nothing to the answers.
type wireSide struct {
	name     string
	tag      []byte // of each frame
	vm, peer *lab.Guest
}

// wireNet has a switch whose guests send no tags, one that passes them through,
// and one that knows connections.
type wireNet struct {
	*lab.Lab
	sides   []*wireSide
	tracked *wireSide
}

func newWireNet(t *testing.T) *wireNet {
	t.Helper()
	n := &wireNet{Lab: lab.New(t, lab.Options{})}
	for _, side := range []*wireSide{{name: "red"}, {name: "trunk", tag: []byte{0x81, 0, 0xa0, 7}}, {name: "tracked"}} {
		n.AddSwitch(side.name)
		guest := func(role, hostname string, number int) *lab.Guest {
			mac := fmt.Sprintf("02:00:00:00:00:%d", number)
			return n.Node.AddGuest(lab.Guest{
				Name: side.name + "-" + role, Switch: side.name, MAC: mac,
				Addresses: fmt.Sprintf("%s 10.0.0.%d fd00:10::%d", mac, number, number), Hostname: hostname,
			})
		}
		side.vm, side.peer = guest("vm", "vm1", 11), guest("peer", "vm2", 12)
		n.sides = append(n.sides, side)
	}
	n.tracked, n.sides = n.sides[2], n.sides[:2]
	n.NBCTL("set", "Logical_Switch", "trunk", "other_config:vlan-passthru=true")
	for _, direction := range []string{"from-lport", "to-lport"} {
		n.NBCTL("acl-add", "tracked", direction, "1000", "ip", "allow-related")
	}
	n.AddDNS(map[string]string{"db.internal": "10.0.0.9"}, "red", "trunk", "tracked")
	n.Sync()
	return n
}

// wireProfile is where the pprof plugin listens, by which a test has garbage collected.
const wireProfile = "127.0.0.1:6053"

func wireCorefile(properties, fall, behind string) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        ` + unlimited(properties) + `
    }
    errors
    pprof ` + wireProfile + `
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ovnhosts {
        southbound $SB
        ` + fall + `
    }
    ` + behind + `
}
`
}

// outcomes counts packet-ins by result and reason.
type outcomes map[string]int

func (o outcomes) add(result, reason string, n int) {
	if n != 0 && result != "" {
		o[result+" "+reason] += n
	}
}

func (o outcomes) total() (n int) {
	for _, v := range o {
		n += v
	}
	return n
}

// since leaves out what was there before, and what did not change.
func (o outcomes) since(before outcomes) outcomes {
	d := outcomes{}
	for k, v := range o {
		if v != before[k] {
			d[k] = v - before[k]
		}
	}
	return d
}

// outcomes are the packet-ins so far.
func (s *server) outcomes() outcomes {
	s.t.Helper()
	o := outcomes{}
	for _, m := range s.families()["coredns_ofpunt_packet_ins_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["bridge"] != lab.Bridge {
			s.t.Errorf("packet-ins of the bridge %q", labels["bridge"])
		}
		o.add(labels["result"], labels["reason"], int(m.GetCounter().GetValue()))
	}
	return o
}

// tell waits until as many packet-ins are counted since before as in want, fails
// unless they are the same, and returns the count.
func (s *server) tell(t *testing.T, before, want outcomes) outcomes {
	t.Helper()
	var now outcomes
	s.l.Eventually("the count of packet-ins", func() error {
		now = s.outcomes()
		if got := now.since(before); got.total() < want.total() {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
	if got := now.since(before); !maps.Equal(got, want) {
		t.Errorf("packet-ins: %v, want %v", got, want)
	}
	return now
}

// switchCount is what the switch knows of packets: how many entered it from the
// guests who ask, came to our entry flows, and ended in the ingress pipeline of
// a logical switch; and how many packet-ins did not fit into its queue.
type switchCount struct{ received, punted, dropped, overflowed int }

var (
	wirePackets  = regexp.MustCompile(`cookie=0x([0-9a-f]+), .* table=(\d+), n_packets=(\d+),`)
	wireReceived = regexp.MustCompile(`rx pkts=(\d+),`)
	wireOverflow = regexp.MustCompile(`(?m)^rconn_overflow .*total: (\d+)$`)
)

func (c switchCount) since(before switchCount) switchCount {
	return switchCount{
		c.received - before.received, c.punted - before.punted, c.dropped - before.dropped, c.overflowed - before.overflowed,
	}
}

// check takes more received than are wanted: those of the guests' kernels.
func (c switchCount) check(t *testing.T, want switchCount) {
	t.Helper()
	if c.received < want.received || c.punted != want.punted || c.dropped != want.dropped || c.overflowed != want.overflowed {
		t.Errorf("the switch counts %+v, want %+v", c, want)
	}
}

func (n *wireNet) count(t *testing.T) (c switchCount) {
	t.Helper()
	number := func(s string) int {
		t.Helper()
		v, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// The cookie of a flow is the beginning of its logical flow's UUID.
	drops := map[uint64]bool{}
	for _, id := range strings.Fields(n.SBCTL("--bare", "--columns=_uuid", "find", "Logical_Flow", "pipeline=ingress", `actions="drop;"`)) {
		cookie, err := strconv.ParseUint(id[:8], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		drops[cookie] = true
	}
	// The switch adds up what cached flows have seen from time to time.
	n.Node.Revalidate()
	for _, m := range wirePackets.FindAllStringSubmatch(n.Node.OFCTL("dump-flows", lab.Bridge), -1) {
		cookie, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case drops[cookie]:
			c.dropped += number(m[3])
		case cookie>>40 == 0x70646e && !isPrivate(m[2]):
			c.punted += number(m[3])
		}
	}
	for _, side := range n.sides {
		c.received += number(wireReceived.FindStringSubmatch(n.Node.OFCTL("dump-ports", lab.Bridge, strconv.Itoa(side.vm.OFPort)))[1])
	}
	if m := wireOverflow.FindStringSubmatch(n.Node.AppCtl("ovs-vswitchd", "coverage/show")); m != nil {
		c.overflowed = number(m[1])
	}
	return c
}

// wireTo and wireFrom accept the frames that have wireAsker as their destination and source. The kernels of the
// guests send none of these: they announce the groups of their link-local addresses (MLD) from their own MAC.
func wireTo(f []byte) bool   { return len(f) >= 14 && net.HardwareAddr(f[:6]).String() == wireAsker }
func wireFrom(f []byte) bool { return len(f) >= 14 && net.HardwareAddr(f[6:12]).String() == wireAsker }

// Frames that are odd, down to the byte, on their way through the switch.

func TestWireService(t *testing.T) {
	t.Parallel()
	n := newWireNet(t)
	s := serve(t, n.Lab, wireCorefile("", "", ""))
	for _, side := range n.sides {
		t.Run(side.name, func(t *testing.T) { testWireService(t, n, s, side) })
	}
	t.Run("reassembled", func(t *testing.T) { testWireReassembled(t, n, s, false) })
	t.Run("many", func(t *testing.T) { testWireMany(t, n, s, false, wireResolver) })
	s.endWell()
}

func TestWireHijack(t *testing.T) {
	t.Parallel()
	n := newWireNet(t)
	s := serve(t, n.Lab, wireCorefile("address any", "fallthrough", "passthrough"))
	for _, side := range n.sides {
		t.Run(side.name, func(t *testing.T) { testWireHijack(t, n, s, side) })
	}
	t.Run("reassembled", func(t *testing.T) { testWireReassembled(t, n, s, true) })
	t.Run("many", func(t *testing.T) {
		// OVN's own DNS, behind the punt, has a queue that nobody waits for here.
		for _, side := range n.sides {
			n.NBCTL("clear", "Logical_Switch", side.name, "dns_records")
		}
		n.Sync()
		testWireMany(t, n, s, true, wireTarget{wireNobody, "10.0.0.99:53", "[fd00:10::99]:53", true})
	})
	s.endWell()
}

// wireEnd is a packet socket whose frames have to be those that are expected.
type wireEnd struct {
	*lab.Raw
	accept func([]byte) bool
}

func newWireEnd(t *testing.T, g *lab.Guest, accept func([]byte) bool) wireEnd {
	t.Helper()
	e := wireEnd{g.Raw(), accept}
	t.Cleanup(func() { e.Close() })
	return e
}

func (e wireEnd) send(t *testing.T, f []byte) {
	t.Helper()
	if err := e.Send(f); err != nil {
		t.Fatal(err)
	}
}

func (e wireEnd) want(t *testing.T, want []byte) {
	t.Helper()
	got, err := e.RecvMatch(within(t, wait), e.accept)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("the frame is\n%x, want\n%x", got, want)
	}
}

// inTurn is one of many subtests. If it has waited in vain the next ones may, too.
func inTurn(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	began := time.Now()
	if !t.Run(name, f) && time.Since(began) >= wait {
		t.Fatalf("%s has waited in vain, the others are left out", name)
	}
}

func testWireService(t *testing.T, n *wireNet, s *server, side *wireSide) {
	vm := newWireEnd(t, side.vm, wireTo)
	mark, marked := wireCase{}.build(t, wireResolver, wireKnown, side.tag)
	before, seen := s.outcomes(), n.count(t)
	var wantSeen switchCount
	for _, c := range wireCases {
		inTurn(t, c.name, func(t *testing.T) {
			query, answer := c.build(t, wireResolver, wireKnown, side.tag)
			result, reason := c.becomes(side, false)
			vm.send(t, query)
			if result == "answered" || result == "refused" {
				vm.want(t, answer)
			}
			// What comes late is not the next answer, or is seen in the counters.
			vm.send(t, mark)
			vm.want(t, marked)
			want := outcomes{"answered chain": 1}
			want.add(result, reason, 1)
			before = s.tell(t, before, want)
			wantSeen.received += 2
			wantSeen.punted += want.total()
			if result == "" {
				wantSeen.dropped++
			}
		})
	}
	n.count(t).since(seen).check(t, wantSeen)
}

func testWireHijack(t *testing.T, n *wireNet, s *server, side *wireSide) {
	to := wireTarget{side.peer.MAC, "10.0.0.12:53", "[fd00:10::12]:53", true}
	vm, peer := newWireEnd(t, side.vm, wireTo), newWireEnd(t, side.peer, wireFrom)
	mark, _ := wireCase{}.build(t, to, wireUnknown, side.tag)
	before, seen := s.outcomes(), n.count(t)
	var wantSeen switchCount
	for _, c := range wireCases {
		inTurn(t, c.name, func(t *testing.T) {
			query, _ := c.build(t, to, wireUnknown, side.tag)
			result, reason := c.becomes(side, true)
			vm.send(t, query)
			if c.ends(side) {
				wantSeen.dropped++
			} else {
				// It goes on as it came.
				peer.want(t, query)
			}
			want := outcomes{"resumed chain": 1}
			want.add(result, reason, 1)
			wantSeen.received += 2
			if result == "resumed" && reason == "chain" {
				query, answer := c.build(t, to, wireKnown, side.tag)
				vm.send(t, query)
				vm.want(t, answer)
				want.add("answered", "chain", 1)
				wantSeen.received++
			}
			vm.send(t, mark)
			peer.want(t, mark)
			before = s.tell(t, before, want)
			wantSeen.punted += want.total()
		})
	}
	n.count(t).since(seen).check(t, wantSeen)
}

// testWireReassembled has connection tracking look at whole queries that come in
// two fragments. They leave it as they came, and nobody punts them.
func testWireReassembled(t *testing.T, n *wireNet, s *server, hijack bool) {
	side := n.tracked
	to := wireTarget{side.peer.MAC, resolver4 + ":53", "[" + resolver6 + "]:53", hijack}
	if hijack {
		to.v4, to.v6 = "10.0.0.12:53", "[fd00:10::12]:53"
	}
	vm, peer := newWireEnd(t, side.vm, wireTo), newWireEnd(t, side.peer, wireFrom)
	before := s.outcomes()
	// Connection tracking takes a first fragment from 1,200 bytes on, 1,280 in IPv6.
	const cut = 1280
	for _, pair := range [][2]wireCase{
		{{edits: []wireEdit{wireFragment4(0, cut)}}, {edits: []wireEdit{wireFragment4(cut, 0)}}},
		{{v6: true, edits: []wireEdit{wireFragment6(0, cut)}}, {v6: true, edits: []wireEdit{wireFragment6(cut, 0)}}},
	} {
		var parts [][]byte
		for _, c := range pair {
			c.long = true
			f, _ := c.build(t, to, wireKnown, nil)
			vm.send(t, f)
			parts = append(parts, f)
		}
		for _, f := range parts {
			peer.want(t, f)
		}
	}
	mark, marked := wireCase{}.build(t, to, wireKnown, nil)
	vm.send(t, mark)
	vm.want(t, marked)
	s.tell(t, before, outcomes{"answered chain": 1})
}

// Frames in a batch: the switch queues 100 packet-ins and drops what comes then.
const wireBatch = 64

// testWireMany sends all of the cases again and again, by turns from both guests,
// until the memory of the process would tell if it kept something of each.
func testWireMany(t *testing.T, n *wireNet, s *server, hijack bool, to wireTarget) {
	const warm, frames = 20_000, 100_000
	type item struct {
		query, answer  []byte
		result, reason string
	}
	type guest struct {
		wireEnd
		items []item
		next  int
	}
	var guests []*guest
	for _, side := range n.sides {
		g := &guest{wireEnd: newWireEnd(t, side.vm, wireTo)}
		for i, c := range wireCases {
			one, name := item{}, wireKnown
			one.result, one.reason = c.becomes(side, hijack)
			if hijack && one.reason == "chain" {
				if i%2 == 0 {
					one.result = "answered"
				} else {
					name = wireUnknown
				}
			}
			one.query, one.answer = c.build(t, to, name, side.tag)
			g.items = append(g.items, one)
		}
		guests = append(guests, g)
	}
	var sent, gone int
	want := outcomes{}
	send := func(total int) {
		t.Helper()
		for i := 0; sent < total; i++ {
			g := guests[i%len(guests)]
			due := map[string]int{}
			for k := range wireBatch {
				one := g.items[g.next%len(g.items)]
				if k == wireBatch-1 {
					// A plain query: its answer says that the queue has none left of
					// those before it.
					one = g.items[0]
				} else {
					g.next++
				}
				g.send(t, one.query)
				sent++
				want.add(one.result, one.reason, 1)
				switch one.result {
				case "answered", "refused":
					due[string(one.answer)]++
				case "", "resumed":
					if one.query[0]&1 == 0 { // those for a group go to all guests
						gone++
					}
				}
			}
			ctx := within(t, wait)
			for len(due) > 0 {
				got, err := g.RecvMatch(ctx, g.accept)
				if err != nil {
					t.Fatalf("after %d frames %d answers are due: %v\n%+v", sent, len(due), err, n.count(t))
				}
				switch due[string(got)]--; due[string(got)] {
				case 0:
					delete(due, string(got))
				case -1:
					t.Fatalf("after %d frames, an answer to none:\n%x", sent, got)
				}
			}
		}
	}
	before, seen := s.outcomes(), n.count(t)
	send(warm)
	s.tell(t, before, want)
	level := s.collected(t)
	send(warm + frames)
	s.tell(t, before, want)
	now := s.collected(t)
	// Each frame was punted, and counted by puntdns, or ended in the switch.
	n.count(t).since(seen).check(t, switchCount{received: sent, punted: want.total(), dropped: gone})
	t.Logf("%d frames: %v, %d ended in the switch; %+v, then %+v", sent, want, gone, level, now)
	// Of the heap that is 30 bytes a frame. The race detector has memory of its
	// own. A burst may wake more workers than those before it.
	if now.heap > level.heap+frames*30 || now.resident > level.resident+32<<20 || now.goroutines > level.goroutines+wireBatch {
		t.Errorf("after %d frames %+v, after %d more %+v", warm, level, frames, now)
	}
}

// wireUsage is what a process needs. Of what is resident it has no memory that is free for the heap: that is as
// much as the garbage was at its most, and more on a busy machine.
type wireUsage struct{ heap, resident, goroutines float64 }

// collected collects garbage before it looks.
func (s *server) collected(t *testing.T) wireUsage {
	t.Helper()
	s.collectGarbage(wireProfile)
	free := s.metric("go_memstats_heap_idle_bytes") - s.metric("go_memstats_heap_released_bytes")
	return wireUsage{s.metric("go_memstats_heap_inuse_bytes"), s.metric("process_resident_memory_bytes") - free, s.metric("go_goroutines")}
}
