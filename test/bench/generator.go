// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"

	"github.com/puntdns/puntdns/test/lab"
)

// Of the generator, as dnsperf has them.
const (
	generatorSockets = 4
	givesUp          = 5 * time.Second // for an answer
)

// How many queries a socket has outstanding at first, and how many more with each answer.
const (
	windowStart = 8
	windowStep  = 1. / 8
)

// generate asks from inside a guest for names by a generator of our own, as fast as outstanding
// queries allow. It sends and receives as many messages as it can by one system call, in bursts, and
// looks at nothing but their ids.
func (b *bench) generate(h *lab.Host, server, file string, outstanding int) rate {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	host, port := hostPort(server)
	return b.rateOf(b.measured(h, self, "generate", net.JoinHostPort(host, port), file, strconv.Itoa(outstanding),
		b.length.String(), strconv.Itoa(b.passes)))
}

// generateMain is a program of its own that asks a server for the names in a file of dnsperf, and
// writes what dnsperf does. Its arguments are the server's address and port, the file, how many
// queries to have outstanding, for how long, and how often to go through the file, 0 for no bound.
func generateMain(args []string) error {
	if len(args) != 5 {
		return errors.New("generate: expected SERVER:PORT FILE OUTSTANDING LENGTH PASSES")
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var queries [][]byte
	for line := range strings.Lines(string(text)) {
		q, err := new(dns.Msg).SetQuestion(dns.Fqdn(strings.Fields(line)[0]), dns.TypeA).Pack()
		if err != nil {
			return err
		}
		queries = append(queries, q)
	}
	outstanding, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	length, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	passes, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	streams := make([]*stream, generatorSockets)
	for i := range streams {
		conn, err := net.Dial("udp", args[0])
		if err != nil {
			return err
		}
		defer conn.Close()
		most := passes * len(queries) / generatorSockets
		streams[i] = newStream(conn, queries, i*len(queries)/generatorSockets, outstanding/generatorSockets, most)
	}
	var all sync.WaitGroup
	began := time.Now()
	for _, s := range streams {
		all.Go(func() { s.run(began.Add(length)) })
	}
	all.Wait()
	completed, timely, lost, last := 0, 0, 0, began
	for _, s := range streams {
		if s.err != nil {
			return s.err
		}
		completed, timely, lost = completed+s.completed, timely+s.timely, lost+s.lost
		if s.last.After(last) {
			last = s.last
		}
	}
	// What comes behind the end, a second try of a forwarder after seconds too, says nothing of the load.
	took := max(min(last.Sub(began), length), time.Microsecond)
	fmt.Printf("Queries completed: %d\nQueries lost: %d\nQueries per second: %.1f\n", completed, lost, float64(timely)/took.Seconds())
	return nil
}

// stream is what is asked by one socket.
type stream struct {
	conn    net.Conn
	batch   *ipv4.PacketConn
	queries [][]byte
	next    int // of queries
	most    int // queries that are asked, 0 for no bound

	// slots are the queries that may be outstanding. The id of a query, divided by the number of
	// slots, leaves that of its slot, and changes each time: a late answer is not taken for another.
	slots []slot
	free  []int
	// window is how many may be outstanding now. It grows to the number of slots with the answers
	// that come: as many queries at once would overflow a socket on their way.
	window float64
	out    []ipv4.Message
	in     []ipv4.Message

	looked                 time.Time // for queries without an answer
	last                   time.Time // when answers last came
	timely                 int       // of completed, those that came before the end
	asked, completed, lost int
	err                    error
}

type slot struct {
	message []byte
	id      uint16
	sent    time.Time // zero where nothing is outstanding
}

func newStream(conn net.Conn, queries [][]byte, first, slots, most int) *stream {
	s := &stream{conn: conn, batch: ipv4.NewPacketConn(conn.(net.PacketConn)), queries: queries, next: first, most: most,
		slots: make([]slot, slots), out: make([]ipv4.Message, 0, slots), in: make([]ipv4.Message, slots)}
	s.window = min(windowStart, float64(slots))
	for i := range s.slots {
		s.slots[i].id = uint16(i)
		s.free = append(s.free, i)
	}
	for i := range s.in {
		s.in[i].Buffers = [][]byte{make([]byte, 2048)}
	}
	return s
}

// run asks until the end, or as often as it may, and waits for the last answers.
func (s *stream) run(end time.Time) {
	for now := time.Now(); s.err == nil; now = time.Now() {
		if now.Before(end) && (s.most == 0 || s.asked < s.most) {
			s.ask(now)
		} else if len(s.free) == len(s.slots) {
			return
		}
		s.answers(now)
		if !s.last.After(end) {
			s.timely = s.completed
		}
	}
}

// ask fills the free slots.
func (s *stream) ask(now time.Time) {
	n := min(int(s.window)-(len(s.slots)-len(s.free)), len(s.free))
	if s.most > 0 {
		n = min(n, s.most-s.asked)
	}
	if n <= 0 {
		return
	}
	s.out = s.out[:0]
	for _, i := range s.free[:n] {
		o := &s.slots[i]
		o.id = s.following(o.id, i)
		o.message = append(o.message[:0], s.queries[s.next]...)
		binary.BigEndian.PutUint16(o.message, o.id)
		o.sent = now
		s.next = (s.next + 1) % len(s.queries)
		s.out = append(s.out, ipv4.Message{Buffers: [][]byte{o.message}})
	}
	s.asked += len(s.out)
	s.free = append(s.free[:0], s.free[n:]...)
	for left := s.out; len(left) > 0; {
		n, err := s.batch.WriteBatch(left, 0)
		if err != nil {
			s.err = err
			return
		}
		left = left[n:]
	}
}

// following returns the id of the next query of a slot.
func (s *stream) following(id uint16, i int) uint16 {
	if n := int(id) + len(s.slots); n < 1<<16 {
		return uint16(n)
	}
	return uint16(i)
}

// answers waits for answers, for a moment.
func (s *stream) answers(now time.Time) {
	if now.Sub(s.looked) > givesUp/10 {
		s.giveUp(now.Add(-givesUp))
		s.looked = now
	}
	if s.err = s.conn.SetReadDeadline(now.Add(givesUp / 10)); s.err != nil {
		return
	}
	n, err := s.batch.ReadBatch(s.in, 0)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return
	}
	if err != nil {
		s.err = err
		return
	}
	s.last = time.Now()
	for _, m := range s.in[:n] {
		if m.N < 12 {
			continue
		}
		s.answered(binary.BigEndian.Uint16(m.Buffers[0]))
	}
}

// answered takes an answer with an id.
func (s *stream) answered(id uint16) {
	i := int(id) % len(s.slots)
	if o := &s.slots[i]; o.id == id && !o.sent.IsZero() {
		o.sent = time.Time{}
		s.free = append(s.free, i)
		s.completed++
		s.window = min(s.window+windowStep, float64(len(s.slots)))
	}
}

// giveUp has queries lost that were sent before a time.
func (s *stream) giveUp(before time.Time) {
	for i := range s.slots {
		if o := &s.slots[i]; !o.sent.IsZero() && o.sent.Before(before) {
			o.sent = time.Time{}
			s.free = append(s.free, i)
			s.lost++
		}
	}
}
