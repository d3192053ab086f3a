// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Addresses that nobody has here.
const (
	public4 = "8.8.8.8"
	public6 = "2001:4860:4860::8888"
)

func TestHijack(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	var servers []*lab.DNSServer
	for _, at := range []struct {
		g    *lab.Guest
		addr string
	}{
		{n.peer, "10.0.0.12:53"},
		{n.peer, "[fd00:10::12]:53"},
		{n.far, "10.0.1.21:53"},
		{n.far, "[fd00:11::21]:53"},
	} {
		servers = append(servers, at.g.ServeDNS(at.addr, serverRecords...))
	}
	s := serve(t, n.Lab, pipelineCorefile(modes[1].properties, modes[1].fall, modes[1].behind))

	t.Run("local name", func(t *testing.T) {
		n.punts(t, s, 6, func() {
			for _, to := range []string{public4, public6, "10.0.0.12", "fd00:10::12", "10.0.1.21", resolver4} {
				// dig takes no reply from another address than it asked.
				expect(t, n.vm, fromPuntdns, "@"+to, "db.internal")
			}
		})
		for _, srv := range servers {
			if got := srv.Asked(); len(got) != 0 {
				t.Errorf("%s was asked %v", srv.Addr, got)
			}
		}
	})
	t.Run("answer on the wire", func(t *testing.T) {
		for _, f := range []udpFrame{
			{src: "10.0.0.11:40001", dst: public4 + ":53"},
			{src: "[fd00:10::11]:40002", dst: "[" + public6 + "]:53"},
		} {
			f.srcMAC, f.dstMAC, f.ttl = n.vm.MAC, redGateway, 64
			query := new(dns.Msg).SetQuestion("DB.internal.", dns.TypeA)
			f.payload = pack(t, query)
			n.punts(t, s, 1, func() {
				raw := n.vm.Raw()
				defer raw.Close()
				if err := raw.Send(f.build(t)); err != nil {
					t.Fatal(err)
				}
				frame, err := raw.RecvMatch(within(t, wait), sentBy(f.dst))
				if err != nil {
					t.Fatal(err)
				}
				want := udpFrame{srcMAC: f.dstMAC, dstMAC: f.srcMAC, src: f.dst, dst: f.src, payload: udpPayload(frame)}
				if f.v4() {
					want.tos, want.id, want.ttl, want.flags = frame[15], binary.BigEndian.Uint16(frame[18:]), frame[22], frame[20]
				} else {
					want.ttl = frame[21]
				}
				if built := want.build(t); !bytes.Equal(frame, built) {
					t.Errorf("%s:\n%x, want\n%x", f.dst, frame, built)
				}
				m := new(dns.Msg)
				if err := m.Unpack(want.payload); err != nil {
					t.Fatal(err)
				}
				if m.Id != query.Id || !m.Response || !m.Authoritative || m.Rcode != dns.RcodeSuccess || len(m.Question) != 1 || m.Question[0] != query.Question[0] ||
					len(m.Answer) != 1 || m.Answer[0].String() != "DB.internal.\t30\tIN\tA\t10.0.0.9" {
					t.Errorf("%s: %v", f.dst, m)
				}
			})
		}
	})
	t.Run("answered by whom it is for", func(t *testing.T) {
		n.punts(t, s, 3, func() {
			expect(t, n.vm, fromServer, "@10.0.0.12", "www.example.org")
			expect(t, n.vm, fromServer, "@fd00:10::12", "www.example.org")
			expect(t, n.vm, "NXDOMAIN", "@10.0.0.12", "none.example.org")
		})
	})
	t.Run("unchanged", func(t *testing.T) { testUnchanged(t, n, s) })
	t.Run("other ports", func(t *testing.T) { testOtherPorts(t, n, s) })
	t.Run("router", func(t *testing.T) {
		for i, to := range []string{"10.0.1.21", "fd00:11::21"} {
			name := []string{"four", "six"}[i] + ".example.org."
			srv := servers[2+i]
			srv.Set(name + " 77 IN A 192.0.2.77")
			n.punts(t, s, 1, func() { expect(t, n.vm, fromServer, "@"+to, name) })
			if got := srv.Count(name); got != 1 {
				t.Errorf("%s was asked %d times", to, got)
			}
			// A query is logged after it has gone on.
			s.log("asked " + regexp.QuoteMeta(name) + " A by red-vm on red\n")
			if got := strings.Count(s.Log(), "asked "+name); got != 1 {
				t.Errorf("%d queries in the log:\n%s", got, s.Log())
			}
		}
		// The name that both switches have is the asker's, wherever it is sent.
		expect(t, n.vm, fromPuntdns, "@10.0.1.21", "db.internal")
		expect(t, n.far, "NOERROR 30 10.0.1.9", "@10.0.0.12", "db.internal")
	})
	t.Run("not from a guest", func(t *testing.T) {
		// What comes to peer from green-local enters red by a port of the router.
		for _, g := range []*lab.Guest{n.guest("red-local", 13, "type=localport"), n.guest("green-local", 23, "type=localport")} {
			n.punts(t, s, 0, func() {
				expect(t, g, n.onward(g, fromServer), "@10.0.0.12", "db.internal")
				expect(t, g, n.onward(g, fromServer), "@fd00:10::12", "db.internal")
				expect(t, g, n.onward(g, "no reply"), "+time=1", "@"+public4, "db.internal")
			})
			if flows := n.dumpOurs(n.portMatch(g.Port)); len(flows) != 0 {
				t.Errorf("%s has entry flows: %q", g.Name, flows)
			}
		}
	})
	t.Run("port security", func(t *testing.T) {
		n.punts(t, s, 0, func() {
			raw := n.vm.Raw()
			defer raw.Close()
			payload := pack(t, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA))
			for _, f := range []udpFrame{
				{srcMAC: n.vm.MAC, src: "10.0.0.12:40001", dst: public4 + ":53"},
				{srcMAC: n.vm.MAC, src: "[fd00:10::12]:40001", dst: "[" + public6 + "]:53"},
				{srcMAC: n.peer.MAC, src: "10.0.0.11:40001", dst: public4 + ":53"},
			} {
				f.dstMAC, f.ttl, f.payload = redGateway, 64, payload
				if err := raw.Send(f.build(t)); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	testACLs(t, n, s, func(t *testing.T) {
		expect(t, n.vm, fromServer, "@10.0.0.12", "www.example.org")
		expect(t, n.vm, fromServer, "@fd00:10::12", "www.example.org")
		expect(t, n.vm, fromServer, "@10.0.1.21", "four.example.org")
	}, public4, public6, "10.0.0.12", "fd00:11::21")
}

// testUnchanged sends what puntdns has no answer to, and what is no query at
// all, and compares whole frames as they arrive.
func testUnchanged(t *testing.T, n *routed, s *server) {
	edns := new(dns.Msg).SetQuestion("WwW.eXaMpLe.org.", dns.TypeAAAA)
	edns.SetEdns0(4096, true)
	edns.Extra[0].(*dns.OPT).Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}}
	long := new(dns.Msg).SetQuestion("www.example.org.", dns.TypeTXT)
	long.SetEdns0(4096, false)
	long.Extra[0].(*dns.OPT).Option = []dns.EDNS0{&dns.EDNS0_PADDING{Padding: make([]byte, 1300)}}
	update := new(dns.Msg).SetUpdate("example.org.")
	update.Insert([]dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "x.example.org.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, 1)}})
	response := new(dns.Msg).SetReply(new(dns.Msg).SetQuestion("db.internal.", dns.TypeA))
	two := new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	plain := pack(t, new(dns.Msg).SetQuestion("www.example.org.", dns.TypeA))

	payloads := []struct {
		name    string
		payload []byte
	}{
		{"EDNS with a cookie", pack(t, edns)},
		{"no EDNS", plain},
		{"1300 bytes of padding", pack(t, long)},
		{"bytes behind the message", append(bytes.Clone(plain), 1, 2, 3)},
		{"update", pack(t, update)},
		{"response", pack(t, response)},
		{"two questions", pack(t, two)},
		{"half a question", plain[:20]},
		{"header alone", plain[:12]},
		{"half a header", plain[:5]},
		{"nothing", nil},
		{"no DNS", bytes.Repeat([]byte{0xff}, 100)},
	}
	raw, onRed, onGreen := n.vm.Raw(), n.peer.Raw(), n.far.Raw()
	t.Cleanup(func() {
		for _, r := range []*lab.Raw{raw, onRed, onGreen} {
			r.Close()
		}
	})
	// check sends f and wants it as the next frame from vm: one that came twice
	// would be there instead.
	check := func(t *testing.T, f, want udpFrame, at *lab.Raw) {
		t.Helper()
		if err := raw.Send(f.build(t)); err != nil {
			t.Fatal(err)
		}
		got, err := at.RecvMatch(within(t, wait), sentBy(f.src))
		if err != nil {
			t.Fatalf("%+v does not arrive: %v", f, err)
		}
		if w := want.build(t); !bytes.Equal(got, w) {
			t.Errorf("arrived\n%x, want\n%x", got, w)
		}
	}
	ways := []struct {
		src, dst string
		at       *lab.Raw
	}{
		{"10.0.0.11", "10.0.0.12", onRed},
		{"fd00:10::11", "fd00:10::12", onRed},
		{"10.0.0.11", "10.0.1.21", onGreen},
		{"fd00:10::11", "fd00:11::21", onGreen},
	}
	headers := []struct {
		name string
		f    udpFrame
	}{
		{"IPv4 without a checksum", udpFrame{src: "10.0.0.11:42001", dst: "10.0.0.12:53", noSum: true}},
		{"IPv4 with options", udpFrame{src: "10.0.0.11:42002", dst: "10.0.0.12:53", extra: []byte{0x94, 4, 0, 0}}},                               // router alert
		{"IPv6 with a hop-by-hop header", udpFrame{src: "[fd00:10::11]:42003", dst: "[fd00:10::12]:53", extra: []byte{17, 0, 1, 4, 0, 0, 0, 0}}}, // padding
	}
	punts := len(payloads) * len(ways)
	for _, h := range headers {
		if !spoiled(t, n.Release(), h.f) {
			punts++
		}
	}
	n.punts(t, s, punts, func() {
		port := uint16(41000)
		for _, p := range payloads {
			t.Run(p.name, func(t *testing.T) {
				for _, way := range ways {
					port++
					f := udpFrame{
						srcMAC: n.vm.MAC, dstMAC: n.peer.MAC, ttl: 61, tos: 0x28, id: port ^ 0x5555, flags: 0x40,
						src:     netip.AddrPortFrom(netip.MustParseAddr(way.src), port).String(),
						dst:     netip.AddrPortFrom(netip.MustParseAddr(way.dst), 53).String(),
						payload: p.payload,
					}
					want := f
					if way.at == onGreen {
						f.dstMAC = redGateway
						want.srcMAC, want.dstMAC, want.ttl = greenGateway, n.far.MAC, f.ttl-1
					}
					check(t, f, want, way.at)
				}
			})
		}
		for _, h := range headers {
			t.Run(h.name, func(t *testing.T) {
				if spoiled(t, n.Release(), h.f) {
					return
				}
				h.f.srcMAC, h.f.dstMAC, h.f.ttl, h.f.payload = n.vm.MAC, n.peer.MAC, 64, plain
				check(t, h.f, h.f, onRed)
			})
		}
	})
}

// testOtherPorts sends queries to ports that are not of DNS.
func testOtherPorts(t *testing.T, n *routed, s *server) {
	payload := pack(t, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA))
	raw, at := n.vm.Raw(), n.peer.Raw()
	defer raw.Close()
	defer at.Close()
	n.punts(t, s, 0, func() {
		for _, port := range []uint16{52, 54, 853, 5353, 53 << 8} {
			for _, to := range []struct{ src, dst string }{{"10.0.0.11", "10.0.0.12"}, {"fd00:10::11", "fd00:10::12"}} {
				f := udpFrame{
					srcMAC: n.vm.MAC, dstMAC: n.peer.MAC, ttl: 64, payload: payload,
					src: netip.AddrPortFrom(netip.MustParseAddr(to.src), 53).String(),
					dst: netip.AddrPortFrom(netip.MustParseAddr(to.dst), port).String(),
				}
				if err := raw.Send(f.build(t)); err != nil {
					t.Fatal(err)
				}
				got, err := at.RecvMatch(within(t, wait), sentBy(f.src))
				if err != nil {
					t.Fatalf("port %d: %v", port, err)
				}
				if want := f.build(t); !bytes.Equal(got, want) {
					t.Errorf("port %d: arrived\n%x, want\n%x", port, got, want)
				}
			}
		}
	})
}

func pack(t *testing.T, m *dns.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// udpFrame describes a UDP datagram on Ethernet.
type udpFrame struct {
	srcMAC, dstMAC string
	src, dst       string // addresses with ports, of one family
	ttl, tos       uint8  // hop limit and traffic class in IPv6
	id             uint16 // IPv4 only
	flags          uint8  // IPv4 only: the byte with DF, 0x40
	extra          []byte // IPv4 options, or an IPv6 hop-by-hop header
	noSum          bool   // no UDP checksum
	payload        []byte
}

func (f udpFrame) v4() bool { return netip.MustParseAddrPort(f.src).Addr().Is4() }

// spoiled reports whether the switch gives such a frame a wrong checksum, and says so in the
// test's log.
func spoiled(t *testing.T, release lab.Release, f udpFrame) bool {
	t.Helper()
	if f.v4() || len(f.extra) == 0 || !release.SwitchSpoilsHopByHop() {
		return false
	}
	t.Logf("left out: Open vSwitch %s gives UDP behind a hop-by-hop header a wrong checksum", release.Switch)
	return true
}

// build makes the frame (RFC 791, RFC 8200, RFC 768).
func (f udpFrame) build(t *testing.T) []byte {
	t.Helper()
	var b []byte
	for _, s := range []string{f.dstMAC, f.srcMAC} {
		mac, err := net.ParseMAC(s)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, mac...)
	}
	src, dst := netip.MustParseAddrPort(f.src), netip.MustParseAddrPort(f.dst)

	u := binary.BigEndian.AppendUint16(nil, src.Port())
	u = binary.BigEndian.AppendUint16(u, dst.Port())
	u = binary.BigEndian.AppendUint16(u, uint16(8+len(f.payload)))
	u = append(append(u, 0, 0), f.payload...)
	if !f.noSum {
		pseudo := append(src.Addr().AsSlice(), dst.Addr().AsSlice()...)
		pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(u)))
		pseudo = append(pseudo, 0, 0, 0, 17)
		sum := internetSum(append(pseudo, u...))
		if sum == 0 {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(u[6:], sum)
	}

	var ip []byte
	if f.v4() {
		b = append(b, 0x08, 0x00)
		ip = append(ip, byte(0x45+len(f.extra)/4), f.tos)
		ip = binary.BigEndian.AppendUint16(ip, uint16(20+len(f.extra)+len(u)))
		ip = binary.BigEndian.AppendUint16(ip, f.id)
		ip = append(ip, f.flags, 0, f.ttl, 17, 0, 0)
		ip = append(append(ip, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
		ip = append(ip, f.extra...)
		binary.BigEndian.PutUint16(ip[10:], internetSum(ip))
	} else {
		b = append(b, 0x86, 0xdd)
		next := byte(17)
		if len(f.extra) > 0 {
			next = 0
		}
		ip = binary.BigEndian.AppendUint32(ip, 6<<28|uint32(f.tos)<<20)
		ip = binary.BigEndian.AppendUint16(ip, uint16(len(f.extra)+len(u)))
		ip = append(ip, next, f.ttl)
		ip = append(append(ip, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
		ip = append(ip, f.extra...)
	}
	return append(append(b, ip...), u...)
}

// internetSum is the checksum of RFC 1071.
func internetSum(b []byte) uint16 {
	var sum uint32
	for i, c := range b {
		if i%2 == 0 {
			sum += uint32(c) << 8
		} else {
			sum += uint32(c)
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// sentBy accepts all UDP from the address of src.
func sentBy(src string) func(frame []byte) bool {
	address := netip.MustParseAddrPort(src).Addr()
	return func(frame []byte) bool {
		if address.Is4() {
			return len(frame) >= 42 && frame[12] == 0x08 && frame[13] == 0x00 && frame[23] == 17 &&
				bytes.Equal(frame[26:30], address.AsSlice())
		}
		// UDP, or hop-by-hop options with UDP behind them.
		return len(frame) >= 62 && frame[12] == 0x86 && frame[13] == 0xdd &&
			(frame[20] == 17 || frame[20] == 0 && frame[54] == 17) && bytes.Equal(frame[22:38], address.AsSlice())
	}
}

// udpPayload is that of a frame without options or extension headers.
func udpPayload(frame []byte) []byte {
	if frame[12] == 0x08 {
		return frame[14+20+8:]
	}
	return frame[14+40+8:]
}
