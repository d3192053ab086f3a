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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

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
	up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
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
	}))
	return n, up, release
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

func TestTCP(t *testing.T) {
	n, up, release := newTCPOverlap(t)
	s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", "forward . "+up.Addr))
	guests := []*lab.Guest{n.red, n.blue}
	mine := map[*lab.Guest]string{n.red: "NOERROR 10.0.1.101", n.blue: "NOERROR 10.0.1.201"}

	t.Run("dig", func(t *testing.T) {
		for _, q := range sharedQuestions {
			if q.red == "" || q.blue == "" {
				continue
			}
			for _, g := range guests {
				for _, resolver := range resolvers {
					r := g.Dig("+tcp", "@"+resolver, q.name, dns.TypeToString[q.qtype])
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

	// A query that is longer than any ends the connection; of more than are worked on
	// at a time the others wait, and none is refused.
	t.Run("long and many queries", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		if _, err := c.Conn.Write([]byte{0x10, 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadMsg(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after the length of a query of 4097 bytes: %v", err)
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

	// One guest can have so many connections, and no more; nobody else minds.
	t.Run("many connections of one guest", func(t *testing.T) {
		s.t = t
		s.connections(0)
		var conns []*dns.Conn
		for range tcp.MaxOfOwner {
			conns = append(conns, dialTCP(t, n.red, 0))
		}
		_, err := n.red.Dial(within(t, wait), "tcp", net.JoinHostPort(resolver4, "53"))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("one more: %v", err)
		}
		if r := n.blue.Dig("+tcp", "@"+resolver4, "db.internal"); r.String() != mine[n.blue] {
			t.Errorf("another guest: %s", r)
		}
		if r := n.red.Dig("@"+resolver4, "db.internal"); r.String() != mine[n.red] {
			t.Errorf("the same guest by UDP: %s", r)
		}
		for _, c := range conns {
			c.Close()
		}
		s.connections(0)
		if r := n.red.Dig("+tcp", "@"+resolver4, "db.internal"); r.String() != mine[n.red] {
			t.Errorf("after it has closed them: %s", r)
		}
	})

	// Who says nothing loses the connection, within what CoreDNS allows.
	t.Run("silence", func(t *testing.T) {
		c := dialTCP(t, n.red, 0)
		if _, err := c.Conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection without a query: %v", err)
		}
		c = dialTCP(t, n.red, 0)
		asks(t, c, 1, "db.internal.", dns.TypeA)
		mustTell(t, c, 1, mine[n.red])
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
		n.change(s, n.corefile(r, ""), "Reloading complete", func() error { return s.Signal(syscall.SIGUSR1) })
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
