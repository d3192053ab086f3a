// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/ofpunt/tcp"
	"github.com/puntdns/puntdns/test/lab"
)

// manyAddresses is how many a name has that needs nearly all that a DNS message has
// room for.
const manyAddresses = 4000

// newTCPOverlap is newOverlap with a name that no datagram has room for, and an
// upstream that answers for slow.example once the channel is closed.
func newTCPOverlap(t *testing.T) (n overlap, up *lab.DNSServer, release chan struct{}) {
	n = newOverlap(t)
	var many []string
	for i := range manyAddresses {
		many = append(many, fmt.Sprintf("10.9.%d.%d", i/250, i%250+1))
	}
	n.AddDNS(map[string]string{"many.internal": strings.Join(many, " ")}, "red")
	n.Sync()
	up = n.Upstream()
	release = make(chan struct{})
	up.SetHandler(upstreamOfSlow(release))
	return n, up, release
}

// upstreamOfSlow answers for slow.example once the channel is closed, for others at once.
func upstreamOfSlow(release chan struct{}) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Name == "slow.example." {
			select {
			case <-release:
			case <-time.After(wait):
			}
		}
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{"up"},
		})
		_ = w.WriteMsg(m)
	})
}

// dialTCP connects to the IPv4 resolver address from a port of the guest, 0 for any.
func dialTCP(t *testing.T, g *lab.Guest, port int) *dns.Conn {
	t.Helper()
	var conn net.Conn
	err := g.Do(func() (err error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		conn, err = d.DialContext(within(t, wait), "tcp", net.JoinHostPort(resolver4, "53"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wait))
	return &dns.Conn{Conn: conn}
}

// oneQueryEach has clients of a guest ask by one connection after the other, and returns
// the errors.
func oneQueryEach(t *testing.T, g *lab.Guest, clients, each int, want string) error {
	t.Helper()
	errs := make([]error, clients)
	query := framed(t, 1, "db.internal.")
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			errs[i] = g.Do(func() error {
				failed, last := 0, error(nil)
				for range each {
					if err := oneQuery(query, want); err != nil {
						failed, last = failed+1, err
					}
				}
				if failed > 0 {
					return fmt.Errorf("client %d: %d of %d failed, the last one: %w", i, failed, each, last)
				}
				return nil
			})
		})
	}
	asking.Wait()
	return errors.Join(errs...)
}

// oneQuery asks by a connection of its own, from the namespace of its thread.
func oneQuery(query []byte, want string) error {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(resolver4, "53"), wait)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write(query); err != nil {
		return err
	}
	r, err := (&dns.Conn{Conn: conn}).ReadMsg()
	if err != nil {
		return err
	}
	if got := inShort(r); got != want {
		return fmt.Errorf("answer %s, want %s", got, want)
	}
	return nil
}

// asks sends a query, and answered takes an answer: its ID, and the answer in short.
func asks(t *testing.T, c *dns.Conn, id uint16, name string, qtype uint16) {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.Id = id
	if err := c.WriteMsg(m); err != nil {
		t.Fatal(err)
	}
}

func answered(t *testing.T, c *dns.Conn) (uint16, string) {
	t.Helper()
	r, err := c.ReadMsg()
	if err != nil {
		t.Fatal(err)
	}
	return r.Id, inShort(r)
}

// mustTell fails unless that answer comes next.
func mustTell(t *testing.T, c *dns.Conn, id uint16, want string) {
	t.Helper()
	if got, answer := answered(t, c); got != id || answer != want {
		t.Errorf("answer %d: %s, want %d: %s", got, answer, id, want)
	}
}

// connections waits until the metric says so many.
func (s *server) connections(want float64) {
	s.t.Helper()
	s.l.Eventually(fmt.Sprintf("%v connections", want), func() error {
		if got := s.metric("coredns_ofpunt_tcp_connections"); got != want {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

// maxTCPQueries is how many queries TestTCP allows of a connection.
const maxTCPQueries = 2000

// keepalive is edns-tcp-keepalive of a query, or of an answer with a timeout of units of
// 100 ms (RFC 7828, section 3.1).
func keepalive(units ...uint16) *dns.EDNS0_LOCAL {
	o := &dns.EDNS0_LOCAL{Code: dns.EDNS0TCPKEEPALIVE}
	for _, u := range units {
		o.Data = binary.BigEndian.AppendUint16(o.Data, u)
	}
	return o
}

// withOptions is a query with an OPT record.
func withOptions(name string, qtype uint16, options ...dns.EDNS0) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = options
	return m
}

// toldKeepalive is the timeout that an answer tells, -1 for none.
func toldKeepalive(t *testing.T, r *dns.Msg) int {
	t.Helper()
	told := -1
	if o := r.IsEdns0(); o != nil {
		for _, o := range o.Option {
			if k, ok := o.(*dns.EDNS0_TCP_KEEPALIVE); ok {
				if told >= 0 || k.Length != 0 && k.Length != 2 {
					t.Errorf("option %+v", k)
				}
				told = int(k.Timeout)
			}
		}
	}
	return told
}

func TestTCP(t *testing.T) {
	t.Parallel()
	n, up, release := newTCPOverlap(t)
	// forward gives up on one silent upstream before the deadline of a query.
	second := n.Upstream()
	second.SetHandler(upstreamOfSlow(release))
	s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", fmt.Sprintf(`forward . %s %s
	    timeouts {
	        idle 2s
	        maxtcpqueries %d
	    }`, up.Addr, second.Addr, maxTCPQueries)))
	guests := []*lab.Guest{n.red, n.blue}
	mine := map[*lab.Guest]string{n.red: "NOERROR 10.0.1.101", n.blue: "NOERROR 10.0.1.201"}

	t.Run("dig", func(t *testing.T) {
		for _, q := range sharedQuestions {
			if q.red == "" || q.blue == "" {
				continue
			}
			for _, g := range guests {
				for _, resolver := range resolvers {
					r := g.DigProgram("+tcp", "@"+resolver, q.name, dns.TypeToString[q.qtype])
					if want := n.want(q, g, false); r.String() != want {
						t.Errorf("%s asks %s for %s: %s, want %s\n%s", g.Name, resolver, q, r, want, r.Out)
					}
				}
			}
		}
		s.t = t
		s.log(`asked db\.internal\. A by red-vm1 on red`)
		s.log(`asked db\.internal\. A by blue-vm1 on blue`)
		if udp, tcp := s.metric("coredns_dns_requests_total", "proto", "udp"), s.metric("coredns_dns_requests_total", "proto", "tcp"); udp != 0 || tcp == 0 {
			t.Errorf("%v queries over UDP and %v over TCP, as plugins see it", udp, tcp)
		}
	})

	// The tenants' connections are alike to the last number.
	t.Run("the same ports at once", func(t *testing.T) {
		conns := map[*lab.Guest]*dns.Conn{n.red: dialTCP(t, n.red, 4000), n.blue: dialTCP(t, n.blue, 4000)}
		var wg sync.WaitGroup
		for _, g := range guests {
			wg.Go(func() {
				for id := range uint16(200) {
					m := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
					m.Id = id
					if err := conns[g].WriteMsg(m); err != nil {
						t.Error(err)
						return
					}
					r, err := conns[g].ReadMsg()
					if err != nil || r.Id != id || inShort(r) != mine[g] {
						t.Errorf("%s: answer %d: %v, %v", g.Name, id, r, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})

	// Clients that take a connection for each query have few at a time, however fast they
	// are: none is refused.
	t.Run("one query a connection", func(t *testing.T) {
		if err := oneQueryEach(t, n.red, 8, 250, mine[n.red]); err != nil {
			t.Error(err)
		}
	})

	t.Run("an answer too large for a datagram", func(t *testing.T) {
		for _, resolver := range resolvers {
			if r := n.red.Dig("+ignore", "@"+resolver, "many.internal"); !slices.Contains(r.Flags, "tc") {
				t.Errorf("%s: not truncated over UDP: %s", resolver, r.Flags)
			}
			r := n.red.Dig("@"+resolver, "many.internal")
			if len(r.Answer) != manyAddresses || slices.Contains(r.Flags, "tc") {
				t.Errorf("%s: %d addresses, want %d; flags %s, %v", resolver, len(r.Answer), manyAddresses, r.Flags, r.Err)
			}
		}
	})

	// A guest that asks for more than there is room for has it as it reads.
	t.Run("many large answers at once", func(t *testing.T) {
		const queries = 40
		c := dialTCP(t, n.red, 0)
		for id := range uint16(queries) {
			asks(t, c, id, "many.internal.", dns.TypeA)
		}
		got := map[uint16]bool{}
		for len(got) < queries {
			r, err := c.ReadMsg()
			if err != nil {
				t.Fatalf("after %d of %d answers: %v", len(got), queries, err)
			}
			if got[r.Id] || len(r.Answer) != manyAddresses {
				t.Fatalf("answer %d has %d addresses, want %d, once", r.Id, len(r.Answer), manyAddresses)
			}
			got[r.Id] = true
		}
	})

	// An answer at its deadline waits its turn behind those that the guest has yet to
	// read, and none of them is lost.
	t.Run("an answer at its deadline among others", func(t *testing.T) {
		const slow, outstanding = 1000, 8
		c := dialTCP(t, n.red, 0)
		asks(t, c, slow, "slow.example.", dns.TypeTXT)
		next := uint16(0)
		for ; next < outstanding; next++ {
			asks(t, c, next, "many.internal.", dns.TypeA)
		}
		for open := outstanding + 1; open > 0; open-- {
			r, err := c.ReadMsg()
			if err != nil {
				t.Fatalf("after %d answers: %v", int(next)+1-open, err)
			}
			switch {
			case r.Id == slow && r.Rcode != dns.RcodeServerFailure:
				t.Errorf("the answer at its deadline: %s", inShort(r))
			case r.Id == slow:
				next = slow
			case len(r.Answer) != manyAddresses:
				t.Errorf("answer %d has %d addresses, want %d", r.Id, len(r.Answer), manyAddresses)
			case next < slow:
				time.Sleep(20 * time.Millisecond) // a guest that takes its time
				asks(t, c, next, "many.internal.", dns.TypeA)
				next, open = next+1, open+1
			}
		}
		s.t = t
		s.reaches(1, "coredns_ofpunt_tcp_queries_total", "reason", "deadline") // counted after it is sent
	})

	t.Run("an answer by the smallest MTU of IPv6", func(t *testing.T) {
		if _, err := n.red.Exec(within(t, wait), "ip", "link", "set", lab.Iface, "mtu", "1280"); err != nil {
			t.Fatal(err)
		}
		for _, resolver := range resolvers {
			if r := n.red.Dig("+tcp", "@"+resolver, "many.internal"); len(r.Answer) != manyAddresses {
				t.Errorf("%s: %d addresses, want %d; %v", resolver, len(r.Answer), manyAddresses, r.Err)
			}
		}
	})

	// Answers come as they are there (RFC 7766, section 6.2.1.1), and to one who has
	// said that there is no more to ask.
	t.Run("answers out of order", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		asks(t, c, 1, "slow.example.", dns.TypeTXT)
		asks(t, c, 2, "db.internal.", dns.TypeA)
		asks(t, c, 3, "quick.example.", dns.TypeTXT)
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got := map[uint16]string{}
		for range 2 {
			id, answer := answered(t, c)
			got[id] = answer
		}
		if got[2] != mine[n.red] || got[3] != `NOERROR "up"` {
			t.Errorf("first came %v", got)
		}
		close(release)
		mustTell(t, c, 1, `NOERROR "up"`)
		if _, err := c.ReadMsg(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last answer: %v", err)
		}
	})

	t.Run("in pieces and strange messages", func(t *testing.T) {
		c := dialTCP(t, n.blue, 0)
		for _, b := range framed(t, 7, "db.internal.") {
			if _, err := c.Conn.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		mustTell(t, c, 7, mine[n.blue])
		response := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
		response.Response = true
		two := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
		two.Id, two.Question = 8, append(two.Question, two.Question[0])
		notify := new(dns.Msg).SetNotify("db.internal.")
		notify.Id = 9
		all := []byte{0, 0, 0, 3, 'a', 'b', 'c'} // neither has an answer
		for _, m := range []*dns.Msg{response, two, notify} {
			all = append(all, prefixed(pack(t, m))...)
		}
		all = append(all, framed(t, 10, "db.internal.")...)
		if _, err := c.Conn.Write(all); err != nil {
			t.Fatal(err)
		}
		want := map[uint16]string{8: "FORMERR", 9: "NOTIMP", 10: mine[n.blue]}
		for range len(want) {
			if id, answer := answered(t, c); answer != want[id] {
				t.Errorf("answer %d: %s, want %s", id, answer, want[id])
			}
		}
	})

	// A query may be as long as TCP has room for. Of more than are worked on at a time the
	// others wait, and none is refused.
	t.Run("long and many queries", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		long := withOptions("db.internal.", dns.TypeA, &dns.EDNS0_PADDING{})
		long.IsEdns0().Option[0] = &dns.EDNS0_PADDING{Padding: make([]byte, dns.MaxMsgSize-1-long.Len())}
		if got := len(pack(t, long)); got != dns.MaxMsgSize-1 {
			t.Fatalf("a query of %d bytes", got)
		}
		go func() {
			for id := range uint16(20) {
				m := long.Copy()
				m.Id = id
				_ = c.WriteMsg(m)
			}
		}()
		for range 20 {
			if id, answer := answered(t, c); answer != mine[n.red] {
				t.Errorf("answer %d to a long query: %s", id, answer)
			}
		}
		c = dialTCP(t, n.red, 0)
		var all []byte
		const times = 1000
		for id := range uint16(times) {
			all = append(all, framed(t, id, "db.internal.")...)
		}
		go func() { _, _ = c.Conn.Write(all) }()
		seen := map[uint16]bool{}
		for range times {
			id, answer := answered(t, c)
			if seen[id] || answer != mine[n.red] {
				t.Fatalf("answer %d: %s", id, answer)
			}
			seen[id] = true
		}
	})

	// A connection takes so many queries and answers them all, though the guest goes on.
	t.Run("the last query of a connection", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		go func() {
			for id := range uint16(maxTCPQueries + 100) {
				m := withOptions("db.internal.", dns.TypeA, keepalive())
				m.Id = id
				_ = c.WriteMsg(m)
			}
		}()
		for i := 1; ; i++ {
			r, err := c.ReadMsg()
			if i > maxTCPQueries && errors.Is(err, io.EOF) {
				break
			}
			if err != nil || i > maxTCPQueries || inShort(r) != mine[n.red] {
				t.Fatalf("answer %d: %v, %v", i, r, err)
			}
			if last := r.Id == maxTCPQueries-1; (toldKeepalive(t, r) == 0) != last {
				t.Errorf("query %d is told a timeout of %d", r.Id, toldKeepalive(t, r))
			}
		}
	})

	// As on a socket that does not ask for it, urgent data is no part of the stream.
	t.Run("urgent data", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		for id := range uint16(3) {
			query := framed(t, id, "db.internal.")
			for _, part := range []struct {
				b     []byte
				flags int
			}{{query[:5], 0}, {[]byte("!"), unix.MSG_OOB}, {query[5:], 0}} {
				raw, err := c.Conn.(*net.TCPConn).SyscallConn()
				if err != nil {
					t.Fatal(err)
				}
				e := raw.Write(func(fd uintptr) bool {
					_, err = unix.SendmsgN(int(fd), part.b, nil, nil, part.flags)
					return !errors.Is(err, unix.EAGAIN)
				})
				if err := errors.Join(e, err); err != nil {
					t.Fatal(err)
				}
			}
			mustTell(t, c, id, mine[n.red])
		}
	})

	// A guest that asks for it is told how long its connection may be idle (RFC 7828), by
	// whoever answers, and that is kept.
	t.Run("keepalive", func(t *testing.T) {
		const told = 20 // of 100 ms
		chaos := withOptions("db.internal.", dns.TypeA, keepalive())
		chaos.Question[0].Qclass = dns.ClassCHAOS
		version := withOptions("db.internal.", dns.TypeA, keepalive())
		version.IsEdns0().SetVersion(1)
		opcode := withOptions("db.internal.", dns.TypeA, keepalive())
		opcode.Opcode = dns.OpcodeStatus
		c := dialTCP(t, n.red, 0)
		for _, tt := range []struct {
			name, want string
			query      *dns.Msg
			told       int
		}{
			{"ovnhosts", mine[n.red], withOptions("db.internal.", dns.TypeA, keepalive()), told},
			{"beside other options", mine[n.red], withOptions("db.internal.", dns.TypeA, &dns.EDNS0_PADDING{Padding: make([]byte, 9)}, keepalive()), told},
			{"forward", `NOERROR "up"`, withOptions("quick.example.", dns.TypeTXT, keepalive()), told},
			{"another class", "REFUSED", chaos, told},
			{"another version", dns.RcodeToString[dns.RcodeBadVers], version, told},
			{"another opcode", "NOTIMP", opcode, told},
			{"no option", mine[n.red], withOptions("db.internal.", dns.TypeA), -1},
			{"no EDNS", mine[n.red], new(dns.Msg).SetQuestion("db.internal.", dns.TypeA), -1},
		} {
			if err := c.WriteMsg(tt.query); err != nil {
				t.Fatal(err)
			}
			r, err := c.ReadMsg()
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if got := toldKeepalive(t, r); inShort(r) != tt.want || got != tt.told {
				t.Errorf("%s: %s with a timeout of %d, want %s with %d", tt.name, inShort(r), got, tt.want, tt.told)
			}
			r, _, err = n.red.Exchange(within(t, wait), tt.query, net.JoinHostPort(resolver4, "53"))
			if err != nil || toldKeepalive(t, r) != -1 {
				t.Errorf("%s over UDP: %v, %v", tt.name, r, err)
			}
		}
		if err := c.WriteMsg(withOptions("db.internal.", dns.TypeA, keepalive())); err != nil {
			t.Fatal(err)
		}
		r, err := c.ReadMsg()
		if err != nil || toldKeepalive(t, r) != told {
			t.Fatalf("%v, %v", r, err)
		}
		answeredAt := time.Now()
		_ = c.SetReadDeadline(answeredAt.Add(told * 100 * time.Millisecond))
		if _, err := c.Conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection ended %s after its last answer: %v", time.Since(answeredAt), err)
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		if _, err := c.Conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an idle connection: %v", err)
		}
	})

	// One guest can have so many connections, and no more; nobody else minds.
	t.Run("many connections of one guest", func(t *testing.T) {
		s.t = t
		s.connections(0)
		// Each asks now and then, so that none of them ends for its silence while there are more
		// to come, and while the one more tries again, which takes it a second.
		var conns []*dns.Conn
		var asking sync.WaitGroup
		silent := make(chan struct{})
		fallSilent := sync.OnceFunc(func() {
			close(silent)
			asking.Wait()
		})
		t.Cleanup(fallSilent)
		for range tcp.MaxOfOwner {
			c := dialTCP(t, n.red, 0)
			conns = append(conns, c)
			asking.Go(func() {
				query := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
				for {
					err := c.WriteMsg(query)
					if err == nil {
						_, err = c.ReadMsg()
					}
					if err != nil {
						t.Errorf("one of them: %v", err)
						return
					}
					select {
					case <-silent:
						return
					case <-time.After(200 * time.Millisecond):
					}
				}
			})
		}
		_, err := n.red.Dial(within(t, wait), "tcp", net.JoinHostPort(resolver4, "53"))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("one more: %v", err)
		}
		fallSilent()
		// Whoever is asked to leave room is told so, and closed a second later: not before
		// the one more is refused.
		if err := conns[0].WriteMsg(withOptions("db.internal.", dns.TypeA, keepalive())); err != nil {
			t.Fatal(err)
		}
		if r, err := conns[0].ReadMsg(); err != nil || toldKeepalive(t, r) != 0 {
			t.Errorf("with all connections taken: %v, %v", r, err)
		}
		expect(t, n.blue, mine[n.blue], "+tcp", "@"+resolver4, "db.internal")
		expect(t, n.red, mine[n.red], "@"+resolver4, "db.internal")
		for _, c := range conns {
			c.Close()
		}
		s.connections(0)
		expect(t, n.red, mine[n.red], "+tcp", "@"+resolver4, "db.internal")
	})

	// Who says nothing loses the connection, within what CoreDNS allows.
	t.Run("silence", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		if _, err := c.Conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection without a query: %v", err)
		}
		c = dialTCP(t, n.red, 0)
		const lives = 1500 * time.Millisecond // at least
		askedAt := time.Now()
		asks(t, c, 1, "db.internal.", dns.TypeA)
		mustTell(t, c, 1, mine[n.red])
		_ = c.SetReadDeadline(askedAt.Add(lives))
		if _, err := c.Conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection ended %s after its query: %v", time.Since(askedAt), err)
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		if _, err := c.Conn.Write([]byte{0, 30, 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("half a query: %v", err)
		}
		s.t = t
		s.connections(0)
	})
	s.t = t
	s.endWell()
}

// prefixed is a message as TCP carries it, framed a query.
func prefixed(m []byte) []byte { return append([]byte{byte(len(m) >> 8), byte(len(m))}, m...) }

func framed(t *testing.T, id uint16, name string) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, dns.TypeA)
	m.Id = id
	return prefixed(pack(t, m))
}

// A connection outlives reloads and the connection to the switch, and no query on it
// is lost. Of a process that was killed the guest learns at once.
func TestTCPReload(t *testing.T) {
	t.Parallel()
	n := newReloaded(t)
	s := start(t, n.l, n.corefile(reload{}, ""))
	s.ready(200)
	ctx, stop := context.WithCancel(within(t, 2*wait))
	defer stop()
	var asking sync.WaitGroup
	var mu sync.Mutex
	asked := 0
	names := []struct {
		name  string
		qtype uint16
		want  string
	}{{"db.internal.", dns.TypeA, "NOERROR 10.0.0.21"}, {"n.slow.example.", dns.TypeTXT, `NOERROR "up"`}}
	for i := range 8 {
		c := dialTCP(t, n.vm, 0)
		_ = c.SetDeadline(time.Now().Add(2 * wait))
		asking.Go(func() {
			for k := uint16(0); ctx.Err() == nil; k++ {
				time.Sleep(pause)
				q := names[i%2]
				m := new(dns.Msg).SetQuestion(q.name, q.qtype)
				m.Id = k
				err := c.WriteMsg(m)
				var r *dns.Msg
				if err == nil {
					r, err = c.ReadMsg()
				}
				if err != nil || r.Id != k || inShort(r) != q.want {
					t.Errorf("connection %d, query %d: %v %v", i, k, r, err)
					return
				}
				mu.Lock()
				asked++
				mu.Unlock()
			}
		})
	}
	more := func(what string) {
		t.Helper()
		mu.Lock()
		before := asked
		mu.Unlock()
		n.l.Eventually("answers after "+what, func() error {
			mu.Lock()
			defer mu.Unlock()
			if asked < before+20 {
				return fmt.Errorf("%d", asked-before)
			}
			return nil
		})
	}
	for _, r := range []reload{
		{name: "lease", properties: "lease 30s", flow: "hard_timeout=30"},
		{name: "controller id", properties: "controller_id 77", flow: "controller(id=77,"},
		{name: "another way to the switch", openflow: "unix:" + n.link},
		{name: "cache", cache: "60"},
	} {
		s.reload(n.corefile(r, ""))
		s.ready(200)
		if r.flow != "" {
			n.inForce(r)
		}
		more(r.name)
	}
	stop()
	asking.Wait()
	t.Logf("%d queries", asked)

	c := dialTCP(t, n.vm, 0)
	asks(t, c, 1, "db.internal.", dns.TypeA)
	mustTell(t, c, 1, "NOERROR 10.0.0.21")
	_ = s.Kill() // says that it was killed
	s = start(t, n.l, n.corefile(reload{}, ""))
	s.ready(200)
	asks(t, c, 2, "db.internal.", dns.TypeA)
	if _, err := c.ReadMsg(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection of the process before: %v", err)
	}
	c = dialTCP(t, n.vm, 0)
	asks(t, c, 3, "db.internal.", dns.TypeA)
	mustTell(t, c, 3, "NOERROR 10.0.0.21")
	s.endWell()
}

// An answer that is due after the connection to the switch has come back is given.
func TestTCPReconnect(t *testing.T) {
	t.Parallel()
	n, up, release := newTCPOverlap(t)
	gate := n.Gate("unix:" + n.Dir + "/gate.sock")
	gate.Open(n.Node.OpenFlow)
	text := strings.Replace(pipelineCorefile("", "fallthrough", "forward . "+up.Addr), "openflow $MGMT", "openflow "+gate.Endpoint, 1)
	s := serve(t, n.Lab, text)
	c := dialTCP(t, n.red, 0)
	asks(t, c, 1, "slow.example.", dns.TypeTXT)
	n.Eventually("the upstream is asked", func() error {
		if up.Count("slow.example.") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	gate.Close()
	s.reaches(0, "coredns_ofpunt_connected", "bridge", lab.Bridge)
	gate.Open(n.Node.OpenFlow)
	s.reaches(1, "coredns_ofpunt_connected", "bridge", lab.Bridge)
	close(release)
	mustTell(t, c, 1, `NOERROR "up"`)
	asks(t, c, 2, "db.internal.", dns.TypeA)
	mustTell(t, c, 2, "NOERROR 10.0.1.101")
	s.endWell()
}

// A guest without port security that begins connections in the names of others, and
// never goes on, harms itself at most: whatever it sends, answers come back to it.
func TestTCPHostile(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	mallory := n.unguarded("mallory", 66)
	n.Sync()
	s := serve(t, n.Lab, pipelineCorefile("", "", ""))
	victims := watch(t, n.vm, n.peer)
	raw := mallory.Raw()
	t.Cleanup(func() { raw.Close() })
	before := s.metric("coredns_ofpunt_packet_ins_total")
	const syns = 2000
	// Faster ones would not get out of the switch's queue.
	err := paceFor(2*time.Second, syns/2, func(i int) error {
		src := netip.AddrPortFrom(n.vm.Addrs[0].Addr(), uint16(1024+i))
		if i%2 == 0 {
			src = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 4000)
		}
		return raw.Send(synFrame(t, n.vm.MAC, frame.Tag{}, src, netip.MustParseAddrPort(resolver4+":53")))
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Eventually("the SYNs", func() error {
		if got := s.metric("coredns_ofpunt_packet_ins_total") - before; got < syns/2 {
			return fmt.Errorf("%v punted", got)
		}
		return nil
	})
	if got := s.metric("coredns_ofpunt_tcp_connections"); got > tcp.MaxOfOwner {
		t.Errorf("%v connections, one guest may have %d", got, tcp.MaxOfOwner)
	}
	for _, w := range victims {
		for _, f := range w.segments(t) {
			t.Errorf("%s has received a segment for %s", w.g.Name, f.Dst)
		}
	}
	if r := n.vm.Dig("+tcp", "@"+resolver4, "db.internal"); r.Status != "NOERROR" {
		t.Errorf("beside it: %s\n%s", r, r.Out)
	}
	s.connections(0)
	s.endWell()
}

// synFrame is the SYN of a connection.
func synFrame(t *testing.T, mac string, tag frame.Tag, src, dst netip.AddrPort) []byte {
	t.Helper()
	return segmentFrame(t, mac, tag, src, dst, []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, 2, 0xff, 0xff, 0, 0, 0, 0})
}

// segmentFrame is the answer to one the other way round.
func segmentFrame(t *testing.T, mac string, tag frame.Tag, src, dst netip.AddrPort, segment []byte) []byte {
	t.Helper()
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	turned := frame.Ends{SrcMAC: [6]byte{2, 0, 0, 0, 1, 1}, DstMAC: [6]byte(hw), Tag: tag, Src: dst, Dst: src}
	f, err := turned.AppendSegment(nil, segment, true)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// byHand asks for a name on a connection of its own making, whose frames have the MAC
// and the tag, and returns the answer in short.
func byHand(t *testing.T, raw *lab.Raw, mac string, tag frame.Tag, src, dst netip.AddrPort, name string) string {
	t.Helper()
	const first = 1000 // the sequence number of the SYN
	var ack uint32
	send := func(sequence uint32, flags byte, payload []byte) {
		t.Helper()
		s := binary.BigEndian.AppendUint32(make([]byte, 4), sequence) // ports are filled in
		s = binary.BigEndian.AppendUint32(s, ack)
		s = append(s, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
		if err := raw.Send(segmentFrame(t, mac, tag, src, dst, append(s, payload...))); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(carries bool) []byte {
		t.Helper()
		var got frame.TCP
		if _, err := raw.RecvMatch(within(t, wait), func(f []byte) bool {
			var s frame.TCP
			if s.Decode(f) != nil || s.Src != dst || s.Dst != src || carries != (len(s.Segment) > int(s.Segment[12]>>4)*4) {
				return false
			}
			got = s
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if hw := net.HardwareAddr(got.DstMAC[:]).String(); hw != mac || got.Tag != tag {
			t.Errorf("a segment for %s with tag %+v, want %s and %+v", hw, got.Tag, mac, tag)
		}
		payload := got.Segment[int(got.Segment[12]>>4)*4:]
		ack = binary.BigEndian.Uint32(got.Segment[4:]) + uint32(len(payload))
		return payload
	}
	const syn, push, rst = 2, 0x18, 4
	send(first, syn, nil)
	receive(false)
	ack++ // for the SYN
	query := framed(t, 7, name)
	send(first+1, push, query)
	answer := receive(true)
	send(first+1+uint32(len(query)), rst, nil)
	if len(answer) < 2 {
		return "no message"
	}
	r := new(dns.Msg)
	if err := r.Unpack(answer[2:]); err != nil {
		return err.Error()
	}
	return inShort(r)
}
