// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
)

// A server that hangs up as soon as it has given the contents is pressed less and
// less, however long they took.
func TestServerThatHangsUp(t *testing.T) {
	t.Parallel()
	const (
		tries    = 7
		minimum  = 50 * time.Millisecond
		maximum  = 400 * time.Millisecond
		contents = maximum/4 + 20*time.Millisecond
		// The shortest waits: half of 50, 100, 200, 400, 400 and 400 ms.
		least = 775*time.Millisecond + (tries-1)*contents
	)
	asked := make(chan time.Time, 1000)
	start(t, newReplica(), func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.MinBackoff, cfg.MaxBackoff = minimum, maximum
	}, fake(t, func(conn net.Conn) {
		asked <- time.Now()
		script(func(req request, _ int) string {
			time.Sleep(contents)
			fmt.Fprintf(conn, `{"result":{},"error":null,"id":%s}`, req.ID)
			conn.Close()
			return ""
		})(conn)
	}))
	first := <-asked
	var last time.Time
	for range tries - 1 {
		last = <-asked
	}
	if took := last.Sub(first); took < least {
		t.Errorf("%d tries in %s, want them over %s at least", tries, took, least)
	}
}

// Many clients of a server that ends come back over a time, and not at once; each that begins
// does so at once.
func TestReconnectJitter(t *testing.T) {
	t.Parallel()
	const (
		clients = 20
		jitter  = 2 * time.Second
	)
	var mu sync.Mutex
	var accepted []time.Time
	cut := make(chan struct{})
	through := fake(t, func(conn net.Conn) {
		mu.Lock()
		accepted = append(accepted, time.Now())
		first := len(accepted) <= clients
		mu.Unlock()
		if first {
			go func() {
				<-cut
				conn.Close()
			}()
		}
		script(empty)(conn)
	})
	began := time.Now()
	replicas := make([]*replica, clients)
	for i := range replicas {
		r := newReplica()
		start(t, r, func(cfg *ovsdb.Config) {
			fakeTables(cfg)
			cfg.ProbeInterval, cfg.ReconnectJitter = time.Minute, jitter
		}, through)
		replicas[i] = r
	}
	for _, r := range replicas {
		r.waitSynced(t)
	}
	if took := time.Since(began); took > jitter {
		t.Logf("%s until all were in sync", took) // a busy machine
	}
	ended := time.Now()
	close(cut)
	for _, r := range replicas {
		r.wait(t, "an outage, and sync again", func() bool {
			n := 0
			for _, e := range r.events {
				if e == "synced" {
					n++
				}
			}
			return n == 2
		})
	}
	mu.Lock()
	defer mu.Unlock()
	late := 0
	for _, at := range accepted[clients:] {
		if at.Sub(ended) > jitter/4 {
			late++
		}
	}
	// Of 20 with an even chance 15 are late; that fewer than 5 are happens once in a million.
	if late < 5 {
		t.Errorf("%d of %d came back later than after a quarter of the time", late, clients)
	}
}

// The endpoints of many clients are in all orders, and each client keeps its own.
func TestShuffle(t *testing.T) {
	t.Parallel()
	names := []string{"unix:/nonexistent/a", "unix:/nonexistent/b", "unix:/nonexistent/c"}
	first := map[string]bool{}
	for range 60 { // that one of three is missing happens once in 10 thousand million
		r := newReplica()
		start(t, r, func(cfg *ovsdb.Config) { cfg.Shuffle = true }, names...)
		r.wait(t, "each endpoint has failed", func() bool { return len(r.events) == len(names) })
		r.mu.Lock()
		for _, name := range names {
			if strings.Contains(r.events[0], name[len("unix:"):]) {
				first[name] = true
			}
		}
		r.mu.Unlock()
	}
	if len(first) != len(names) {
		t.Errorf("first were only %v", first)
	}
}

// Guests that come one by one within a second make few requests, and the first does not wait.
func TestChangesAreMerged(t *testing.T) {
	t.Parallel()
	s := ovsdbtest.Start(t, thingSchema)
	for i := range 50 {
		s.Transact(t, "Things", insert(fmt.Sprintf("%02d", i), object{"num": i}))
	}
	r := newReplica()
	c := start(t, r, func(cfg *ovsdb.Config) { cfg.Tables[0].Where = []ovsdb.Condition{} }, s.Endpoint)
	r.waitSynced(t)
	began := time.Now()
	var gen uint64
	for i := range 50 {
		gen = c.SetConditions(map[string][]ovsdb.Condition{"Thing": {{"num", "<=", i}}})
		if i == 0 {
			r.waitGen(t, gen)
		}
		s.Transact(t, "Things", update("00", object{"flag": i%2 == 0})) // the next guest, a while later
	}
	r.waitGen(t, gen)
	n, most := c.Counts().ConditionChanges, 9+uint64(time.Since(began)/(100*time.Millisecond))
	t.Logf("%d requests", n)
	if n > most {
		t.Errorf("%d requests, want %d at most", n, most)
	}
	if n := len(r.names()); n != 50 {
		t.Errorf("%d rows", n)
	}
}
