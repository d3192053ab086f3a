// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
)

// rig is a handler on a Northbound with the switches red and blue, each with a guest.
type rig struct {
	*Handler
	t  testing.TB
	nb *ovsdbtest.Server
	// next counts the queries that the next plugin gets.
	next atomic.Int64
}

type object = map[string]any

// newRig opens a handler with the properties. The servers of tests are on the loopback, on ports
// that properties have to name.
func newRig(t testing.TB, properties string) *rig {
	t.Helper()
	r := &rig{t: t, nb: ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")}
	for i, name := range []string{"red", "blue"} {
		r.nb.Transact(t, "OVN_Northbound",
			object{"op": "insert", "table": "Logical_Switch_Port", "uuid-name": "vm", "row": object{
				"name": name + "-vm", "addresses": fmt.Sprintf("02:00:00:00:00:0%d 10.0.0.5", i)}},
			object{"op": "insert", "table": "Logical_Switch", "row": object{"name": name, "ports": []any{"named-uuid", "vm"}}})
	}
	h, err := parse(caddy.NewTestController("dns", "ovnforward . {\n allow 127.0.0.1\n"+properties+"\n}"))
	if err != nil {
		t.Fatal(err)
	}
	h.Next = plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
		r.next.Add(1)
		return dns.RcodeNotZone, nil
	})
	h.database = ovndb.Config{Northbound: []string{r.nb.Endpoint}, Monitor: ovndb.All}
	h.node = address.NewNodeReader(log)
	if err := h.node.Open(); err != nil {
		t.Fatal(err)
	}
	if err := h.start(api.DefaultResolvers()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.close() })
	r.Handler = h
	r.await("the switches", func(s *ovn.Snapshot) bool { return s.NetworkByName("red") != nil && s.NetworkByName("blue") != nil })
	return r
}

// await waits for a snapshot.
func (r *rig) await(what string, is func(*ovn.Snapshot) bool) {
	r.t.Helper()
	testkit.OnChange(r.t, r.source, what, func() bool { return is(r.source.Snapshot()) })
}

// forward has a switch forward what the text says, and waits until the handler has reviewed it.
func (r *rig) forward(sw, text string) {
	r.t.Helper()
	before := r.source.Snapshot().ForwardsVersion
	r.nb.Transact(r.t, "OVN_Northbound", object{"op": "update", "table": "Logical_Switch", "where": []any{[]any{"name", "==", sw}},
		"row": object{"external_ids": []any{"map", [][2]string{{"dns-forward", text}}}}})
	r.await(text, func(s *ovn.Snapshot) bool { return s.ForwardsVersion != before })
	// A review of an earlier snapshot stops servers that only the next one names.
	wait(r.t, func() string {
		if refused := r.reviewer.refused.Load(); refused == nil || refused.version != r.source.Snapshot().ForwardsVersion {
			return "not reviewed"
		}
		return ""
	})
}

// as returns the context of a query of the guest of a switch.
func (r *rig) as(sw string) context.Context {
	o := &origin.Origin{Port: sw + "-vm", Switch: sw}
	if n := r.source.Snapshot().NetworkByName(sw); n != nil {
		o.Network = n.ID
	}
	return origin.NewContext(r.t.Context(), o)
}

// ask asks as the guest of a switch, over UDP, and returns the answer in short.
func (r *rig) ask(sw, qname string, qtype uint16) string {
	return r.send(r.as(sw), new(dns.Msg).SetQuestion(qname, qtype), false)
}

// send sends a query, and returns the rcode of the answer and its data.
func (r *rig) send(ctx context.Context, m *dns.Msg, tcp bool) string {
	w := &recorder{ResponseWriter: test.ResponseWriter{TCP: tcp}}
	code, err := r.ServeDNS(ctx, w, m)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case w.msg == nil:
		return "none, " + dns.RcodeToString[code]
	}
	text := strings.Join(append([]string{dns.RcodeToString[w.msg.Rcode]}, testkit.Data(w.msg.Answer)...), " ")
	if w.msg.Id != m.Id || len(w.msg.Question) != 1 || w.msg.Question[0] != m.Question[0] {
		text += " to another query"
	}
	if o := w.msg.IsEdns0(); o != nil {
		for _, option := range o.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				text += fmt.Sprint(" EDE ", ede.InfoCode)
			}
		}
	}
	return text
}

// recorder keeps the answer.
type recorder struct {
	test.ResponseWriter
	msg *dns.Msg
}

func (w *recorder) WriteMsg(m *dns.Msg) error { w.msg = m; return nil }

// nameserver is a DNS server on the loopback, over UDP and TCP.
type nameserver struct {
	netip.AddrPort
	udp, tcp atomic.Int64 // queries
	// last is the last query.
	last atomic.Pointer[dns.Msg]
}

// newNameserver starts a server that answers with an address. Names that begin with "big." have an
// answer that is truncated over UDP.
func newNameserver(t testing.TB, address string) *nameserver {
	t.Helper()
	n := &nameserver{}
	packets, l := listenBoth(t)
	n.AddrPort = netip.MustParseAddrPort(packets.LocalAddr().String())
	answer := func(w dns.ResponseWriter, r *dns.Msg, tcp bool) {
		if r.Question[0].Qtype != dns.TypeNS || r.Question[0].Name != "." { // a health check
			if tcp {
				n.tcp.Add(1)
			} else {
				n.udp.Add(1)
			}
			n.last.Store(r.Copy())
		}
		m := new(dns.Msg).SetReply(r)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(address)}}
		if strings.HasPrefix(r.Question[0].Name, "big.") && !tcp {
			m.Answer, m.Truncated = nil, true
		}
		_ = w.WriteMsg(m)
	}
	for _, s := range []*dns.Server{
		{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { answer(w, r, false) })},
		{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { answer(w, r, true) })},
	} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return n
}

// listenBoth listens on one port of the loopback over UDP and TCP.
func listenBoth(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		packets, err := net.ListenPacket("udp4", l.Addr().String())
		if err == nil {
			return packets, l
		}
		_ = l.Close()
	}
	t.Fatal("no port is free over both UDP and TCP")
	return nil, nil
}

// silent is a server that never answers.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return netip.MustParseAddrPort(c.LocalAddr().String())
}

// deaf is a server that takes no connection over TCP, and does not refuse any either: nobody accepts
// the one that its queue has room for, and the kernel drops the SYN of another.
func deaf(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(at.(*syscall.SockaddrInet4).Port))
	for range 16 {
		c, err := net.DialTimeout("tcp4", server.String(), 100*time.Millisecond)
		if err != nil {
			return server
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of a listener is never full")
	return server
}

// asked is how many queries have come, over UDP and TCP.
func (n *nameserver) asked() string { return fmt.Sprintf("%d %d", n.udp.Load(), n.tcp.Load()) }

// ports is the property ports for some servers.
func ports(servers ...netip.AddrPort) string {
	text := "ports"
	for _, s := range servers {
		text += fmt.Sprint(" ", s.Port())
	}
	return text
}

// wait waits until wrong has no complaint.
func wait(t testing.TB, wrong func() string) {
	t.Helper()
	testkit.Eventually(t, "no complaint", func() error {
		if complaint := wrong(); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
}
