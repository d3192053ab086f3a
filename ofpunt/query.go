// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// query is one punted packet, or one message of a TCP connection, on its way through
// a chain. It is not reused:
// plugins may keep its writer, and an answer must never reach another guest.
type query struct {
	server  *server
	session *session
	arrived time.Time

	// message is the whole packet-in, which a resume gives back.
	message []byte
	punt    openflow.PacketIn
	// ends are of the frame that brought payload, the DNS message. One that came over
	// TCP has the stream instead of the packet-in.
	ends    frame.Ends
	payload []byte
	stream  *stream
	// local is the port of the bridge that it came from.
	local  *vswitch.Interface
	origin origin.Origin
	// tag is the VLAN id that the answer gets pushed: OVN has stripped that of a
	// container.
	tag uint16

	// context, request and writer are what the chain gets.
	context queryContext
	request dns.Msg
	writer  writer

	// prepared is set once prepare has run, on whichever goroutine.
	prepared bool
	// onReader is set while the reader of the connection does the query.
	onReader atomic.Bool

	// asking is who the limit of one guest is for.
	asking         guestKey
	slot           int
	guest, network *inFlightCount
	// parsed is set once ends, payload, origin and request are, for a query that a
	// chain has to answer: other goroutines may read them then.
	parsed atomic.Bool
	// done is set by whoever answers, resumes or gives up first.
	done atomic.Bool
}

// queryKey is the context key of a *query.
type queryKey struct{}

// queryContext carries all that a chain looks for: one context of four values is
// a quarter of four contexts of one.
type queryContext struct {
	context.Context
	q *query
}

// Value implements context.Context.
func (c *queryContext) Value(key any) any {
	switch key.(type) {
	case queryKey:
		return c.q
	case origin.Key:
		return &c.q.origin
	case dnsserver.Key:
		return c.q.server.dns
	case dnsserver.LoopKey:
		return 0
	}
	return nil
}

var (
	errDone      = errors.New("the punted query has been answered already")
	errNotPaused = errors.New("the punt was not paused, it can't be resumed")
)

// run takes the packet through the chain.
func (q *query) run() {
	defer func() {
		q.caught(recover())
		if q.guest != nil {
			q.server.admission.release(q)
			q.session.pending.Add(-1)
		}
		if q.stream != nil {
			q.stream.end()
		}
	}()
	if !q.prepared {
		q.prepare()
	}
	if q.parsed.Load() {
		q.ask()
	}
}

// begin prepares the query. It tells whether the rest waits for nobody.
func (q *query) begin() bool {
	defer func() { q.caught(recover()) }()
	q.prepare()
	return q.atHand()
}

// atHand tells of a prepared query whether the rest waits for nobody: there is no
// chain to ask, or the asker's network has the name.
func (q *query) atHand() bool {
	if !q.parsed.Load() {
		return true
	}
	scope := q.server.source.Snapshot().SwitchScope(q.origin.Network)
	if scope.Own == nil {
		return false
	}
	_, ok := scope.Lookup(strings.ToLower(q.request.Question[0].Name), "")
	return ok
}

// caught takes a panic. It costs its query and no more; the log has the first of a
// server, a metric all.
func (q *query) caught(r any) {
	if r == nil {
		return
	}
	if !q.server.panicked.Swap(true) {
		log.Errorf("Recovered from a panic over a punt of bridge %s, further ones are counted: %v\n%s", q.server.options.Bridge, r, debug.Stack())
	}
	q.drop(reasonPanic)
}

// prepare does all that needs no chain, once. For a query that a chain has to
// answer it sets parsed.
func (q *query) prepare() {
	q.prepared = true
	if q.stream != nil {
		q.judge()
		return
	}
	if err := q.punt.Decode(q.message); err != nil {
		q.drop(reasonForeign)
		return
	}
	switch frame.KindOf(q.punt.Data) {
	case frame.KindProbe:
		q.probe()
	case frame.KindARP, frame.KindICMPv6:
		q.neighbor()
	case frame.KindTCP:
		q.segment()
	default:
		q.parse()
	}
}

// probe gives a probe back to the lease, unless the chains are stuck.
func (q *query) probe() {
	token, ok := frame.ParseProbe(q.punt.Data)
	if ok && q.done.CompareAndSwap(false, true) && !q.server.admission.stuck(q.arrived) {
		q.session.lease.returned(token)
	}
}

// parse reads the datagram.
func (q *query) parse() {
	if err := q.datagram(q.punt.Data); err != nil {
		q.pass(dropped, refusal(err))
		return
	}
	if !q.identify() {
		q.refuse(dns.RcodeServerFailure, reasonOrigin)
		return
	}
	q.judge()
}

func (q *query) datagram(b []byte) error {
	var u frame.UDP
	err := u.Decode(b)
	q.ends, q.payload = u.Ends, u.Payload
	return err
}

// judge reads the DNS message.
func (q *query) judge() {
	switch accept(q.payload) {
	case acceptShort:
		q.pass(dropped, reasonShort)
		return
	case acceptResponse:
		q.pass(dropped, reasonResponse)
		return
	case acceptMalformed:
		q.refuse(dns.RcodeFormatError, reasonMalformed)
		return
	case acceptOpcode:
		q.refuse(dns.RcodeNotImplemented, reasonOpcode)
		return
	}
	r := &q.request
	if err := r.Unpack(q.payload); err != nil || !sound(r) {
		q.refuse(dns.RcodeFormatError, reasonMalformed)
		return
	}
	if q.server.options.hijack() && q.stream == nil && foreign(r) {
		q.pass(resumed, reasonForeignQuery)
		return
	}

	q.parsed.Store(true)
}

// ask takes the query through its chain.
func (q *query) ask() {
	r := &q.request
	q.context = queryContext{context.Background(), q}
	q.writer.init(q)
	q.server.dns.ServeDNS(&q.context, &q.writer, r)
	q.drop(reasonUnanswered)
}

// sound tells whether a message that could be unpacked can be answered, too: a
// header alone unpacks without an error, and so does one that ends in the question
// before the type or the class (a class of 0 is reserved, RFC 6895 section 3.2).
// Two OPT records are an error by RFC 6891, section 6.1.1.
func sound(r *dns.Msg) bool {
	if len(r.Question) != 1 || r.Question[0].Qclass == 0 {
		return false
	}
	opts := 0
	for _, rr := range r.Extra {
		if rr.Header().Rrtype == dns.TypeOPT {
			opts++
		}
	}
	return opts <= 1
}

// refusal is the label of an error of the frame package.
func refusal(err error) string {
	var r frame.Refusal
	if errors.As(err, &r) {
		return string(r)
	}
	return reasonMalformed
}

// asker is the port that a packet came from, by what the switch says.
type asker struct {
	network    origin.Network
	port, from string // names of the logical port and its switch
	tag        uint16 // of a container, whose frames have lost it in the pipeline
}

// asker tells who sent the packet; tagged is whether the frame has a tag. It is
// false for somebody who is not known, or of whom the switch says too little.
func (q *query) asker(tagged bool) (a asker, ok bool) {
	if q.server.options.Placement == placement.OVN {
		p := q.server.source.Snapshot().Guest(uint32(q.punt.Metadata), q.punt.Regs[placement.RegInPort])
		if p == nil || q.local == nil {
			return a, false
		}
		a = asker{network: p.Network, port: p.Name, from: p.SwitchName}
		iface := p.Name
		if p.IsContainer() {
			a.tag, iface = p.Tag, p.Parent
		}
		// ovn-controller lags behind the switch: a number that has passed to another
		// port may carry the registers of the port before.
		return a, q.local.IfaceID == iface
	}
	if q.local == nil {
		return a, false
	}
	a = asker{port: q.local.IfaceID, from: q.local.NetworkID}
	if q.server.source != nil {
		p := q.server.source.Snapshot().PortByName(a.port)
		switch {
		case p == nil:
		case tagged:
			// A container in the VM, perhaps of another tenant: the tag would
			// tell, but nothing before has checked it.
			return a, false
		default:
			a.network, a.from = p.Network, p.SwitchName
		}
	}
	return a, true
}

// identify fills in the origin.
func (q *query) identify() bool {
	a, ok := q.asker(q.ends.Tagged)
	if !ok {
		return false
	}
	q.origin = origin.Origin{
		Bridge:      q.server.options.Bridge,
		InPort:      q.punt.InPort,
		VLAN:        a.tag,
		Network:     a.network,
		Switch:      a.from,
		Port:        a.port,
		MAC:         q.ends.SrcMAC,
		Destination: q.ends.Dst,
	}
	q.tag = a.tag
	if q.ends.Tagged {
		// The tag is still on the frame, so it is the guest's own business.
		q.origin.VLAN, q.tag = q.ends.VLAN, 0
	}
	if q.punt.Paused() {
		q.origin.Resumer = q
	}
	return true
}

// Resume gives the packet back to the switch, on to its own destination. It is
// origin.Resumer.
func (q *query) Resume() error {
	if !q.punt.Paused() {
		return errNotPaused
	}
	return q.resume(reasonChain)
}

func (q *query) resume(reason string) error {
	if !q.done.CompareAndSwap(false, true) {
		return errDone
	}
	b := buffers.get()
	defer buffers.put(b)
	var err error
	b.message, err = openflow.AppendResume(b.message[:0], q.message, q.session.conn.NextXID())
	if err == nil {
		err = q.write(b.message)
	}
	if err != nil {
		q.count(dropped, reasonConnection)
		return err
	}
	q.count(resumed, reason)
	return nil
}

// refuse answers with an error that no plugin has a say in. In hijack mode the
// packet goes on to its own destination instead: somebody there may know better.
func (q *query) refuse(rcode int, reason string) {
	if q.punt.Paused() && (q.server.options.hijack() || reason == reasonOrigin) {
		q.pass(resumed, reason)
		return
	}
	q.replyError(rcode, refused, reason)
}

// replyError answers with rcode and the question.
func (q *query) replyError(rcode int, result, reason string) {
	b := buffers.get()
	defer buffers.put(b)
	answer := appendError(b.answer[:0], q.payload, rcode)
	if answer == nil {
		q.drop(reasonShort)
		return
	}
	b.answer = answer
	_ = q.reply(b, result, reason) // counted there
}

// reply sends b.answer, unless somebody has dealt with the query before, and
// counts it.
func (q *query) reply(b *buffer, result, reason string) error {
	if !q.done.CompareAndSwap(false, true) {
		return errDone
	}
	if q.session.bridge.moved(q.local, q.punt.InPort) {
		q.count(dropped, reasonPort)
		return nil
	}
	if err := q.send(b); err != nil {
		q.count(dropped, reasonConnection)
		return err
	}
	q.count(result, reason)
	return nil
}

// moved tells whether the OpenFlow port that a packet came from is another guest's by
// now: the answer is for nobody else. Who is not known gets an error without data.
func (b *bridge) moved(was *vswitch.Interface, inPort uint32) bool {
	if was == nil {
		return false
	}
	i := b.portAt(b.view.Load(), inPort)
	return i == nil || i.UUID != was.UUID
}

// count counts what became of the query.
func (q *query) count(result, reason string) {
	if q.stream != nil {
		q.session.tally.countStream(result, reason)
		return
	}
	q.session.tally.count(result, reason)
}

// pass resumes the packet if it is paused, and else counts it with result.
func (q *query) pass(result, reason string) {
	if q.punt.Paused() {
		_ = q.resume(reason) // counted there
		return
	}
	if q.done.CompareAndSwap(false, true) {
		q.count(result, reason)
	}
}

// drop counts the packet as dropped unless it has been answered.
func (q *query) drop(reason string) {
	if q.done.CompareAndSwap(false, true) {
		q.count(dropped, reason)
	}
}

// expire answers in the place of a chain that takes too long. The query stays in
// flight until its chain returns.
func (q *query) expire() {
	if !q.done.Load() && q.parsed.Load() {
		q.replyError(dns.RcodeServerFailure, answered, reasonDeadline)
	}
}

// send returns b.answer to the guest.
func (q *query) send(b *buffer) error {
	if q.stream != nil {
		return q.stream.send(b, q.arrived.Add(answerDeadline))
	}
	var err error
	if b.frame, err = q.ends.AppendDatagram(b.frame[:0], b.answer, true); err != nil {
		return err
	}
	return q.packetOut(b, q.tag)
}

// packetOut sends b.frame to where the punt came from, with a VLAN tag pushed unless
// tag is 0.
func (q *query) packetOut(b *buffer, tag uint16) error {
	conn, actions, err := q.session.conn, q.session.out, error(nil)
	if tag != 0 {
		if actions, err = answerActions(conn, tag, 0); err != nil {
			return err
		}
	}
	if b.message, err = openflow.AppendPacketOut(b.message[:0], conn.Version(), conn.NextXID(), q.punt.InPort, actions, b.frame); err != nil {
		return err
	}
	return q.write(b.message)
}

// answerActions are the encoded actions that send a frame back to where it came from. A
// tag other than 0 is pushed; and with a zone other than 0 the packet passes through
// connection tracking there first, which follows what the guest has sent.
func answerActions(conn *openflow.Conn, tag, zone uint16) ([]byte, error) {
	var list []openflow.Action
	if zone != 0 {
		list = append(list, openflow.CT{Zone: zone})
	}
	if tag != 0 {
		list = append(list, openflow.PushVLAN{}, openflow.SetVLAN{VID: tag})
	}
	return openflow.AppendActions(nil, conn.Version(), append(list, openflow.Output{Port: openflow.PortInPort})...)
}

// write sends a message, with others where there are any.
func (q *query) write(message []byte) error {
	switch conn := q.session.conn; {
	case q.onReader.Load():
		return conn.WriteLater(message)
	case q.session.pending.Load() <= 1:
		return conn.WriteNow(message)
	default:
		return conn.Write(message)
	}
}

// What accept makes of the header of a DNS message.
type acceptance uint8

const (
	acceptQuery acceptance = iota
	acceptShort
	acceptResponse
	acceptMalformed
	acceptOpcode
)

// accept judges a message by its header, as CoreDNS does on a socket but for NOTIFY.
func accept(m []byte) acceptance {
	if len(m) < headerLen {
		return acceptShort
	}
	h := dns.Header{
		Id:      binary.BigEndian.Uint16(m),
		Bits:    binary.BigEndian.Uint16(m[2:]),
		Qdcount: binary.BigEndian.Uint16(m[4:]),
		Ancount: binary.BigEndian.Uint16(m[6:]),
		Nscount: binary.BigEndian.Uint16(m[8:]),
		Arcount: binary.BigEndian.Uint16(m[10:]),
	}
	// CoreDNS takes NOTIFY, which is for servers that have zones from others: no
	// plugin here does. In hijack mode it is on its way to one that may.
	if h.Bits>>11&0xf == dns.OpcodeNotify && h.Bits&bitQR == 0 {
		return acceptOpcode
	}
	switch dns.DefaultMsgAcceptFunc(h) {
	case dns.MsgAccept:
		return acceptQuery
	case dns.MsgIgnore:
		return acceptResponse
	case dns.MsgRejectNotImplemented:
		return acceptOpcode
	}
	return acceptMalformed
}
