// SPDX-License-Identifier: Apache-2.0

// Package testkit has the helpers that the tests of several packages share.
package testkit

import (
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

// Data returns the data of each record in presentation format, without the record's header.
func Data(rrs []dns.RR) (all []string) {
	for _, rr := range rrs {
		all = append(all, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return all
}
