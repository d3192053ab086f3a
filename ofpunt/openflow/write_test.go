// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// socketConn is a connection over a real socket, without a handshake, and its
// other end.
func socketConn(t *testing.T) (*Conn, net.Conn) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	c := &Conn{
		nc: newSocket(nc), version: V15, echo: time.Hour, timeout: 20 * time.Second, buf: make([]byte, readBuffer),
		readEnd: make(chan error, 1), wake: make(chan struct{}, 1), done: make(chan struct{}), yield: runtime.Gosched,
	}
	c.startWriter()
	t.Cleanup(func() { c.Close() })
	return c, peer
}

// Whoever writes, and however slowly the switch reads, each message arrives whole
// and in the order of its writer.
func TestWriters(t *testing.T) {
	const writers, messages = 8, 2000
	c, peer := socketConn(t)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			when := []When{Soon, Now, AfterTasks}[w%3]
			for i := range messages {
				b := appendHeader(nil, V15, uint8(w), uint32(i))
				b = closeMessage(append(b, make([]byte, (w*37+i)%1500)...), 0)
				for {
					err := c.Write(b, when, false)
					if err == nil {
						break
					}
					if !errors.Is(err, ErrQueueFull) {
						t.Error(err)
						return
					}
					runtime.Gosched()
				}
			}
		})
	}
	next := [writers]uint32{}
	r := bufio.NewReaderSize(peer, 700)
	for range writers * messages {
		h := make([]byte, headerLen)
		if _, err := io.ReadFull(r, h); err != nil {
			t.Fatal(err)
		}
		w, i := int(h[1]), be.Uint32(h[4:])
		if w >= writers || i != next[w] {
			t.Fatalf("message %d of writer %d, want %v", i, w, next)
		}
		next[w]++
		if n, want := int(be.Uint16(h[2:]))-headerLen, (w*37+int(i))%1500; n != want {
			t.Fatalf("message %d of writer %d has %d bytes, want %d", i, w, n, want)
		}
		if _, err := r.Discard(int(be.Uint16(h[2:])) - headerLen); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// A message that is written at once needs nobody else to arrive.
func TestWriteNow(t *testing.T) {
	c, peer := socketConn(t)
	b := appendEmpty(nil, V15, typeEchoRequest, 7)
	if err := c.Write(b, Now, false); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(b))
	if _, err := io.ReadFull(peer, got); err != nil || string(got) != string(b) {
		t.Errorf("%x, %v; want %x", got, err, b)
	}
	if len(c.wake) != 0 {
		t.Error("the writer was woken for it")
	}
}

// What the tasks of one read write goes in one go after the last, and what handlers have queued behind
// goes before the next read: no writer is woken.
func TestWriteAfterRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		when When
		// do has a handler do its n-th piece of work.
		do func(c *Conn, n int, work func())
	}{
		{"tasks", AfterTasks, func(c *Conn, n int, work func()) { c.RunAfterRead(numbered{n, func(uint64) { work() }}) }},
		{"handlers", AfterHandlers, func(_ *Conn, _ int, work func()) { work() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, peer := socketConn(t)
			const messages = 3
			if _, err := peer.Write(bytes.Repeat(unhex(t, sentPunt15), messages)); err != nil {
				t.Fatal(err)
			}
			n, last := 0, make(chan struct{})
			h := Handler{PacketIn: func(*PacketIn) {
				tt.do(c, n, func() {
					n++
					if err := c.Write(appendEmpty(nil, V15, typeEchoRequest, uint32(n)), tt.when, false); err != nil {
						t.Error(err)
					}
					if n == messages {
						defer close(last)
						expectNothing(t, peer)
						if len(c.wake) != 0 {
							t.Error("the writer was woken")
						}
					}
				})
			}}
			served := make(chan error, 1)
			go func() { served <- c.Serve(h) }()
			<-last
			for i := range messages {
				expectEcho(t, peer, uint32(i+1))
			}
			c.Close()
			<-served
		})
	}
}

// A slow task delays neither what those before it have written nor what it
// writes itself.
func TestWriteAfterTasksBesideLastingTask(t *testing.T) {
	c, peer := socketConn(t)
	if _, err := peer.Write(bytes.Repeat(unhex(t, sentPunt15), 2)); err != nil {
		t.Fatal(err)
	}
	n, done := 0, make(chan struct{})
	write := func(xid uint32) {
		if err := c.Write(appendEmpty(nil, V15, typeEchoRequest, xid), AfterTasks, false); err != nil {
			t.Error(err)
		}
	}
	h := Handler{PacketIn: func(*PacketIn) {
		n++
		if n == 1 {
			c.RunAfterRead(numbered{1, func(uint64) { write(1) }})
			return
		}
		c.RunAfterRead(numbered{2, func(uint64) {
			defer close(done)
			expectEcho(t, peer, 1)
			write(2)
			expectEcho(t, peer, 2)
		}})
	}}
	served := make(chan error, 1)
	go func() { served <- c.Serve(h) }()
	<-done
	c.Close()
	<-served
}

// expectEcho reads an echo request, on any goroutine.
func expectEcho(t *testing.T, peer net.Conn, xid uint32) {
	t.Helper()
	want := appendEmpty(nil, V15, typeEchoRequest, xid)
	got := make([]byte, len(want))
	_ = peer.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v; want %x", got, err, want)
	}
}

func expectNothing(t *testing.T, peer net.Conn) {
	t.Helper()
	_ = peer.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := peer.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
