// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
)

// collect sends the lines of the connections to ln into the channel, one connection after the
// other, and returns what ends the one that is open.
func collect(t *testing.T, ln net.Listener, lines chan<- line) (hangUp func()) {
	t.Helper()
	conns := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		conns <- c
		for s := bufio.NewScanner(c); s.Scan(); {
			var l line
			if json.Unmarshal(s.Bytes(), &l) == nil {
				lines <- l
			}
		}
	}()
	return func() {
		ln.Close()
		select {
		case c := <-conns:
			c.Close()
		default:
		}
	}
}

// acquireGone is acquire for a collector that is not there at the end: nothing is gained by waiting
// for it.
func acquireGone(t *testing.T, target string, log Logger) *Lease {
	t.Helper()
	to, err := ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := acquireFrom(to, Config{Queue: 1 << 20}, log, func(to Target, c Config, log Logger) *Writer {
		w := newPatientWriter(to, c, log)
		w.timeouts.flush = time.Millisecond
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

// A collector that comes late, goes and comes back gets each line once, in order.
func TestCollectorComesAndGoes(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			address := filepath.Join(t.TempDir(), "socket")
			if network == "tcp" {
				// An address that only this test uses: no other process takes the port while it is closed.
				pid := os.Getpid()
				host := net.IPv4(127, 77, byte(pid>>8), byte(pid)).String()
				ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
				if err != nil {
					t.Fatal(err)
				}
				address = ln.Addr().String()
				ln.Close()
			}
			log := new(testkit.Lines)
			target := network + ":" + address
			l := acquireGone(t, target, log)
			lines := make(chan line, 1000)
			var all []line
			n := 0
			for range 3 {
				l.Append(members(n))
				n++
				testkit.Eventually(t, "no connection", func() bool { s, _ := statsOf(target); return !s.Up })
				ln, err := net.Listen(network, address)
				if err != nil {
					t.Fatal(err)
				}
				hangUp := collect(t, ln, lines)
				for range 10 {
					l.Append(members(n))
					n++
				}
				for len(all) < n+1 { // and the start
					select {
					case one := <-lines:
						all = append(all, one)
					case <-time.After(wait):
						t.Fatalf("%d lines, want %d", len(all), n+1)
					}
				}
				testkit.Eventually(t, "the connection is up", func() bool { s, _ := statsOf(target); return s.Up && s.Queued == 0 })
				hangUp()
			}
			checkNumbers(t, all, n)
			l.Release()
			if log.Count("not written") != 4 && log.Count("not written") != 3 || log.Count("written again") != 3 {
				t.Errorf("log %q", log.All())
			}
		})
	}
}

// A collector that reads nothing fills the queue. No line waits for the collector, and the audit log reports the
// lost lines once the collector reads on.
func TestCollectorHangs(t *testing.T) {
	address := filepath.Join(t.TempDir(), "socket")
	ln, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const limit = 256 << 10
	l := acquire(t, "unix:"+address, Config{Queue: limit}, new(testkit.Lines))
	c, err := func() (net.Conn, error) { l.Append(members(0)); return ln.Accept() }()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 1
	testkit.Eventually(t, "a full queue", func() bool {
		for range 1000 {
			l.Append(members(n))
			n++
		}
		s, _ := statsOf("unix:" + address)
		if s.Queued > limit {
			t.Fatalf("%d bytes in the queue", s.Queued)
		}
		return s.Dropped > 0
	})
	s, _ := statsOf("unix:" + address)
	dropped := int(s.Dropped)
	released := make(chan bool, 1)
	var seq, lost uint64
	queries := 0
	go func() {
		end := time.Now().Add(wait)
		for s, _ := statsOf("unix:" + address); s.Queued > 0 && time.Now().Before(end); s, _ = statsOf("unix:" + address) {
			time.Sleep(time.Millisecond)
		}
		s, _ := statsOf("unix:" + address)
		l.Release()
		released <- s.Queued == 0
	}()
	for r := bufio.NewScanner(c); r.Scan(); {
		var l line
		if err := json.Unmarshal(r.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Event == "lost" {
			lost += l.Lines
			seq += l.Lines
		}
		if seq++; l.Seq != seq {
			t.Fatalf("line %d, want %d", l.Seq, seq)
		}
		if l.N != nil {
			queries++
		}
	}
	if !<-released {
		t.Error("the queue is not emptied")
	}
	if int(lost) != dropped || queries+dropped != n {
		t.Errorf("%d lines told as lost, %d counted, %d of %d come", lost, dropped, queries, n)
	}
}

// The end of the last lease does not wait for a collector that is not there.
func TestEndWithoutCollector(t *testing.T) {
	log := new(testkit.Lines)
	l := acquireGone(t, "unix:"+filepath.Join(t.TempDir(), "none"), log)
	l.Append(members(0))
	before := Abandoned()
	ended := make(chan struct{})
	go func() { l.Release(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(wait):
		t.Fatal("it waits")
	}
	if log.Count("3 lines could not be written before the end") != 1 {
		t.Error(log.All())
	}
	l.Append(members(1)) // of a query that was under way
	if n := Abandoned() - before; n != 4 {
		t.Errorf("%d lines are counted as abandoned, want 4", n)
	}
}
