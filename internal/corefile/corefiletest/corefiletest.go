// SPDX-License-Identifier: Apache-2.0

// Package corefiletest starts Corefiles in tests.
package corefiletest

import (
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

// Start starts a Corefile, and waits until its servers accept connections. A reload hands
// their sockets over by os.File.Fd, which makes them blocking for a moment: an Accept that begins
// then, and the end of its server, would wait for a connection.
func Start(t *testing.T, in caddy.Input) *caddy.Instance {
	t.Helper()
	i, err := caddy.Start(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range i.Servers() {
		c := dns.Client{Net: "tcp", Timeout: time.Minute}
		if _, _, err := c.Exchange(new(dns.Msg).SetQuestion(".", dns.TypeNS), s.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	return i
}
