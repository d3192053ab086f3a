// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// pairSession returns a session without a chain, and the switch's end of its connection. before runs before each
// packet-in. Punts are from unknown guests, which get an error.
func pairSession(t testing.TB, before func()) (s *session, peer net.Conn) {
	t.Helper()
	conn, peer := punttest.Connect(t)
	b := &Bridge{name: "br-reader", accepted: new(acceptedConns), tally: metric.NewTally("br-reader"), feed: new(watch.Feed)}
	b.punts = punt.NewIntake(b.puntBridge())
	b.conn.Store(conn)
	b.serve(chainServer(t))
	s = newSession(b, conn, 1)
	h := s.handler()
	punted := h.PacketIn
	h.PacketIn = func(p *openflow.PacketIn) { before(); punted(p) }
	served := make(chan error, 1)
	go func() { served <- conn.Serve(h) }()
	t.Cleanup(func() {
		conn.Close()
		<-served
		b.punts.Close()
	})
	return s, peer
}

// chainServer returns a server with the plugins as its chain, and the local database's guests.
func chainServer(t testing.TB, plugins ...plugin.Plugin) *Server {
	t.Helper()
	c := &dnsserver.Config{Zone: ".", Plugin: plugins}
	s := newTestServer(config.Default("br-reader"), nil)
	s.setRules(func(c *guests.Config) { c.Placement = placement.Table })
	chains, err := dnsserver.NewServer("test", []*dnsserver.Config{c})
	if err != nil {
		t.Fatal(err)
	}
	o := &s.Options
	s.queries = punt.NewServer(punt.Config{
		Chains: chains, Context: context.WithValue(t.Context(), dnsserver.Key{}, chains), Guests: s.guests, Snapshot: s.Snapshot,
		Answers:    func(*origin.Origin, string) bool { return false },
		OVNOwned:   func(*origin.Origin, string) bool { return false },
		Concurrent: o.Concurrent, ConcurrentGuest: o.ConcurrentGuest,
		ReadTimeout: chains.ReadTimeout, IdleTimeout: chains.IdleTimeout, MaxTCPQueries: chains.MaxTCPQueries,
	})
	return s
}

func (b *Bridge) serve(s *Server) {
	b.punts.Use(s.queries)
	b.current.Store(s)
}

func newTestServer(o config.Bridge, snapshot *ovn.Snapshot) *Server {
	s := NewServer(Config{Options: o})
	s.chains = noChains{}
	if snapshot != nil {
		s.source = ovndb.ReaderOf(snapshot)
	}
	return s
}

func (s *Server) setRules(change func(*guests.Config)) {
	change(&s.Options.Config)
	s.guests = guests.NewRules(s.Options.Config)
}

type noChains struct{ Chains }

func (noChains) Resumes() bool                { return false }
func (noChains) Loops(*ovn.Snapshot) []string { return nil }
