// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/testkit"
)

// numbered is a task with the number of its message.
type numbered struct {
	n int
	f func(turn uint64)
}

func (t numbered) Run(turn uint64) { t.f(turn) }

// serveTasks serves a switch that sends so many packet-ins at once, and is silent
// from then on.
func serveTasks(t *testing.T, packetIns int, h func(*Conn) Handler) (c *Conn, served chan error) {
	s, nc := newFake(t, V15)
	go func() {
		s.handshake()
		s.send(bytes.Repeat(unhex(t, sentPunt15), packetIns))
	}()
	c, err := NewConn(t.Context(), nc, Options{EchoInterval: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- c.Serve(h(c)) }()
	return c, served
}

// Tasks are done in the order of the messages that left them, and other goroutines
// read on behind a slow one.
func TestTasks(t *testing.T) {
	tests := []struct {
		name string
		// what the handler says of the messages, by number.
		duration func(n int) time.Duration
		leaves   bool // each task leaves the reader
		want     []string
	}{
		{"short", func(int) time.Duration { return 0 }, false, []string{
			"0 read", "0 done", "1 read", "1 done", "2 read", "2 done",
		}},
		{"less than another goroutine waits for", func(int) time.Duration { return taskTime / 2 }, false, []string{
			"0 read", "0 done", "1 read", "1 done", "2 read", "2 done",
		}},
		{"one is slow", func(n int) time.Duration { return time.Hour * time.Duration((n+1)%2) * time.Duration(2-n) / 2 }, false, []string{
			"0 read", "0 is slow", "another reader", "1 read", "1 done", "2 read", "2 done", "0 done",
		}},
		{"all are slow", func(n int) time.Duration { return time.Hour * time.Duration(3-n) }, false, []string{
			"0 read", "0 is slow", "another reader", "1 read", "1 is slow", "another reader", "2 read", "2 is slow", "another reader", "2 done", "1 done", "0 done",
		}},
		{"all leave the reader", func(n int) time.Duration { return time.Hour * time.Duration(3-n) }, true, []string{
			"0 read", "another reader", "1 read", "another reader", "2 read", "another reader", "2 done", "1 done", "0 done",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := make(chan string, 100)
				n := 0
				c, served := serveTasks(t, 3, func(c *Conn) Handler {
					return Handler{
						PacketIn: func(*PacketIn) {
							calls <- fmt.Sprintf("%d read", n)
							i := n
							n++
							c.RunAfterRead(numbered{i, func(turn uint64) {
								if tt.leaves {
									c.LeaveReader(turn)
								}
								time.Sleep(tt.duration(i))
								if tt.leaves {
									c.LeaveReader(turn) // it has left before
								}
								calls <- fmt.Sprintf("%d done", i)
							}})
						},
						Go: func(read func()) {
							calls <- "another reader"
							go read()
						},
						SlowTask: func(t Task) { calls <- fmt.Sprintf("%d is slow", t.(numbered).n) },
					}
				})
				time.Sleep(4 * time.Hour)
				c.Close()
				<-served
				synctest.Wait() // for tasks that others have read on behind
				close(calls)
				var got []string
				for s := range calls {
					got = append(got, s)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The reader lets other goroutines run behind a batch of messages if one of these was left to another
// goroutine, by a handler or a task, and else reads on.
func TestYield(t *testing.T) {
	const probe = 1 // the message that is left, from 0
	nothing := func(*Conn, int) {}
	handed := func(c *Conn, n int) {
		if n == probe {
			c.NoteDispatched()
		}
	}
	for _, tt := range []struct {
		name          string
		packetIns     int
		barrier       bool // a reply to a request comes behind them
		handler, task func(c *Conn, n int)
		want          int
	}{
		{"nothing was left", 3, false, nothing, nothing, 0},
		{"by a handler", 3, false, handed, nothing, 1},
		{"by a task", 3, false, nothing, handed, 1},
		{"of one message", 1, false, func(c *Conn, _ int) { c.NoteDispatched() }, nothing, 0},
		{"a reply, which is for who waits for it", 1, true, nothing, nothing, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, nc := newFake(t, V15)
				go func() {
					s.handshake()
					for range 2 {
						burst := bytes.Repeat(unhex(t, sentPunt15), tt.packetIns)
						if tt.barrier {
							burst = append(burst, appendEmpty(nil, V15, typeBarrierReply, 1)...)
						}
						s.send(burst)
						time.Sleep(time.Second)
					}
				}()
				yields, n := 0, 0
				c, err := NewConn(t.Context(), nc, Options{EchoInterval: 24 * time.Hour, Yield: func() { yields++ }})
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() {
					served <- c.Serve(Handler{PacketIn: func(*PacketIn) {
						i := n % tt.packetIns
						n++
						tt.handler(c, i)
						c.RunAfterRead(numbered{i, func(turn uint64) { tt.task(c, i) }})
					}})
				}()
				time.Sleep(time.Minute)
				c.Close()
				<-served
				if want := 2 * tt.want; yields != want || n != 2*tt.packetIns {
					t.Errorf("others ran %d times behind two batches, want %d; %d messages", yields, want, n)
				}
			})
		})
	}
}

// Behind a batch that the reader has dealt with by itself it reads on before it writes, so that what has come
// meanwhile is answered by the same write. It does so a few times, so that no answer waits for long.
func TestReadsOn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		size    int // messages of a batch
		batches int // of which each comes while the last message of the one before is handled
		handed  bool
		want    []int // messages of each write
	}{
		{"what comes meanwhile", 2, 2, false, []int{4}},
		{"as often as it may", 2, 1 + maxReads, false, []int{2 * (1 + maxReads)}},
		{"more than that", 2, 2 + maxReads, false, []int{2 * (1 + maxReads), 2}},
		{"messages that come alone", 1, 3, false, []int{1, 1, 1}},
		{"something is left to others", 2, 2, true, []int{2, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc, peer := testkit.Pair(t, syscall.SOCK_SEQPACKET)
			c := &Conn{
				nc: newSocket(nc), version: V15, echo: time.Hour, timeout: 20 * time.Second, buf: make([]byte, readBuffer),
				readEnd: make(chan error, 1), wake: make(chan struct{}, 1), done: make(chan struct{}), yield: func() {},
			}
			c.startWriter()
			batch := bytes.Repeat(unhex(t, sentPunt15), tt.size)
			send := func() {
				if _, err := peer.Write(batch); err != nil {
					t.Error(err)
				}
			}
			served, n := make(chan error, 1), 0
			var readAt []int // messages with each time of a read
			var last time.Time
			go func() {
				served <- c.Serve(Handler{PacketIn: func(*PacketIn) {
					if at := c.ReadAt(); at.Equal(last) {
						readAt[len(readAt)-1]++
					} else {
						readAt, last = append(readAt, 1), at
					}
					if n++; n%tt.size == 0 && n/tt.size < tt.batches {
						send()
					}
					if tt.handed {
						c.NoteDispatched()
					}
					if err := c.Write(appendEmpty(nil, V15, typeEchoRequest, 1), AfterHandlers, false); err != nil {
						t.Error(err)
					}
				}})
			}()
			send()
			var got []int
			_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
			for left, b := tt.size*tt.batches, make([]byte, 1<<16); left > 0; {
				n, err := peer.Read(b)
				if err != nil {
					t.Fatalf("%v, %d answers are missing", err, left)
				}
				got = append(got, n/headerLen)
				left -= n / headerLen
			}
			c.Close()
			<-served
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("messages of each write (-want +got):\n%s", diff)
			}
			// What is answered together has one time, by which the reader knows how long it has been busy.
			if diff := cmp.Diff(tt.want, readAt); diff != "" {
				t.Errorf("messages with each time of a read (-want +got):\n%s", diff)
			}
		})
	}
}

// A connection ends though a task goes on.
func TestTaskOutlivesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, done := make(chan struct{}), make(chan struct{})
		c, served := serveTasks(t, 1, func(c *Conn) Handler {
			return Handler{PacketIn: func(*PacketIn) {
				c.RunAfterRead(numbered{0, func(uint64) { <-release; close(done) }})
			}}
		})
		time.Sleep(2 * taskTime)
		c.Close()
		<-served
		close(release)
		<-done
	})
}

// What was read at once has one time, whenever its turn comes.
func TestReadAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, nc := newFake(t, V15)
		const apart = time.Minute
		go func() {
			s.handshake()
			for range 2 {
				time.Sleep(apart)
				s.send(bytes.Repeat(unhex(t, sentPunt15), 2))
			}
		}()
		began := time.Now()
		c, err := NewConn(t.Context(), nc, Options{EchoInterval: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Duration
		served := make(chan error, 1)
		go func() {
			served <- c.Serve(Handler{PacketIn: func(*PacketIn) {
				got = append(got, c.ReadAt().Sub(began))
				c.RunAfterRead(numbered{0, func(uint64) { time.Sleep(taskTime / 2) }})
			}})
		}()
		time.Sleep(4 * apart)
		c.Close()
		<-served
		if diff := cmp.Diff([]time.Duration{apart, apart, 2 * apart, 2 * apart}, got); diff != "" {
			t.Errorf("read at (-want +got):\n%s", diff)
		}
	})
}
