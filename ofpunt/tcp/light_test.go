// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/ofpunt/tcp"
)

// lightStack is a stack whose handler takes the requests that begin with a "q", and leaves them to
// the test.
func lightStack(t *testing.T) (s *tcp.Stack, requests chan tcp.Request) {
	t.Helper()
	s, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	requests = make(chan tcp.Request, 1)
	s.Handle(func(r tcp.Request, payload []byte) bool {
		if payload[0] != 'q' {
			return false
		}
		r.Keep(string(payload))
		requests <- r
		return true
	}, tcp.Peer.Send)
	return s, requests
}

// asks shakes hands and asks.
func (c *client) asks(requests chan tcp.Request) tcp.Request {
	c.t.Helper()
	c.mustPut(syn, "")
	c.mustTake(synAck)
	c.mustPut(ack, "")
	c.mustPut(data, "query")
	return <-requests
}

// answer answers a request.
func answer(t *testing.T, r tcp.Request, text string) {
	t.Helper()
	if err := r.Send([]byte(text), time.Now().Add(patience), tcp.Peer.Send); err != nil {
		t.Fatal(err)
	}
}

// sends sends on a connection.
func sends(t *testing.T, conn *tcp.Conn, text string) {
	t.Helper()
	if err := conn.Send([]byte(text), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

// gets fails unless just that comes to the client.
func (c *client) gets(want string) {
	c.t.Helper()
	if got := c.receive(len(want)); string(got) != want {
		c.t.Errorf("%q came, want %q", got, want)
	}
}

// silent fails if anything has been sent to the client.
func (c *client) silent(when string) {
	c.t.Helper()
	if len(c.got) > 0 {
		b := <-c.got
		c.t.Fatalf("%s: %s with %d bytes", when, b.Flags(), len(b.Payload()))
	}
}

// A connection that brings one request takes three segments, and nothing of gVisor.
func TestLight(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	r := c.asks(requests)
	c.silent("before the answer")
	if r.Peer() != tcp.Peer(c) || r.Crowded() {
		t.Errorf("peer %v, crowded %v", r.Peer(), r.Crowded())
	}
	answer(t, r, "answer")
	r.Done()
	if got := c.take(); got.Flags() != data || string(got.Payload()) != "answer" || got.AckNumber() != c.next {
		t.Errorf("%s %q, acknowledges %d, want %d", got.Flags(), got.Payload(), got.AckNumber(), c.next)
	}
	c.seen += uint32(len("answer"))
	c.mustPut(fin|ack, "")
	if got := c.take(); got.Flags() != fin|ack || got.AckNumber() != c.next {
		t.Errorf("%s, acknowledges %d, want %d", got.Flags(), got.AckNumber(), c.next)
	}
	c.seen++
	if got := s.Connections(); got != 1 {
		t.Errorf("%d connections before the last acknowledgement", got)
	}
	c.mustPut(ack, "")
	if got := s.Connections(); got != 0 {
		t.Errorf("%d connections behind the last acknowledgement", got)
	}
	c.silent("at the end")
	if got := s.Endpoints(); got != 1 {
		t.Errorf("gVisor has %d endpoints, want that of the listener", got)
	}
	if err := r.Send([]byte("more"), time.Now(), tcp.Peer.Send); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an answer behind the end: %v", err)
	}
}

// The caller learns which segments gVisor got, whose goroutines then have work.
func TestLightOutcome(t *testing.T) {
	s, requests := lightStack(t)
	light, first, second := newClient(t, s, "red", guest4, resolver4), newClient(t, s, "blue", guest4, resolver4), newClient(t, s, "green", guest4, resolver4)
	for _, step := range []struct {
		name  string
		c     *client
		flags header.TCPFlags
		text  string
		want  tcp.Outcome
	}{
		{"a SYN", light, syn, "", tcp.Begun},
		{"the end of the handshake", light, ack, "", tcp.Delivered},
		{"a request", light, data, "query", tcp.Delivered},
		{"a FIN", light, fin | ack, "", tcp.Delivered},
		{"a SYN", first, syn, "", tcp.Begun},
		{"what is no request", first, data, "x", tcp.Passed},
		{"what comes while the connection is handed over, or behind that", first, data, "y", tcp.Passed},
		{"a SYN", second, syn, "", tcp.Begun},
		{"a request", second, data, "query", tcp.Delivered},
		{"a second one", second, data, "query", tcp.Passed},
	} {
		if step.flags&ack != 0 && step.c.seen == 0 {
			step.c.mustTake(synAck)
		}
		if got := step.c.put(step.flags, step.text); got != step.want {
			t.Errorf("%s: outcome %d, want %d", step.name, got, step.want)
		}
		if step.text == "query" && step.want == tcp.Delivered {
			defer (<-requests).Done()
		}
	}
	conn, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	of := first
	if conn.Peer() == tcp.Peer(second) {
		of = second
	}
	if got := of.put(data, "z"); got != tcp.Passed {
		t.Errorf("a segment of a connection that gVisor has: outcome %d, want %d", got, tcp.Passed)
	}
	// Without a handler of requests each connection is gVisor's from the beginning.
	plain, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	if got := newClient(t, plain, "red", guest4, resolver4).put(syn, ""); got != tcp.Begun {
		t.Errorf("a SYN for gVisor: outcome %d, want %d", got, tcp.Begun)
	}
}

// A request without an answer is acknowledged before the client sends it again.
func TestLightLateAnswer(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	began := time.Now()
	r := c.asks(requests)
	if got := c.take(); got.Flags() != ack || got.AckNumber() != c.next {
		t.Errorf("%s, acknowledges %d, want %d", got.Flags(), got.AckNumber(), c.next)
	}
	if took := time.Since(began); took < 40*time.Millisecond {
		t.Errorf("acknowledged after %s, as if no answer could carry it", took)
	}
	answer(t, r, "answer")
	if got := c.mustTake(data); string(got.Payload()) != "answer" {
		t.Errorf("%q came", got.Payload())
	}
	r.Done()
	if got := s.Endpoints(); got != 1 {
		t.Errorf("gVisor has %d endpoints", got)
	}
}

// The SYN-ACK of a light connection promises what gVisor would, which may have to keep it.
func TestLightPromises(t *testing.T) {
	light, _ := lightStack(t)
	whole, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(whole.Close)
	for _, tt := range []struct {
		name    string
		options []byte
	}{
		{"none", nil},
		{"as Linux has it", []byte{2, 4, 5, 80, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7}},
		{"as Windows has it", []byte{2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2}},
		{"a window scale", []byte{3, 3, 14, 1}},
		{"a window scale that is too large", []byte{3, 3, 15, 1}},
		{"SACK", []byte{4, 2, 1, 1}},
		{"a small MSS", []byte{2, 4, 0, 1}},
		{"an unknown option", []byte{254, 4, 1, 2, 4, 2, 1, 1}},
		{"one that lies about its length", []byte{2, 1, 4, 2}},
		{"the end of them first", []byte{0, 4, 2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got [2]header.TCP
			for i, s := range []*tcp.Stack{light, whole} {
				c := newClient(t, s, tt.name, guest4, resolver4)
				c.options = tt.options
				c.mustPut(syn, "")
				got[i] = c.take()
				got[i].SetSequenceNumber(0)
				got[i].SetSourcePort(0)
				got[i].SetDestinationPort(0)
				got[i].SetChecksum(0)
			}
			if !bytes.Equal(got[0], got[1]) {
				t.Errorf("light % x\nwhole % x", got[0], got[1])
			}
		})
	}
}

// The first sequence number of a connection can't be predicted from the numbers before it.
func TestLightFirstNumbers(t *testing.T) {
	s, _ := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	seen, steps, last := map[uint32]bool{}, map[uint32]bool{}, uint32(0)
	const times = 100
	for range times {
		c.mustPut(syn, "")
		first := c.mustTake(synAck).SequenceNumber()
		seen[first], steps[(first-last)>>24] = true, true
		last = first
		c.mustPut(rst, "")
	}
	// By chance some 83 steps differ in their first byte.
	if len(seen) < times-1 || len(steps) < times/2 {
		t.Errorf("%d numbers and %d steps of %d", len(seen), len(steps), times)
	}
}

// A connection that wants more than one request and one short answer goes on with gVisor, and loses and
// doubles nothing.
func TestHandedOver(t *testing.T) {
	long := strings.Repeat("a long answer ", 400)
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request)
	}{
		{"no request", func(t *testing.T, s *tcp.Stack, c *client, _ chan tcp.Request) {
			c.mustPut(syn, "")
			c.mustTake(synAck)
			c.mustPut(ack, "")
			c.mustPut(data, "a ")
			c.mustPut(data, "word")
			conn := accept(t, s)
			defer conn.Close()
			if kept := conn.TakeRequest(); kept != nil {
				t.Errorf("request %v", kept)
			}
			says(t, conn, "a word")
		}},
		{"a second request, behind an answer", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			answer(t, r, "answer")
			r.Done()
			c.mustTake(data)
			c.mustPut(data, "second")
			conn := accept(t, s)
			defer conn.Close()
			if kept := conn.TakeRequest(); kept != "query" {
				t.Errorf("request %v", kept)
			}
			if kept := conn.TakeRequest(); kept != nil {
				t.Errorf("request %v is still there", kept)
			}
			says(t, conn, "second")
			sends(t, conn, "answer 2")
			c.gets("answer 2")
		}},
		{"a second request, behind an answer that is lost", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			answer(t, r, "answer")
			r.Done()
			c.take() // lost
			c.mustPut(data, "second")
			conn := accept(t, s)
			defer conn.Close()
			says(t, conn, "second")
			sends(t, conn, ", more")
			c.gets("answer, more")
		}},
		{"several requests at once, before the answer", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			c.mustPut(data, "second")
			c.mustPut(data, "third")
			conn := accept(t, s)
			defer conn.Close()
			says(t, conn, "secondthird")
			answer(t, r, "answer")
			r.Done()
			c.gets("answer")
		}},
		{"a long answer", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			answer(t, r, long)
			r.Done()
			defer accept(t, s).Close()
			if got := c.receive(len(long)); string(got) != long {
				t.Errorf("%d bytes came otherwise", len(got))
			}
		}},
		{"several answers", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			for _, text := range []string{"first", "second", "third"} {
				answer(t, r, text)
			}
			defer accept(t, s).Close()
			answer(t, r, "last")
			r.Done()
			const want = "firstsecondthirdlast"
			var got []byte
			for at := c.seen; len(got) < len(want); c.mustPut(ack, "") {
				b := c.mustTake(data) // the first answer may come twice
				from := b.SequenceNumber() - at
				got = append(got[:from], b.Payload()...)
				c.seen = at + uint32(len(got))
			}
			if string(got) != want {
				t.Errorf("%q came", got)
			}
		}},
		{"a long answer to a client that has closed its side", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			c.mustPut(fin|ack, "")
			answer(t, r, long)
			r.Done()
			conn := accept(t, s)
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("read: %v", err)
			}
			conn.Close()
			if got := c.receive(len(long)); string(got) != long {
				t.Errorf("%d bytes came otherwise", len(got))
			}
		}},
		{"no room for the answer", func(t *testing.T, s *tcp.Stack, c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			c.window = 0
			c.mustPut(ack, "")
			answer(t, r, "answer")
			r.Done()
			defer accept(t, s).Close()
			c.window = 100
			c.mustPut(ack, "")
			c.gets("answer")
		}},
		{"out of order", func(t *testing.T, s *tcp.Stack, c *client, _ chan tcp.Request) {
			c.mustPut(syn, "")
			c.mustTake(synAck)
			c.mustPut(ack, "")
			c.next += 2
			c.mustPut(data, "cd")
			c.next -= 4
			c.mustPut(data, "ab")
			conn := accept(t, s)
			defer conn.Close()
			says(t, conn, "abcd")
		}},
		{"an urgent byte", func(t *testing.T, s *tcp.Stack, c *client, _ chan tcp.Request) {
			c.mustPut(syn, "")
			c.mustTake(synAck)
			b := c.segment(data|header.TCPFlagUrg, []byte("a!b"))
			b.SetUrgentPointer(2)
			s.Deliver(c.key, c.most, c, b, time.Now())
			c.next += 3
			conn := accept(t, s)
			defer conn.Close()
			says(t, conn, "ab")
		}},
		{"it says nothing", func(t *testing.T, s *tcp.Stack, c *client, _ chan tcp.Request) {
			c.mustPut(syn, "")
			c.mustTake(synAck)
			c.mustPut(ack, "")
			s.Sweep(time.Now().Add(time.Second))
			conn := accept(t, s)
			conn.Close()
			c.mustTake(fin | ack)
		}},
	} {
		for _, scale := range []bool{false, true} {
			name := tt.name
			if scale {
				name += ", with options"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, requests := lightStack(t)
				c := newClient(t, s, "red", guest4, resolver4)
				if scale {
					c.options = []byte{2, 4, 5, 80, 4, 2, 1, 1, 1, 3, 3, 2}
				}
				tt.do(t, s, c, requests)
				if got := s.Endpoints(); got != 2 {
					t.Errorf("gVisor has %d endpoints, want those of the listener and of the connection", got)
				}
			})
		}
	}
}

// A peer acknowledges our bytes selectively by the sequence numbers that it knows.
func TestHandedOverSACK(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	c.options = []byte{2, 4, 4, 0, 4, 2, 1, 1}
	r := c.asks(requests)
	const size = 8192 // bytes, in several segments
	answer(t, r, strings.Repeat("x", size))
	r.Done()
	defer accept(t, s).Close()
	first := c.seen
	lost := uint32(len(c.mustTake(data).Payload()))
	for c.seen != first+size {
		c.mustTake(data)
	}
	c.seen = first
	b := c.segment(ack, nil)
	for range 3 {
		sack := append(bytes.Clone(b), 1, 1, 5, 10)
		for _, edge := range []uint32{first + lost, first + size} {
			sack = binary.BigEndian.AppendUint32(sack, edge)
		}
		h := header.TCP(sack)
		h.SetDataOffset(header.TCPMinimumSize + 12)
		s.Deliver(c.key, c.most, c, h, time.Now())
	}
	got := c.mustTake(data)
	if got.SequenceNumber()+uint32(len(got.Payload())) == first+size {
		got = c.mustTake(data) // the last bytes were a probe on a busy machine (RFC 8985, section 7)
	}
	if got.SequenceNumber() != first {
		t.Errorf("%d bytes at %d come again, want the first ones", len(got.Payload()), got.SequenceNumber()-first)
	}
	c.seen = first + size
	c.mustPut(ack, "")
	time.Sleep(300 * time.Millisecond) // what is sent again would be by then
	c.silent("once all is there")
}

// What a light connection leaves at its timeouts is nothing.
func TestLightEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(c *client, requests chan tcp.Request)
		after time.Duration // is when it ends
		reset bool
	}{
		{"half open", func(c *client, _ chan tcp.Request) { c.mustPut(syn, "") }, 5 * time.Second, false},
		{"an answer that nobody acknowledges", func(c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			answer(c.t, r, "answer")
			r.Done()
		}, 10 * time.Second, true},
		{"a FIN that nobody acknowledges", func(c *client, requests chan tcp.Request) {
			r := c.asks(requests)
			answer(c.t, r, "answer")
			r.Done()
			c.mustPut(fin|ack, "")
		}, 10 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, requests := lightStack(t)
			c := newClient(t, s, "red", guest4, resolver4)
			before := time.Now()
			tt.do(c, requests)
			after := time.Now()
			s.Sweep(before.Add(tt.after - 100*time.Millisecond))
			if n := s.Connections(); n != 1 {
				t.Fatalf("%d connections before its end", n)
			}
			s.Sweep(after.Add(tt.after))
			if n := s.Connections(); n != 0 {
				t.Fatalf("%d connections are left", n)
			}
			var last header.TCP
			for len(c.got) > 0 {
				last = c.take()
			}
			if got := last.Flags()&rst != 0; got != tt.reset {
				t.Errorf("the last segment is %s", last.Flags())
			}
			if got := s.Endpoints(); got != 1 {
				t.Errorf("gVisor has %d endpoints", got)
			}
		})
	}
}

// A stack that is closed resets its light connections.
func TestLightClose(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	r := c.asks(requests)
	s.Close()
	if got := c.take(); got.Flags() != rst|ack || got.SequenceNumber() != c.seen {
		t.Errorf("%s %d, want a reset with %d", got.Flags(), got.SequenceNumber(), c.seen)
	}
	if err := r.Send([]byte("answer"), time.Now(), tcp.Peer.Send); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an answer: %v", err)
	}
	r.Done()
}

// Light connections that have ended make room as others do, and their peers know.
func TestLightEndedMakeRoom(t *testing.T) {
	s, requests := lightStack(t)
	var clients []*client
	for i := range 2*tcp.MaxOfOwner + 5 {
		c := newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+i)), resolver4)
		r := c.asks(requests)
		answer(t, r, "answer")
		r.Done()
		c.mustTake(data)
		c.mustPut(fin|ack, "")
		c.mustTake(fin | ack)
		clients = append(clients, c)
	}
	if got := s.Connections(); got != 2*tcp.MaxOfOwner {
		t.Errorf("%d connections, want %d", got, 2*tcp.MaxOfOwner)
	}
	for i, c := range clients {
		reset := len(c.got) > 0 && c.take().Flags()&rst != 0
		if want := i < 5; reset != want {
			t.Errorf("connection %d: reset %v, want %v", i, reset, want)
		}
	}
}

// Messages for which the send buffer has no room wait until the handover is done, and then for the peer.
func TestHandedOverMessagesWait(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	r := c.asks(requests)
	const size, messages, atOnce = 1000, 400, 160 // bytes, messages
	for range atOnce {
		answer(t, r, strings.Repeat("x", size))
	}
	sent := make(chan error, 1)
	go func() {
		for range messages - atOnce {
			if err := r.Send(bytes.Repeat([]byte("x"), size), time.Now().Add(patience), tcp.Peer.Send); err != nil {
				sent <- err
				return
			}
		}
		r.Done()
		sent <- nil
	}()
	defer accept(t, s).Close()
	for first, got := c.seen, uint32(0); got < size*messages; {
		b := c.take()
		if b.Flags()&rst != 0 {
			t.Fatalf("a reset behind %d bytes; %v", got, <-sent)
		}
		if at := b.SequenceNumber() - first; at <= got && at+uint32(len(b.Payload())) > got {
			got = at + uint32(len(b.Payload()))
			c.seen = first + got
			c.mustPut(ack, "")
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A message that has waited too long for the handover resets the connection.
func TestHandedOverTooLate(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	r := c.asks(requests)
	const size = 50000 // bytes
	for range 3 {
		answer(t, r, strings.Repeat("x", size))
	}
	if err := r.Send(make([]byte, size), time.Now(), tcp.Peer.Send); !errors.Is(err, tcp.ErrSlow) {
		t.Errorf("the one that is too much: %v", err)
	}
	if err := r.Send([]byte("more"), time.Now(), tcp.Peer.Send); !errors.Is(err, tcp.ErrSlow) {
		t.Errorf("another one: %v", err)
	}
	defer accept(t, s).Close()
	c.mustBeReset()
	if s.Waits() {
		t.Error("what was to be sent is still counted")
	}
}

// mustBeReset takes segments up to a reset.
func (c *client) mustBeReset() {
	c.t.Helper()
	for c.take().Flags()&rst == 0 {
	}
}

// If there is no memory for what a connection is to send when it is handed over, or behind that, it is
// reset, and what there is of it goes.
func TestNoMemoryToHandOver(t *testing.T) {
	s, requests := lightStack(t)
	const size = 60000 // bytes
	var all []tcp.Request
	var clients []*client
	began := time.Now()
	for err := error(nil); err == nil; {
		c := newClient(t, s, "red", netip.AddrPortFrom(guest4.Addr(), uint16(1000+len(all))), resolver4)
		r := c.asks(requests)
		if err = r.Send(make([]byte, size), time.Now().Add(patience), tcp.Peer.Send); err == nil {
			all, clients = append(all, r), append(clients, c)
			err = r.Send(make([]byte, size), time.Now().Add(patience), tcp.Peer.Send)
		}
		if err != nil && !errors.Is(err, tcp.ErrSlow) {
			t.Fatal(err)
		}
	}
	// What is left is less than that. The send buffer of each has room for 40 more of these, so none of
	// them waits.
	var without *client // the one that finds no memory
	for i := 0; without == nil; i++ {
		for n := 0; n < 40 && without == nil; n++ {
			if err := all[i].Send(make([]byte, 1000), time.Now().Add(patience), tcp.Peer.Send); err != nil {
				without = clients[i]
			}
		}
	}
	if took := time.Since(began); took > patience {
		t.Errorf("it has waited, for %s", took)
	}
	before := s.Connections()
	c := newClient(t, s, "red", guest4, resolver4)
	r := c.asks(requests)
	if err := r.Send(make([]byte, size), time.Now().Add(patience), tcp.Peer.Send); !errors.Is(err, tcp.ErrSlow) {
		t.Errorf("without memory: %v", err)
	}
	r.Done()
	if got := c.take(); got.Flags() != rst|ack || got.SequenceNumber() != c.seen {
		t.Errorf("%s %d, want a reset with %d", got.Flags(), got.SequenceNumber(), c.seen)
	}
	if got := s.Connections(); got != before {
		t.Errorf("%d connections, want %d", got, before)
	}
	go serveEach(s, func(conn *tcp.Conn) { <-t.Context().Done() })
	for reset := false; !reset; {
		b := without.take()
		if reset = b.Flags()&rst != 0; len(b.Payload()) > 0 {
			t.Fatal("it gets a part of the answer that it can't get as a whole")
		}
	}
}

// A connection that gVisor has none of in time ends, whatever its peer still sends.
func TestHandedOverToNobody(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	answer(t, c.asks(requests), strings.Repeat("x", 5000))
	at := time.Now().Add(5 * time.Second)
	testkit.Eventually(t, "its end", func() bool {
		s.Deliver(c.key, c.most, c, c.segment(ack, nil), at)
		s.Sweep(at)
		return s.Connections() == 0
	})
	if s.Waits() {
		t.Error("what was to be sent is still counted")
	}
}

// Segments that arrive while the handler decides don't spoil a declined request, even from a second reader.
func TestLightWhileDeciding(t *testing.T) {
	s, err := tcp.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, other := newClient(t, s, "red", guest4, resolver4), newClient(t, s, "red", guest4, resolver4)
	s.Handle(func(r tcp.Request, _ []byte) bool {
		other.key, other.next, other.seen = c.key, c.next+2, c.seen // by another way
		other.mustPut(fin|ack, "")
		other.next = c.next
		other.mustPut(data, "ab")
		if r.Peer() != tcp.Peer(c) {
			t.Error("the peer is that of another segment")
		}
		return false
	}, tcp.Peer.Send)
	c.mustPut(syn, "")
	c.mustTake(synAck)
	c.mustPut(ack, "")
	c.mustPut(data, "ab")
	c.mustPut(data, "cd")
	conn := accept(t, s)
	defer conn.Close()
	says(t, conn, "abcd")
}

// An answer behind the end of its request finds both sides closed.
func TestLightAnswerBehindFIN(t *testing.T) {
	s, requests := lightStack(t)
	c := newClient(t, s, "red", guest4, resolver4)
	r := c.asks(requests)
	c.mustPut(fin|ack, "")
	r.Done()
	c.mustTake(fin | ack)
	if err := r.Send([]byte("answer"), time.Now(), tcp.Peer.Send); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an answer: %v", err)
	}
	c.silent("behind our FIN")
}
