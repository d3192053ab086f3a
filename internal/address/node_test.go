// SPDX-License-Identifier: Apache-2.0

package address

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func ipNet(t *testing.T, text string) net.Addr {
	t.Helper()
	ip, network, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatal(err)
	}
	return &net.IPNet{IP: ip, Mask: network.Mask}
}

// The addresses of the node are read again once they are old, and stay if they can't be.
func TestNodeReader(t *testing.T) {
	now, reads := time.Unix(1000, 0), 0
	addresses, failure := []net.Addr{ipNet(t, "9.0.0.5/24")}, error(nil)
	r := &NodeReader{now: func() time.Time { return now }, read: func() ([]net.Addr, error) {
		reads++
		return addresses, failure
	}}
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	has := func(want bool, wantReads int) {
		t.Helper()
		if got := r.OnInterface(netip.MustParseAddr("9.0.0.6")); got != want || reads != wantReads {
			t.Errorf("%v after %d reads, want %v after %d", got, reads, want, wantReads)
		}
	}
	has(false, 1)
	addresses = append(addresses, ipNet(t, "9.0.0.6/24"))
	has(false, 1)
	now = now.Add(nodeAge)
	has(true, 2)
	addresses, failure = nil, net.UnknownNetworkError("none")
	now = now.Add(nodeAge)
	has(true, 3)
	failure = nil
	now = now.Add(nodeAge)
	has(false, 4)

	broken := &NodeReader{now: time.Now, read: func() ([]net.Addr, error) { return nil, net.UnknownNetworkError("none") }}
	if err := broken.Open(); err == nil || broken.Node() != nil || broken.OnInterface(netip.MustParseAddr("9.0.0.5")) {
		t.Errorf("error %v, node %v", err, broken.Node())
	}
}

// While the kernel does not report routes, each address counts as the node's.
func TestRoutesAreUnknown(t *testing.T) {
	failure := errors.New("none")
	r := &NodeReader{
		now: time.Now, read: func() ([]net.Addr, error) { return nil, nil },
		route: func(netip.Addr) (bool, error) { return false, failure },
	}
	for range 2 {
		if got := r.Node().Has(netip.MustParseAddr("9.9.9.9")); got != (failure != nil) {
			t.Errorf("error %v: %v", failure, got)
		}
		failure = nil
	}
}

// An answer of the kernel that can't be read is an error.
func TestParseRoute(t *testing.T) {
	for _, b := range []string{"", "\x01", strings.Repeat("\x00", 16), "\x10\x00\x00\x00\x02\x00" + strings.Repeat("\x00", 10), "\x10\x00\x00\x00\x18\x00" + strings.Repeat("\x00", 10)} {
		if own, err := parseRoute([]byte(b)); err == nil {
			t.Errorf("%x: %v", b, own)
		}
	}
}
