// SPDX-License-Identifier: Apache-2.0

// Package testkit has the helpers that the tests of several packages share.
package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"
)

// Pair returns the ends of a connection between two Unix sockets of a type, such as
// syscall.SOCK_STREAM. They are closed at the end of the test.
func Pair(t testing.TB, typ int) (a, b net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, typ|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// FreeAddress returns 127.0.0.1 with a port that is free for UDP and TCP. The kernel assigns this port to no
// other socket: it is below net.ipv4.ip_local_port_range, which begins at 32768 (ip(7)).
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(32768-10000)))
		if err != nil {
			continue
		}
		pc, err := net.ListenPacket("udp", l.Addr().String())
		l.Close()
		if err == nil {
			pc.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// Data returns the data of each record in presentation format, without the record's header.
func Data(rrs []dns.RR) (all []string) {
	for _, rr := range rrs {
		all = append(all, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return all
}
