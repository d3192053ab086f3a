// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bufio"
	"errors"
	"io"
	"net"
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
	c := &Conn{nc: newSocket(nc), version: V15, timeout: 20 * time.Second, wake: make(chan struct{}, 1), done: make(chan struct{})}
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
			write := c.Write
			if w%2 == 0 {
				write = c.WriteNow
			}
			for i := range messages {
				b := appendHeader(nil, V15, uint8(w), uint32(i))
				b = closeMessage(append(b, make([]byte, (w*37+i)%1500)...), 0)
				for {
					err := write(b)
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
	if err := c.WriteNow(b); err != nil {
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
