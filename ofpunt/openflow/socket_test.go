// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/testkit"
)

// pair is a socket and its peer: one with a file descriptor, or one without.
func pair(t *testing.T, pipe bool) (*socket, net.Conn) {
	if pipe {
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		return newSocket(a), b
	}
	a, b := testkit.Pair(t, syscall.SOCK_STREAM)
	return newSocket(a), b
}

func TestSocket(t *testing.T) {
	for _, kind := range []string{"file descriptor", "none"} {
		t.Run(kind, func(t *testing.T) {
			s, peer := pair(t, kind == "none")
			if got := s.canTry(); got != (kind != "none") {
				t.Errorf("canTry() = %v", got)
			}

			// More than the socket takes at once, so that the writer waits for the reader.
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
			wrote := make(chan error, 1)
			go func() {
				n, err := s.Write(sent)
				if err == nil && n != len(sent) {
					err = io.ErrShortWrite
				}
				wrote <- err
			}()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("the peer got something else, or %v", err)
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}

			// A read waits for the peer, up to its deadline and no further.
			go func() { _, _ = peer.Write([]byte("hello")) }()
			b := make([]byte, 16)
			if n, err := s.Read(b); err != nil || string(b[:n]) != "hello" {
				t.Fatalf("Read = %q, %v", b[:n], err)
			}
			if err := s.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("Read with nothing to read = %v, want %v", err, os.ErrDeadlineExceeded)
			}
			if err := s.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			peer.Close()
			if n, err := s.Read(b); n != 0 || !errors.Is(err, io.EOF) {
				t.Fatalf("Read of a closed peer = %d, %v, want %v", n, err, io.EOF)
			}
			if _, err := s.Write(sent); err == nil {
				t.Fatal("Write to a closed peer gave no error")
			}
			s.Close()
			if _, err := s.Read(b); err == nil || errors.Is(err, io.EOF) {
				t.Fatalf("Read of a closed socket = %v", err)
			}
		})
	}
}

// What the socket takes without waiting is written, the rest is left.
func TestTryWrite(t *testing.T) {
	s, peer := pair(t, false)
	b := bytes.Repeat([]byte{1}, 1<<16)
	total := 0
	for {
		n := s.tryWrite(b)
		total += n
		if n < len(b) {
			break
		}
	}
	if n := s.tryWrite(b); n != 0 {
		t.Fatalf("a full socket took %d bytes", n)
	}
	if n, err := io.ReadFull(peer, make([]byte, total)); err != nil {
		t.Fatalf("the peer got %d bytes of %d: %v", n, total, err)
	}
	if n := s.tryWrite(b); n == 0 {
		t.Fatal("an empty socket took nothing")
	}
}

func TestSocketAllocates(t *testing.T) {
	s, peer := pair(t, false)
	b := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		s.tryWrite(b[:8])
		_, _ = peer.Read(b)
		_, _ = peer.Write(b[:8])
		_, _ = s.Read(b)
	}); n > 0 {
		t.Errorf("a read and a write make %v allocations, want none", n)
	}
}

// After a write that had to wait, the deadline that it had is over for others.
func TestWriteNowAfterDeadline(t *testing.T) {
	c, peer := socketConn(t)
	c.timeout = time.Second
	b := closeMessage(append(appendHeader(nil, V15, typeEchoRequest, 1), make([]byte, 1<<15)...), 0)
	queued := 0
	for { // more than the socket has room for
		if c.Write(b, Soon, false) != nil {
			break
		}
		queued += len(b)
	}
	if _, err := io.ReadFull(peer, make([]byte, queued)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "idle", func() bool {
		c.queueMu.Lock()
		defer c.queueMu.Unlock()
		return !c.writing
	})
	passed := time.NewTimer(2 * c.timeout)
	defer passed.Stop()
	<-passed.C
	if err := c.Write(b, Now, false); err != nil {
		t.Fatal(err)
	}
	if len(c.wake) != 0 {
		t.Error("the writer was woken for it")
	}
}
