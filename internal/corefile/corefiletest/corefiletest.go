// SPDX-License-Identifier: Apache-2.0

// Package corefiletest starts and reloads Corefiles in tests.
package corefiletest

import (
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

// Start starts a Corefile and waits until its servers answer.
func Start(t *testing.T, in caddy.Input) *caddy.Instance {
	t.Helper()
	i, err := caddy.Start(in)
	if err != nil {
		t.Fatal(err)
	}
	answers(t, i)
	return i
}

// Reload puts a Corefile in the place of i's and waits until its servers answer.
func Reload(t *testing.T, i *caddy.Instance, in caddy.Input) *caddy.Instance {
	t.Helper()
	next, err := i.Restart(in)
	if err != nil {
		t.Fatal(err)
	}
	answers(t, next)
	return next
}

// answers waits until each server of i answers over TCP and UDP. An end or a reload before that
// goes wrong in CoreDNS: Stop leaves out a server whose goroutine has not begun to serve, and the
// goroutine then serves for ever. A reload takes sockets over by os.File.Fd, which makes them
// blocking for a moment: an Accept that begins in this moment waits for a connection.
func answers(t *testing.T, i *caddy.Instance) {
	t.Helper()
	for _, s := range i.Servers() {
		for network, address := range map[string]string{"tcp": s.Addr().String(), "udp": s.LocalAddr().String()} {
			c := dns.Client{Net: network, Timeout: time.Minute}
			if _, _, err := c.Exchange(new(dns.Msg).SetQuestion(".", dns.TypeNS), address); err != nil {
				t.Fatal(err)
			}
		}
	}
}
