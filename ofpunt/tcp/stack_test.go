// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/share"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// beginLight is set while connections of newStack begin light. All that holds for those that begin
// with gVisor holds for them as well.
var beginLight bool

// twice runs all tests with connections that begin with gVisor, and with those that begin light.
type twice struct{ *testing.M }

func (m twice) Run() (code int) {
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		return m.M.Run()
	}
	for _, beginLight = range []bool{false, true} {
		if code = m.M.Run(); code != 0 {
			fmt.Printf("where connections begin light: %v\n", beginLight)
			return code
		}
	}
	return 0
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(twice{m}) }

// patience is for what comes at once on a machine that is not busy.
const patience = 20 * time.Second

// A handshake and what follows it, in flags.
const (
	syn    = header.TCPFlagSyn
	ack    = header.TCPFlagAck
	fin    = header.TCPFlagFin
	rst    = header.TCPFlagRst
	synAck = syn | ack
	data   = ack | header.TCPFlagPsh
)

func newStack(t *testing.T) *tcp.Stack {
	t.Helper()
	s, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if beginLight {
		s.Handle(func(tcp.Request, []byte) bool { return false }, tcp.Peer.Send)
	}
	return s
}

// client is the other end of a connection, segment by segment.
type client struct {
	t     *testing.T
	stack *tcp.Stack
	key   tcp.Key
	got   chan header.TCP
	// most is how many open connections its owner may have.
	most int
	// options are those of its SYN, window what it says it has room for.
	options []byte
	window  uint16
	// next is its next sequence number, seen what it acknowledges.
	next, seen uint32
}

var (
	guest4    = netip.MustParseAddrPort("10.0.0.5:40000")
	resolver4 = netip.MustParseAddrPort("169.254.169.254:5353")
	guest6    = netip.MustParseAddrPort("[fd00::5]:40000")
	resolver6 = netip.MustParseAddrPort("[fd00::254]:53")
)

func newClient(t *testing.T, s *tcp.Stack, owner any, src, dst netip.AddrPort) *client {
	return &client{
		t: t, stack: s, key: tcp.Key{Network: owner, Owner: owner, Src: src, Dst: dst},
		got: make(chan header.TCP, 4096), most: tcp.MaxOfOwner, window: 65535, next: 0xfffffff0,
	}
}

// Send implements tcp.Peer.
func (c *client) Send(b []byte) { c.got <- bytes.Clone(b) }

// segment is the client's next one.
func (c *client) segment(flags header.TCPFlags, payload []byte) header.TCP {
	var options []byte
	if flags == syn {
		options = c.options
	}
	b := header.TCP(make([]byte, header.TCPMinimumSize+len(options)))
	b.Encode(&header.TCPFields{
		SrcPort: c.key.Src.Port(), DstPort: c.key.Dst.Port(), SeqNum: c.next, AckNum: c.seen,
		DataOffset: uint8(len(b)), Flags: flags, WindowSize: c.window,
	})
	copy(b[header.TCPMinimumSize:], options)
	return append(b, payload...)
}

func (c *client) put(flags header.TCPFlags, payload string) tcp.Outcome {
	outcome, _ := c.stack.Deliver(c.key, c.most, c, c.segment(flags, []byte(payload)), time.Now())
	c.next += uint32(len(payload))
	if flags&(syn|fin) != 0 {
		c.next++
	}
	return outcome
}

func (c *client) mustPut(flags header.TCPFlags, payload string) {
	c.t.Helper()
	if got := c.put(flags, payload); got != tcp.Delivered && got != tcp.Passed && got != tcp.Begun {
		c.t.Fatalf("%s: outcome %d", flags, got)
	}
}

// take is the next segment that came.
func (c *client) take() header.TCP {
	c.t.Helper()
	select {
	case b := <-c.got:
		return b
	case <-time.After(patience):
		c.t.Fatal("no segment came")
		return nil
	}
}

// mustTake takes segments up to one with those flags, which the client's next segment
// acknowledges. Mere acknowledgements may come before it.
func (c *client) mustTake(flags header.TCPFlags) header.TCP {
	c.t.Helper()
	for {
		b := c.take()
		carries := flags == data
		if b.Flags()&^header.TCPFlagPsh == flags&^header.TCPFlagPsh && carries == (len(b.Payload()) > 0) {
			c.seen = b.SequenceNumber() + uint32(len(b.Payload()))
			if flags&(syn|fin) != 0 {
				c.seen++
			}
			return b
		}
		if b.Flags() != ack || len(b.Payload()) > 0 {
			c.t.Fatalf("%s with %d bytes, want %s", b.Flags(), len(b.Payload()), flags)
		}
	}
}

// receive acknowledges data until so many bytes have come.
func (c *client) receive(n int) []byte {
	c.t.Helper()
	got := make([]byte, 0, n)
	for len(got) < n {
		next := c.seen
		if b := c.mustTake(data); b.SequenceNumber() == next {
			got = append(got, b.Payload()...)
		} else {
			c.seen = next // it is there already
		}
		c.mustPut(ack, "")
	}
	return got
}

// connect shakes hands and returns the other side.
func (c *client) connect() *tcp.Conn {
	c.t.Helper()
	c.mustPut(syn, "")
	c.mustTake(synAck)
	c.mustPut(ack, "")
	return accept(c.t, c.stack)
}

// accept returns the next connection. One that began light is handed over once it is idle.
func accept(t *testing.T, s *tcp.Stack) *tcp.Conn {
	t.Helper()
	if beginLight {
		s.Sweep(time.Now().Add(500 * time.Millisecond))
	}
	conn, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// serveEach has f deal with every connection, which is closed then, until the stack is.
func serveEach(s *tcp.Stack, f func(*tcp.Conn)) {
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			f(conn)
		}()
	}
}

// says fails unless the connection brings just that.
func says(t *testing.T, conn *tcp.Conn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, len(want))
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v; want %q", b, err, want)
	}
}

// level sweeps until that many connections are left.
func level(t *testing.T, s *tcp.Stack, now time.Time, want int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d connections are left", want), func() bool {
		s.Sweep(now)
		return s.Connections() == want
	})
}

func TestConversation(t *testing.T) {
	s := newStack(t)
	for _, tt := range []struct {
		name     string
		src, dst netip.AddrPort
	}{
		{"IPv4, another port than 53", guest4, resolver4},
		{"IPv6", guest6, resolver6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, s, "red", tt.src, tt.dst)
			conn := c.connect()
			if conn.Src() != tt.src || conn.Dst() != tt.dst || conn.Peer() != tcp.Peer(c) {
				t.Errorf("from %s to %s", conn.Src(), conn.Dst())
			}
			c.mustPut(data, "ques")
			c.mustPut(data, "tion")
			says(t, conn, "question")
			if err := conn.Send([]byte("answer"), time.Time{}); err != nil {
				t.Fatal(err)
			}
			if got := c.mustTake(data); string(got.Payload()) != "answer" {
				t.Errorf("%q came", got.Payload())
			}
			c.mustPut(fin|ack, "")
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v", err)
			}
			// Half closed: what is still to be said gets there.
			if err := conn.Send([]byte("last"), time.Time{}); err != nil {
				t.Fatal(err)
			}
			if got := c.mustTake(data); string(got.Payload()) != "last" {
				t.Errorf("%q came", got.Payload())
			}
			conn.Close()
			c.mustTake(fin | ack)
			c.mustPut(ack, "")
			level(t, s, time.Now(), 0)
		})
	}
}

// Owners and links that have the same addresses and ports have connections of their
// own.
func TestSameAddresses(t *testing.T) {
	s := newStack(t)
	const each = 20
	var clients []*client
	for _, owner := range []string{"red", "blue"} {
		for link := range each {
			c := newClient(t, s, owner, guest4, resolver4)
			c.key.Link = link
			clients = append(clients, c)
		}
	}
	for _, c := range clients {
		c.mustPut(syn, "")
	}
	var serving sync.WaitGroup
	for _, c := range clients {
		c.mustTake(synAck)
		c.mustPut(ack, "")
		conn := accept(t, s)
		serving.Go(func() {
			defer conn.Close()
			of := conn.Peer().(*client).key
			b := make([]byte, 64)
			n, err := conn.Read(b)
			if want := fmt.Sprint(of.Owner, of.Link); err != nil || string(b[:n]) != want {
				t.Errorf("connection of %s: %q, %v", want, b[:n], err)
			}
			if err := conn.Send(append([]byte("you are "), b[:n]...), time.Time{}); err != nil {
				t.Error(err)
			}
		})
	}
	for _, c := range clients {
		who := fmt.Sprint(c.key.Owner, c.key.Link)
		c.mustPut(data, who)
		if got := c.mustTake(data); string(got.Payload()) != "you are "+who {
			t.Errorf("%s was told %q", who, got.Payload())
		}
	}
	serving.Wait()
}

// What is of no connection is reset as RFC 9293, section 3.10.7.1 wants it.
func TestUnknown(t *testing.T) {
	s := newStack(t)
	for _, tt := range []struct {
		name    string
		flags   header.TCPFlags
		payload string
		want    tcp.Outcome
		// answer is what comes back: its sequence number and acknowledgement count from
		// those of the segment.
		answer header.TCPFlags
		seq    uint32
		ack    uint32
	}{
		{"data", data, "abc", tcp.Reset, rst, 700, 0},
		{"an end", fin | ack, "", tcp.Reset, rst, 700, 0},
		{"the answer to a SYN", synAck, "", tcp.Reset, rst, 700, 0},
		{"a SYN that is an end, too", syn | fin, "ab", tcp.Reset, rst | ack, 0, 104},
		{"nothing", 0, "abc", tcp.Reset, rst | ack, 0, 103},
		{"a reset", rst, "", tcp.Ignored, 0, 0, 0},
		{"a reset with an ACK", rst | ack, "", tcp.Ignored, 0, 0, 0},
		{"a SYN that is a reset, too", syn | rst, "", tcp.Ignored, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, s, "red", guest4, resolver4)
			c.next, c.seen = 100, 700
			if got := c.put(tt.flags, tt.payload); got != tt.want {
				t.Errorf("outcome %d, want %d", got, tt.want)
			}
			if tt.answer == 0 {
				if len(c.got) > 0 {
					t.Errorf("answered with %s", (<-c.got).Flags())
				}
				return
			}
			a := c.take()
			if a.Flags() != tt.answer || a.SequenceNumber() != tt.seq || a.AckNumber() != tt.ack ||
				a.SourcePort() != resolver4.Port() || a.DestinationPort() != guest4.Port() {
				t.Errorf("%s %d %d from %d to %d", a.Flags(), a.SequenceNumber(), a.AckNumber(), a.SourcePort(), a.DestinationPort())
			}
		})
	}
	if n := s.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// One owner's connections leave room for those of others, and half-open ones end.
func TestLimitOfOwner(t *testing.T) {
	s := newStack(t)
	began := time.Now()
	var first *client
	for i := range tcp.MaxOfOwner {
		c := newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		c.mustPut(syn, "")
		c.mustTake(synAck)
		if first == nil {
			first = c
		}
	}
	more := newClient(t, s, "red", guest4, resolver4)
	if got := more.put(syn, ""); got != tcp.Dropped || len(more.got) > 0 {
		t.Errorf("one more while others begin: outcome %d, %d segments", got, len(more.got))
	}
	more.next--
	if got, _ := s.Deliver(more.key, more.most, more, more.segment(syn, nil), time.Now().Add(time.Second)); got != tcp.Full {
		t.Errorf("one more: outcome %d", got)
	}
	more.next++
	if got := more.take(); got.Flags() != rst|ack || got.AckNumber() != more.next {
		t.Errorf("one more is answered with %s %d", got.Flags(), got.AckNumber())
	}
	other := newClient(t, s, "blue", guest4, resolver4)
	other.connect().Close()
	other.mustTake(fin | ack)
	other.mustPut(fin|ack, "")

	// A segment of a connection that is known is taken all the same.
	first.mustPut(ack, "")
	accept(t, s).Close()
	level(t, s, began, tcp.MaxOfOwner) // blue's has ended
	level(t, s, time.Now().Add(6*time.Second), 1)
	if more.put(syn, "") != tcp.Begun {
		t.Error("no room after the half-open ones have gone")
	}
}

// An owner has its own limit, which its segments may change: open connections stay, and the next
// one finds the new limit. No owner has more than its network may have.
func TestLimitByOwner(t *testing.T) {
	s := newStack(t)
	later := time.Now()
	// begin begins connections of an owner until one is refused, and returns them and whose limit
	// that was.
	ports := map[string]uint16{}
	begin := func(owner string, most int) (begun []*client, bound share.Bound) {
		t.Helper()
		for {
			ports[owner]++
			c := newClient(t, s, owner, netip.AddrPortFrom(guest4.Addr(), 1000+ports[owner]), resolver4)
			c.most = most
			later = later.Add(2 * time.Second)
			outcome, exceeded := s.Deliver(c.key, most, c, c.segment(syn, nil), later)
			switch {
			case outcome == tcp.Begun && exceeded == share.None:
				c.next++
				begun = append(begun, c)
			case outcome == tcp.Full:
				return begun, exceeded
			default:
				t.Fatalf("%s, connection %d: outcome %d, bound %d", owner, len(begun), outcome, exceeded)
			}
		}
	}
	var red []*client
	for _, step := range []struct {
		owner string
		most  int
		want  int
		bound share.Bound
	}{
		{"red", 100, 100, share.OfOwner},
		{"blue", 2, 2, share.OfOwner},
		{"green", tcp.MaxOfOwner, tcp.MaxOfOwner, share.OfOwner},
		{"red", 3, 0, share.OfOwner},
		{"red", 120, 20, share.OfOwner},
		{"blue", 1, 0, share.OfOwner},
		{"blue", 3, 1, share.OfOwner},
		{"white", tcp.MaxConnections, (tcp.MaxConnections - 120 - 3 - tcp.MaxOfOwner + 1) / 2, share.OfNetwork},
	} {
		got, bound := begin(step.owner, step.most)
		if len(got) != step.want || bound != step.bound {
			t.Errorf("%s with %d: %d begun, want %d; bound %d, want %d", step.owner, step.most, len(got), step.want, bound, step.bound)
		}
		if step.owner == "red" {
			red = append(red, got...)
		}
	}
	// The connections that there are too many of by now work on.
	for i, c := range red {
		c.most = 3
		c.mustTake(synAck)
		c.mustPut(ack, "")
		conn := accept(t, s)
		if crowded := conn.Crowded(); !crowded {
			t.Errorf("connection %d does not know that there is no room for others", i)
		}
		c.mustPut(data, "hello")
		says(t, conn, "hello")
	}
}

// Of connections that have ended an owner has as many as of open ones.
func TestEndedByLimit(t *testing.T) {
	s := newStack(t)
	for i := range 20 {
		c := newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		c.most = 5
		c.connect().Close()
	}
	if got := s.Connections(); got != 10 {
		t.Errorf("%d connections, want 10", got)
	}
}

// Connections that have ended make room at once: who asks by one after the other, each
// on ports of its own, has one at a time, and is never refused.
func TestOneAfterTheOther(t *testing.T) {
	s := newStack(t)
	for i := range 3 * tcp.MaxOfOwner {
		c := newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		if got := c.put(syn, ""); got != tcp.Begun {
			t.Fatalf("connection %d: outcome %d", i, got)
		}
		c.mustTake(synAck)
		c.mustPut(ack, "")
		conn := accept(t, s)
		c.mustPut(fin|ack, "")
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		conn.Close()
		c.mustTake(fin | ack)
		c.mustPut(ack, "")
		testkit.Eventually(t, "its end", func() bool { return s.Endpoints() <= 1 })
	}
}

// Connections that this end has closed take no room of open ones, whatever the peer has
// made of that; and of those too there are so many at most.
func TestEndedMakeRoom(t *testing.T) {
	s := newStack(t)
	var clients []*client
	begin := func(network, owner any, number int) {
		t.Helper()
		c := newClient(t, s, owner, netip.AddrPortFrom(guest4.Addr(), uint16(1000+number)), resolver4)
		c.key.Network = network
		c.connect().Close()
		clients = append(clients, c)
	}
	for i := range 3 * tcp.MaxOfOwner {
		begin("red", "vm1", i)
	}
	if got := s.Connections(); got != 2*tcp.MaxOfOwner {
		t.Errorf("%d connections of one owner, want %d", got, 2*tcp.MaxOfOwner)
	}
	// Those that were closed first have gone, and their peers know.
	for i, c := range clients {
		reset := false
		for len(c.got) > 0 {
			reset = c.take().Flags()&rst != 0
		}
		if want := i < tcp.MaxOfOwner; reset != want {
			t.Fatalf("connection %d: reset %v, want %v", i, reset, want)
		}
	}
	for i := range tcp.MaxConnections {
		begin("red", i/tcp.MaxOfOwner, i)
	}
	if got := s.Connections(); got != tcp.MaxConnections/2 {
		t.Errorf("%d connections of one network, want %d", got, tcp.MaxConnections/2)
	}
	for i := range tcp.MaxConnections {
		begin(i/100, i/10, i)
	}
	if got := s.Connections(); got > tcp.MaxConnections {
		t.Errorf("%d connections, want %d at most", got, tcp.MaxConnections)
	}
	// Open ones of a network that has no ended ones have the room of others' ended ones.
	var begun []*client
	for i := range tcp.MaxConnections {
		c := newClient(t, s, i/tcp.MaxOfOwner, netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		c.key.Network = "blue"
		if c.put(syn, "") == tcp.Begun {
			begun = append(begun, c)
		}
	}
	if open := len(begun); open != tcp.MaxConnections/2 {
		t.Errorf("%d open connections of another network, want %d", open, tcp.MaxConnections/2)
	}
	// gVisor has looked at a SYN by the time of its SYN-ACK. The hour of the sweep below is
	// that of a flow which gVisor has had seconds to look at.
	for _, c := range begun {
		c.mustTake(synAck)
	}
	level(t, s, time.Now().Add(11*time.Second), 0)
	testkit.Eventually(t, "one endpoint is left", func() bool { return s.Endpoints() <= 1 })
}

// Many owners can't have more than is there for all.
func TestLimitOfAll(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for i := range tcp.MaxConnections {
		newClient(t, s, i, guest4, resolver4).mustPut(syn, "")
	}
	c := newClient(t, s, "more", guest4, resolver4)
	if got, _ := s.Deliver(c.key, c.most, c, c.segment(syn, nil), time.Now().Add(time.Second)); got != tcp.Full {
		t.Errorf("one more: outcome %d", got)
	}
}

// A peer that gives up during the handshake makes room at once; somebody who does not
// know its sequence number can't do that for it.
func TestResetOfHalfOpen(t *testing.T) {
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	c.mustPut(syn, "")
	c.mustTake(synAck)
	right := c.next
	c.next = right + 1<<20 // out of the window
	c.mustPut(rst, "")
	level(t, s, time.Now().Add(2*time.Second), 1)
	c.next = right
	c.mustPut(rst, "")
	level(t, s, time.Now().Add(2*time.Second), 0)
}

// However a peer begins and gives up, nothing of it is left that is not counted, and
// others are not the worse for it.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(c *client)
	}{
		{"a SYN", func(c *client) { c.put(syn, "") }},
		{"a SYN, and its reset right behind it", func(c *client) {
			c.put(syn, "")
			c.put(rst, "")
		}},
		{"SYNs of several numbers, and the reset of the first", func(c *client) {
			first := c.next + 1
			for range 3 {
				c.put(syn, "")
				c.next += 100
			}
			c.next = first
			c.put(rst, "")
		}},
		{"a handshake, and its reset right behind it", func(c *client) {
			c.put(syn, "")
			c.mustTake(synAck)
			c.put(ack, "")
			c.put(rst, "")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			go serveEach(s, func(conn *tcp.Conn) { _, _ = conn.Read(make([]byte, 1)) })
			for i := range tcp.MaxOfOwner {
				tt.do(newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4))
			}
			// By the clock, as gVisor goes by it too.
			testkit.Eventually(t, "no connection is left", func() bool {
				s.Sweep(time.Now())
				return s.Connections() == 0 && s.Endpoints() <= 1
			})
		})
	}
}

// One network leaves room for the others, by however many owners it asks.
func TestLimitOfNetwork(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	taken := 0
	for i := range tcp.MaxConnections {
		c := newClient(t, s, i/tcp.MaxOfOwner, netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		c.key.Network = "red"
		if c.put(syn, "") == tcp.Begun {
			taken++
		}
	}
	if taken != tcp.MaxConnections/2 {
		t.Errorf("%d connections of one network, want %d", taken, tcp.MaxConnections/2)
	}
	newClient(t, s, "blue", guest4, resolver4).mustPut(syn, "")
}

// A peer can't have its answers cut into more segments than there is reason for.
func TestSmallMSS(t *testing.T) {
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	c.options = []byte{2, 4, 0, 1}
	conn := c.connect()
	defer conn.Close()
	if err := conn.Send(make([]byte, 2000), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if got := len(c.mustTake(data).Payload()); got != 536 {
		t.Errorf("a segment of %d bytes, want 536", got)
	}
}

// A peer that does not read loses its connection once it has had its time, or at once
// when there is none; and memory is bounded.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		time time.Duration
	}{{"no time", -time.Second}, {"some time", 200 * time.Millisecond}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			c := newClient(t, s, "red", guest4, resolver4)
			c.window = 100
			conn := c.connect()
			defer conn.Close()
			answer := make([]byte, 60000)
			sent := 0
			for ; sent < 10; sent++ {
				until := time.Now().Add(tt.time)
				if err := conn.Send(answer, until); err != nil {
					if !errors.Is(err, tcp.ErrSlow) {
						t.Errorf("error %v", err)
					}
					if late := time.Since(until); late < 0 {
						t.Errorf("ended %s early", -late)
					}
					break
				}
			}
			if sent < 2 || sent > 4 {
				t.Errorf("%d answers of 60,000 bytes were taken", sent)
			}
			for c.take().Flags()&rst == 0 {
				continue
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("the connection is still there")
			}
		})
	}
}

// A peer that reads gets all that it is sent at once, each message in one piece, however
// much that is.
func TestMuchAtOnce(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	conn := c.connect()
	defer conn.Close()
	const answers, size = 32, 60000
	var sending sync.WaitGroup
	for i := range answers {
		sending.Go(func() {
			if err := conn.Send(bytes.Repeat([]byte{byte(i)}, size), time.Now().Add(patience)); err != nil {
				t.Error(err)
			}
		})
	}
	got := c.receive(answers * size)
	sending.Wait()
	seen := map[byte]bool{}
	for m := got; len(m) > 0; m = m[size:] {
		if seen[m[0]] || !bytes.Equal(m[:size], bytes.Repeat(m[:1], size)) {
			t.Fatalf("message %d is twice or in pieces", m[0])
		}
		seen[m[0]] = true
	}
}

// Answers that are given while another one waits for room leave together, each in one piece: one
// call sends them, and the others do not wait.
func TestSentTogether(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	conn := c.connect()
	defer conn.Close()
	const answers, size, first = 20, 60, 300000
	var sending sync.WaitGroup
	send := func(b []byte) {
		if err := conn.Send(b, time.Now().Add(patience)); err != nil {
			t.Error(err)
		}
	}
	sending.Go(func() { send(make([]byte, first)) })
	testkit.Eventually(t, "the first answer waits", s.Waits)
	sent := make(chan struct{})
	for i := range answers {
		sending.Go(func() {
			send(bytes.Repeat([]byte{byte(1 + i)}, size))
			sent <- struct{}{}
		})
	}
	for range answers - 1 {
		select {
		case <-sent:
		case <-time.After(patience):
			t.Fatal("more than one waits")
		}
	}
	c.receive(first)
	var got []byte
	segments := 0
	for ; len(got) < answers*size; segments++ {
		got = append(got, c.mustTake(data).Payload()...)
		c.mustPut(ack, "")
	}
	<-sent
	sending.Wait()
	if segments > answers/2 {
		t.Errorf("%d segments for %d bytes", segments, len(got))
	}
	seen := map[byte]bool{}
	for m := range slices.Chunk(got, size) {
		if seen[m[0]] || !bytes.Equal(m, bytes.Repeat(m[:1], size)) {
			t.Fatalf("message %d is twice or in pieces", m[0])
		}
		seen[m[0]] = true
	}
}

// What is due when another answer waits for room waits behind that, however late it is:
// the peer reads, and loses nothing.
func TestLateAnswerWaitsItsTurn(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	conn := c.connect()
	defer conn.Close()
	first, late := bytes.Repeat([]byte{1}, 300000), bytes.Repeat([]byte{2}, 1000)
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := conn.Send(first, time.Now().Add(patience)); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, "the first answer waits", s.Waits)
	sending.Go(func() {
		if err := conn.Send(late, time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
	})
	got := c.receive(len(first) + len(late))
	sending.Wait()
	if !bytes.Equal(got, append(first, late...)) {
		t.Errorf("the answers came otherwise")
	}
}

// What waits for peers that do not read is bounded, and an owner and a network leave some
// to others.
func TestHeldIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// each is how many answers of size bytes a connection has at once.
		owners, conns, each, size int
		// network is of somebody who has some.
		network string
	}{
		{"of one owner", 1, 20, 10, 65000, "red"},
		{"of a network", 20, 20, 10, 65000, "blue"},
		{"of one answer each", 1, 20, 1, 500000, "red"},
		{"of many short answers", 1, 20, 100, 8000, "red"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			answer := make([]byte, tt.size)
			until := time.Now().Add(patience)
			var sending sync.WaitGroup
			var refused atomic.Int64
			for i := range tt.conns {
				c := newClient(t, s, i%tt.owners, netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
				c.key.Network = "red"
				c.window = 100
				conn := c.connect()
				for range tt.each {
					sending.Go(func() {
						if err := conn.Send(answer, until); errors.Is(err, tcp.ErrSlow) && time.Now().Before(until) {
							refused.Add(1)
						}
					})
				}
			}
			for refused.Load() == 0 && time.Now().Before(until) {
				time.Sleep(time.Millisecond)
			}
			if refused.Load() == 0 {
				t.Errorf("%d bytes wait for peers", tt.conns*tt.each*tt.size)
			}
			c := newClient(t, s, "other", guest4, resolver4)
			c.key.Network = tt.network
			conn := c.connect()
			const more = 200000 // there is not room for that at once
			sent := make(chan error)
			go func() { sent <- conn.Send(make([]byte, more), time.Now().Add(patience)) }()
			c.receive(more)
			if err := <-sent; err != nil {
				t.Errorf("somebody else: %v", err)
			}
			s.Close() // ends those that wait still
			sending.Wait()
		})
	}
}

// Urgent bytes are no part of the stream, wherever their segments are cut, and come twice.
func TestUrgent(t *testing.T) {
	t.Parallel()
	const urg = data | header.TCPFlagUrg
	type piece struct {
		payload string
		pointer int // urgent, unless it is below 0
		twice   bool
	}
	var many []piece // one more than are remembered
	for range 17 {
		many = append(many, piece{"!", 1, false})
	}
	for _, tt := range []struct {
		name   string
		pieces []piece
		want   string
	}{
		{"at the end", []piece{{"ab!", 3, false}, {"cd", -1, false}}, "abcd"},
		{"alone", []piece{{"ab", -1, false}, {"!", 1, false}, {"cd", -1, false}}, "abcd"},
		{"in the middle", []piece{{"a!b", 2, false}, {"cd", -1, false}}, "abcd"},
		{"said before it comes", []piece{{"ab", 4, false}, {"c!d", -1, false}}, "abcd"},
		{"said twice", []piece{{"ab!", 3, true}, {"cd", -1, false}}, "abcd"},
		{"several", []piece{{"!", 1, false}, {"a!", 2, false}, {"b!cd", 2, false}}, "abcd"},
		{"behind all that there is room for", []piece{{"abcd", 65535, false}}, "abcd"},
		{"a pointer to nothing", []piece{{"ab", -1, false}, {"cd", 0, false}}, "abcd"},
		{"a pointer to nothing, at the beginning", []piece{{"abcd", 0, false}}, "abcd"},
		{"a pointer to nothing behind one to a byte", []piece{{"ab", 4, false}, {"c!d", 0, false}}, "abcd"},
		{"a pointer without URG", []piece{{"ab", -3, false}, {"cd", -1, false}}, "abcd"},
		{"more than are remembered", append(many, piece{"abcd", -1, false}), "!abcd"},
	} {
		for _, atOnce := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, ", at once ", atOnce), func(t *testing.T) {
				s := newStack(t)
				c := newClient(t, s, "red", guest4, resolver4)
				conn := c.connect()
				defer conn.Close()
				for _, p := range tt.pieces {
					flags, pointer := urg, p.pointer
					if pointer < 0 {
						flags, pointer = data, -1-pointer
					}
					b := c.segment(flags, []byte(p.payload))
					b.SetUrgentPointer(uint16(pointer))
					times := 1
					if p.twice {
						times++
					}
					for range times {
						s.Deliver(c.key, c.most, c, b, time.Now())
					}
					c.next += uint32(len(p.payload))
				}
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				b := make([]byte, 1) // byte by byte
				if atOnce {
					b = make([]byte, 16)
				}
				got := []byte{}
				for len(got) < len(tt.want) {
					n, err := conn.Read(b)
					if err != nil {
						t.Fatalf("%v after %q", err, got)
					}
					if n == 0 {
						t.Errorf("no byte after %q", got)
					}
					got = append(got, b[:n]...)
				}
				if string(got) != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		}
	}
}

// A place that is further on than a peer may send is no part of what comes there later.
func TestUrgentFarAhead(t *testing.T) {
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	conn := c.connect()
	defer conn.Close()
	b := c.segment(data|header.TCPFlagUrg, nil)
	b.SetUrgentPointer(65535)
	s.Deliver(c.key, c.most, c, b, time.Now())
	const size = 1000
	for i := range 70 {
		payload := strings.Repeat(string(rune('a'+i%26)), size)
		c.mustPut(data, payload)
		says(t, conn, payload)
	}
}

// Places are the places of the current connection, also if its ports had another connection and its SYN came
// twice.
func TestUrgentAfterAnotherSYN(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(c *client)
	}{
		{"of an attempt that was given up", func(c *client) {
			c.mustPut(syn, "")
			c.mustTake(synAck)
			c.mustPut(rst, "")
			testkit.Eventually(c.t, "its end", func() bool { return c.stack.Endpoints() <= 1 })
			c.next += 1 << 20
			c.mustPut(syn, "")
		}},
		{"the same, with an urgent pointer", func(c *client) {
			c.mustPut(syn, "")
			c.mustTake(synAck)
			c.next--
			b := c.segment(syn|header.TCPFlagUrg, nil)
			b.SetUrgentPointer(2)
			c.stack.Deliver(c.key, c.most, c, b, time.Now())
			c.next++
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStack(t)
			c := newClient(t, s, "red", guest4, resolver4)
			tt.do(c)
			c.mustTake(synAck)
			c.mustPut(ack, "")
			conn := accept(t, s)
			defer conn.Close()
			b := c.segment(data|header.TCPFlagUrg, []byte("ab!"))
			b.SetUrgentPointer(3)
			s.Deliver(c.key, c.most, c, b, time.Now())
			c.next += 3
			c.mustPut(data, "cd")
			says(t, conn, "abcd")
		})
	}
}

// What is reserved for reading is bounded for an owner and a network; others wait until
// there is room.
func TestReserve(t *testing.T) {
	s := newStack(t)
	conns := map[string]*tcp.Conn{}
	for i, who := range []string{"vm1", "vm2", "vm3"} {
		c := newClient(t, s, who, netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		c.key.Network = "red"
		conns[who] = c.connect()
		defer conns[who].Close()
	}
	const quarter = 8 << 20
	soon := func() time.Time { return time.Now().Add(10 * time.Millisecond) }
	if !conns["vm1"].Reserve(quarter, soon()) {
		t.Error("no room for a quarter")
	}
	if conns["vm1"].Reserve(1, soon()) {
		t.Error("one owner has more than a quarter")
	}
	if !conns["vm2"].Reserve(quarter, soon()) {
		t.Error("no room for another owner")
	}
	if conns["vm3"].Reserve(1, soon()) {
		t.Error("one network has more than half")
	}
	got := make(chan bool)
	reserve := func(who string, until time.Time) {
		t.Helper()
		go func() { got <- conns[who].Reserve(quarter, until) }()
		testkit.Eventually(t, who+" waits for room", s.WaitsForRoom)
	}
	for range 3 { // what was given back counts for nobody
		reserve("vm3", time.Now().Add(patience))
		conns["vm1"].Release(quarter)
		if !<-got {
			t.Fatal("no room though there is some again")
		}
		conns["vm3"].Release(quarter)
		if !conns["vm1"].Reserve(quarter, soon()) {
			t.Fatal("no room for the one who has given it back")
		}
	}
	conns["vm1"].Release(quarter)
	conns["vm2"].Release(quarter)
	if bytes, counts := s.Reserved(); bytes != 0 || counts != 0 {
		t.Errorf("%d bytes are reserved, by %d counts, though all was given back", bytes, counts)
	}
	if !conns["vm1"].Reserve(quarter, soon()) {
		t.Error("no room though nobody has any")
	}
	reserve("vm1", time.Now().Add(time.Hour))
	s.Close()
	select {
	case ok := <-got:
		if ok {
			t.Error("room in a stack that is closed")
		}
	case <-time.After(patience):
		t.Fatal("it still waits for room in a stack that is closed")
	}
}

// Timestamps are not agreed on, whatever else the SYN has.
func TestTimestamps(t *testing.T) {
	s := newStack(t)
	for _, tt := range []struct {
		name    string
		options []byte
	}{
		{"as Linux has it", []byte{2, 4, 5, 80, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7}},
		{"behind NOPs", []byte{1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0}},
		{"behind one that lies about its length", []byte{2, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0}},
		{"cut off", []byte{1, 1, 8, 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, s, tt.name, guest4, resolver4)
			c.options = tt.options
			c.mustPut(syn, "")
			got := c.take()
			if bytes.Contains(got[header.TCPMinimumSize:got.DataOffset()], []byte{8, 10}) {
				t.Errorf("options % x", got[header.TCPMinimumSize:got.DataOffset()])
			}
		})
	}
}

// The ports are free as soon as the connection has ended, by either side.
func TestPortsAgain(t *testing.T) {
	s := newStack(t)
	for i := range 5 {
		c := newClient(t, s, "red", guest4, resolver4)
		c.next = uint32(i) * 1000 // lower or higher
		conn := c.connect()
		conn.Close()
		c.mustTake(fin | ack)
		c.mustPut(fin|ack, "")
		c.mustTake(ack)
	}
}

// So are those of a connection that the peer has reset, though nobody has closed ours.
func TestPortsAgainAfterReset(t *testing.T) {
	s := newStack(t)
	for range 5 {
		c := newClient(t, s, "red", guest4, resolver4)
		conn := c.connect()
		c.mustPut(rst, "")
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Fatal("read after a reset")
		}
		defer conn.Close()
	}
}

// A connection whose peer has gone silent after the end is given up.
func TestSilentEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	c.connect().Close()
	c.mustTake(fin | ack)
	level(t, s, time.Now(), 1)
	level(t, s, time.Now().Add(11*time.Second), 0)
	for c.take().Flags()&rst == 0 {
		continue
	}
}

func TestClose(t *testing.T) {
	s := newStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	conn := c.connect()
	half := newClient(t, s, "blue", guest4, resolver4)
	half.mustPut(syn, "")
	errs := make(chan error, 2)
	go func() { _, err := s.Accept(); errs <- err }()
	go func() { _, err := conn.Read(make([]byte, 1)); errs <- err }()
	s.Close()
	for range 2 {
		select {
		case err := <-errs:
			if err == nil {
				t.Error("no error after Close")
			}
		case <-time.After(patience):
			t.Fatal("Close leaves somebody waiting")
		}
	}
	if _, err := s.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if got := newClient(t, s, "red", guest6, resolver6).put(syn, ""); got != tcp.Ignored {
		t.Errorf("a SYN after Close: outcome %d", got)
	}
	s.Close()
}

// FuzzDeliver sends one connection whatever there is: two bytes of flags and length
// before each segment, the first of which is a proper SYN. One stack has it begin with gVisor,
// the other one light.
func FuzzDeliver(f *testing.F) {
	var stacks [2]*tcp.Stack
	for i := range stacks {
		s, err := tcp.New()
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(s.Close)
		stacks[i] = s
		go serveEach(s, func(conn *tcp.Conn) {
			_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, _ = io.Copy(io.Discard, struct{ io.Reader }{conn})
		})
	}
	stacks[1].Handle(func(r tcp.Request, payload []byte) bool {
		if payload[0]&1 == 0 {
			return false
		}
		_ = r.Send(payload, time.Now(), tcp.Peer.Send) // the connection may be closed by then
		if payload[0]&2 == 0 {
			_ = r.Send(payload, time.Now(), tcp.Peer.Send)
		}
		r.Done()
		return true
	}, tcp.Peer.Send)
	f.Add([]byte{byte(ack), 0, byte(data), 3, 'a', 'b', 'c', byte(fin | ack), 0}, []byte{2, 4, 5, 80}, uint32(5))
	f.Add([]byte{byte(data), 1, 'b', byte(ack), 0, byte(data), 3, 'a', 'b', 'c', byte(fin | ack), 0}, []byte{2, 4, 5, 80}, uint32(5))
	f.Add([]byte{byte(rst), 0}, []byte{8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 1}, uint32(0))
	f.Add([]byte{byte(syn), 0, byte(synAck), 0}, []byte{5, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 1}, uint32(1<<31))
	var n uint16
	f.Fuzz(func(t *testing.T, script, options []byte, jump uint32) {
		if len(options) > 40 {
			return
		}
		options = append(bytes.Clone(options), make([]byte, -len(options)&3)...)
		n++
		for _, s := range stacks {
			deliverScript(t, s, n, script, options, jump)
		}
	})
}

// deliverScript sends one connection what FuzzDeliver has.
func deliverScript(t *testing.T, s *tcp.Stack, n uint16, script, options []byte, jump uint32) {
	c := &client{t: t, stack: s, got: make(chan header.TCP, 1<<16), most: tcp.MaxOfOwner, window: 1000, next: jump, options: options}
	c.key = tcp.Key{Network: n % 8, Owner: n, Src: netip.AddrPortFrom(guest4.Addr(), n|1), Dst: resolver4}
	c.put(syn, "")
	for len(script) >= 2 {
		flags, length := header.TCPFlags(script[0]), min(int(script[1]), len(script)-2)
		select {
		case b := <-c.got:
			if int(b.DataOffset()) < header.TCPMinimumSize || int(b.DataOffset()) > len(b) {
				t.Fatalf("sent a header of %d in %d bytes", b.DataOffset(), len(b))
			}
			c.seen = b.SequenceNumber() + 1
		default:
		}
		c.put(flags, string(script[2:2+length]))
		script = script[2+length:]
	}
	// Whoever may come next is not shut out by what this one has left.
	s.Sweep(time.Now().Add(time.Minute))
	if left := s.Connections(); left > tcp.MaxConnections {
		t.Fatalf("%d connections", left)
	}
}

// A SYN that comes while others are swept begins a connection, though its flow would
// have been swept a moment before.
func TestSweepBeside(t *testing.T) {
	s := newStack(t)
	// With many flows to look at a sweep takes some time.
	for i := range 400 {
		newClient(t, s, i, guest6, resolver6).mustPut(syn, "")
	}
	began := time.Now()
	at := func(c *client, flags header.TCPFlags, now time.Time) {
		t.Helper()
		if got, _ := s.Deliver(c.key, c.most, c, c.segment(flags, nil), now); got != tcp.Delivered && got != tcp.Passed && got != tcp.Begun {
			t.Fatalf("%s: outcome %d", flags, got)
		}
	}
	later := began.Add(2 * time.Second)
	const times = 300
	for i := range times {
		c := newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		at(c, syn, began)
		c.mustTake(synAck)
		c.next++
		at(c, rst, began)
		for end := time.Now().Add(patience); s.Endpoints() > 401; {
			if time.Now().After(end) {
				t.Fatal("a handshake does not end")
			}
		}
		c.next--
		swept := make(chan struct{})
		go func() { defer close(swept); s.Sweep(later) }()
		for range i % 50 {
			runtime.Gosched()
		}
		at(c, syn, later)
		<-swept
		select {
		case <-c.got:
		case <-time.After(patience): // a SYN that is lost is not sent again
			t.Fatalf("SYN %d has no answer", i)
		}
		c.next++
		at(c, rst, later)
		level(t, s, later.Add(2*time.Second), 400)
	}
}
