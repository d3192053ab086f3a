// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// questioner asks a resolver by one socket of a guest. It asks each query once and
// knows what comes by its ID: an answer that does not come, comes twice or is not
// the one that is wanted shows.
type questioner struct {
	conn  net.Conn
	ended chan struct{} // the reader has

	mu      sync.Mutex
	waiting map[uint16]question
	had     map[uint16]string // the names of those that were answered
	found   findings
	changed chan struct{} // has a mark when an answer has come
}

type question struct {
	name string
	// want is the answer as withTTL has it, which tells whose it is; or, where
	// a cache makes the TTL another each time, as inShort has it.
	want string
	at   time.Time
}

// findings are what became of the queries of one questioner or several.
type findings struct {
	asked, lost, twice int
	wrong              map[string]int
	times              []time.Duration // from query to answer
	lostAt             []string        // when each was asked that is lost
}

// add takes in what another one has found.
func (f *findings) add(o findings) {
	f.asked, f.lost, f.twice = f.asked+o.asked, f.lost+o.lost, f.twice+o.twice
	f.times, f.lostAt = append(f.times, o.times...), append(f.lostAt, o.lostAt...)
	for what, n := range o.wrong {
		f.mistake(what, n)
	}
}

func (f *findings) mistake(what string, n int) {
	if f.wrong == nil {
		f.wrong = map[string]int{}
	}
	f.wrong[what] += n
}

// clean fails unless each query has had its one answer, and that was right.
func (f findings) clean(t *testing.T, who string) {
	t.Helper()
	if f.lost > 0 || f.twice > 0 {
		t.Errorf("%s: of %d queries %d had no answer and %d more than one; lost are those of %q", who, f.asked, f.lost, f.twice, f.lostAt)
	}
	f.right(t, who)
}

// right fails if an answer was wrong.
func (f findings) right(t *testing.T, who string) {
	t.Helper()
	for what, n := range f.wrong {
		t.Errorf("%s: %d times %s", who, n, what)
	}
}

// within is the time in which that part of the answers came.
func (f findings) within(part float64) time.Duration {
	if len(f.times) == 0 {
		return 0
	}
	slices.Sort(f.times)
	return f.times[min(int(part*float64(len(f.times))), len(f.times)-1)]
}

func (f findings) String() string {
	return fmt.Sprintf("%d queries, %d lost, median %s, 99 %% %s, last %s",
		f.asked, f.lost, f.within(.5), f.within(.99), f.within(1))
}

// questions opens a questioner; it ends with the test.
func questions(t *testing.T, g *lab.Guest, resolver string) *questioner {
	t.Helper()
	conn, err := g.Dial(within(t, wait), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		t.Fatal(err)
	}
	// A reader that a busy machine keeps waiting finds all answers still.
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 4<<20)
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	q := &questioner{
		conn: conn, ended: make(chan struct{}), changed: make(chan struct{}, 1),
		waiting: map[uint16]question{}, had: map[uint16]string{},
	}
	go q.read()
	t.Cleanup(func() {
		conn.Close()
		<-q.ended
	})
	return q
}

func (q *questioner) read() {
	defer close(q.ended)
	b := make([]byte, 1<<16)
	for {
		n, err := q.conn.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of an earlier query
		}
		now := time.Now()
		r := new(dns.Msg)
		if err := r.Unpack(b[:n]); err != nil {
			q.mu.Lock()
			q.found.mistake(err.Error(), 1)
			q.mu.Unlock()
			continue
		}
		q.take(r, now)
	}
}

func (q *questioner) take(r *dns.Msg, now time.Time) {
	got := withTTL(r)
	q.mu.Lock()
	defer q.mu.Unlock()
	asked, ok := q.waiting[r.Id]
	switch _, before := q.had[r.Id]; {
	case !ok && before:
		q.found.twice++
		return
	case !ok:
		q.found.mistake("an answer to no query: "+got, 1)
		return
	case len(r.Question) != 1 || r.Question[0].Name != asked.name:
		q.found.mistake(fmt.Sprintf("%s is answered with the question %v", asked.name, r.Question), 1)
	case got != asked.want && inShort(r) != asked.want:
		q.found.mistake(fmt.Sprintf("the answer %s, want %s", got, asked.want), 1)
	}
	delete(q.waiting, r.Id)
	q.had[r.Id] = asked.name
	q.found.times = append(q.found.times, now.Sub(asked.at))
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// ask sends a query. Of those that wait for an answer each has an ID of its own.
func (q *questioner) ask(name string, qtype uint16, want string) error {
	m := new(dns.Msg).SetQuestion(name, qtype)
	q.mu.Lock()
	m.Id = uint16(q.found.asked)
	if _, ok := q.waiting[m.Id]; ok {
		q.mu.Unlock()
		return errors.New("the questioner has no ID left")
	}
	delete(q.had, m.Id)
	q.found.asked++
	q.waiting[m.Id] = question{name, want, time.Now()}
	q.mu.Unlock()
	b, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = q.conn.Write(b)
	return err
}

// answered is how many queries have had their answer.
func (q *questioner) answered() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.found.times)
}

// pending is how many queries are without an answer.
func (q *questioner) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// below waits until fewer than n queries are without an answer, or d is over.
func (q *questioner) below(n int, d time.Duration) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	for q.pending() >= n {
		select {
		case <-q.changed:
		case <-end.C:
			return false
		}
	}
	return true
}

// finish waits, for d at most, until all queries have had an answer, and a moment
// longer for those that have two.
func (q *questioner) finish(d time.Duration) findings {
	q.below(1, d)
	time.Sleep(100 * time.Millisecond)
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.found
	f.lost = len(q.waiting)
	for _, lost := range q.waiting {
		f.lostAt = append(f.lostAt, lost.at.Format("15:04:05.000"))
	}
	slices.Sort(f.lostAt)
	f.times = slices.Clone(f.times)
	return f
}

// pace calls f that many times a second until it fails or ctx ends. Where f takes
// too long, it makes up for that as soon as it can.
func pace(ctx context.Context, perSecond int, f func(i int) error) error {
	began := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// paceFor is pace for that long.
func paceFor(d time.Duration, perSecond int, f func(i int) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return pace(ctx, perSecond, f)
}

var overflow = regexp.MustCompile(`(?m)^rconn_overflow .* total: (\d+)$`)

// standing is a question that a guest asks again and again.
type standing struct {
	guest          *lab.Guest
	resolver, name string
	qtype          uint16
	want           string // as of a question
}

// keepAsking has each question asked with hardly a pause until stop is called, each query once, with that
// much time for its answer. other are the answers that were not the right ones, and how often they came.
// stop may be called again, as the end of the test does.
func keepAsking(t *testing.T, patience time.Duration, questions ...standing) (stop func() (asked int, other map[string]int)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	asked, other := 0, map[string]int{}
	for _, q := range questions {
		wg.Go(func() {
			// Each asks at least once, however late it begins on a busy machine.
			for asks := true; asks; asks = ctx.Err() == nil {
				one, end := context.WithTimeout(context.Background(), patience)
				r, err := exchange(one, q.guest, q.resolver, q.name, q.qtype)
				end()
				got := "no answer"
				if err == nil {
					// The TTL of a wrong answer tells whose it is.
					got = withTTL(r)
				}
				mu.Lock()
				if asked++; err != nil || got != q.want && inShort(r) != q.want {
					other[fmt.Sprintf("%s asks for %s: %s", q.guest.Name, q.name, got)]++
				}
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	stop = sync.OnceValues(func() (int, map[string]int) {
		cancel()
		wg.Wait()
		return asked, other
	})
	t.Cleanup(func() { _, _ = stop() }) // before the lab is closed
	return stop
}

// steadily fails if one of the questions has another answer while f runs.
func steadily(t *testing.T, f func(), questions ...standing) {
	t.Helper()
	stop := keepAsking(t, wait, questions...)
	f()
	asked, other := stop()
	if t.Logf("%d queries", asked); asked == 0 || len(other) > 0 {
		t.Errorf("of %d queries: %v", asked, other)
	}
}

// pause is between two queries of those who ask as long as a test lasts, so that the tests
// beside it get their share of the processors.
const pause = 5 * time.Millisecond

// overflows is how many packet-ins the switch has dropped, as the queue of a
// connection was full.
func overflows(t *testing.T, n *lab.Node) int {
	t.Helper()
	m := overflow.FindStringSubmatch(n.AppCtl("ovs-vswitchd", "coverage/show"))
	if m == nil {
		return 0 // what never happened is not listed
	}
	total, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return total
}
