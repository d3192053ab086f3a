// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// numbered is a task with the number of its message.
type numbered struct {
	n int
	f func()
}

func (t numbered) Run() { t.f() }

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
		want     []string
	}{
		{"short", func(int) time.Duration { return 0 }, []string{
			"0 read", "0 done", "1 read", "1 done", "2 read", "2 done",
		}},
		{"less than another goroutine waits for", func(int) time.Duration { return taskTime / 2 }, []string{
			"0 read", "0 done", "1 read", "1 done", "2 read", "2 done",
		}},
		{"one is slow", func(n int) time.Duration { return time.Hour * time.Duration((n+1)%2) * time.Duration(2-n) / 2 }, []string{
			"0 read", "0 is slow", "1 read", "1 done", "2 read", "2 done", "0 done",
		}},
		{"all are slow", func(n int) time.Duration { return time.Hour * time.Duration(3-n) }, []string{
			"0 read", "0 is slow", "1 read", "1 is slow", "2 read", "2 is slow", "2 done", "1 done", "0 done",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := make(chan string, 100)
				n := 0
				c, served := serveTasks(t, 3, func(c *Conn) Handler {
					return Handler{
						PacketIn: func(*PacketIn, []byte) {
							calls <- fmt.Sprintf("%d read", n)
							i := n
							n++
							c.Then(numbered{i, func() {
								time.Sleep(tt.duration(i))
								calls <- fmt.Sprintf("%d done", i)
							}})
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

// A connection ends though a task goes on.
func TestTaskOutlivesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, done := make(chan struct{}), make(chan struct{})
		c, served := serveTasks(t, 1, func(c *Conn) Handler {
			return Handler{PacketIn: func(*PacketIn, []byte) {
				c.Then(numbered{0, func() { <-release; close(done) }})
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
			served <- c.Serve(Handler{PacketIn: func(*PacketIn, []byte) {
				got = append(got, c.ReadAt().Sub(began))
				c.Then(numbered{0, func() { time.Sleep(taskTime / 2) }})
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
