// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// optUpstream is a DNS server that answers with options.
type optUpstream struct {
	addr    string
	options []dns.EDNS0
	rcode   int
	// got is ednsOf the last query.
	got   atomic.Pointer[string]
	asked atomic.Int64
}

func newOPTUpstream(t *testing.T, rcode int, options ...dns.EDNS0) *optUpstream {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := &optUpstream{addr: c.LocalAddr().String(), rcode: rcode, options: options}
	started := make(chan struct{})
	s := &dns.Server{PacketConn: c, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetRcode(r, up.rcode)
		m.SetEdns0(1232, true)
		m.IsEdns0().Option = up.options
		if up.rcode == dns.RcodeSuccess {
			m.Answer = []dns.RR{a(r.Question[0].Name, 1)}
		}
		if r.Question[0].Name != "." { // a health check
			text := ednsOf(r)
			up.got.Store(&text)
			up.asked.Add(1)
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	return up
}

// ednsOf returns flags and options, "none" without EDNS.
func ednsOf(m *dns.Msg) string {
	o := m.IsEdns0()
	if o == nil {
		return "none"
	}
	text := fmt.Sprintf("%04x", o.Hdr.Ttl&0xffff)
	for _, option := range o.Option {
		text += fmt.Sprint(" ", option.Option())
		if e, ok := option.(*dns.EDNS0_EDE); ok {
			text += fmt.Sprintf("=%d:%s", e.InfoCode, e.ExtraText)
		}
	}
	return text
}

// No option of a guest reaches an upstream. The guest gets an upstream's Extended DNS Errors, from *cache* too.
// Options of *rewrite* reach only the upstream.
func TestNextHop(t *testing.T) {
	options := []dns.EDNS0{
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(198, 51, 100, 0).To4()},
		&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
		&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE},
		&dns.EDNS0_PADDING{Padding: make([]byte, 16)},
		&dns.EDNS0_NSID{Code: dns.EDNS0NSID},
		&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("x")},
	}
	ede := func(code uint16, text string) dns.EDNS0 {
		return &dns.EDNS0_EDE{InfoCode: code, ExtraText: text}
	}
	errorsBeside := append([]dns.EDNS0{ede(3, ""), ede(22, "at \x00delegation é.")}, options...)
	const told = " 15=3: 15=22:at \x00delegation é."
	const flags = 1<<15 | 1<<14
	for _, tt := range []struct {
		name, plugins string
		rcode         int
		options       []dns.EDNS0 // of the upstream
		edns          bool        // of the guest
		wantUp, want  string
	}{
		{"options", "", 0, options, true, "8000", "8000"},
		{"options, an error", "", 0, errorsBeside, true, "8000", "8000" + told},
		{"options, a failure", "", dns.RcodeServerFailure, errorsBeside, true, "8000", "8000" + told},
		{"options, a denial", "", dns.RcodeNameError, errorsBeside, true, "8000", "8000" + told},
		{"errors that do not fit", "", 0, []dns.EDNS0{ede(22, strings.Repeat("x", 200)), ede(3, "")}, true, "8000", "8000 15=3:"},
		{"no EDNS", "", 0, errorsBeside, false, "none", "none"},
		{"options, of the operator", "rewrite edns0 local set 0xffee x\n", 0, errorsBeside, true, "8000 65518", "8000" + told},
		{"no EDNS, options of the operator", "rewrite edns0 local set 0xffee x\n", 0, options, false, "0000 65518", "none"},
		{"a subnet of the operator", "rewrite edns0 subnet set 24 56\n", 0, options, true, "8000 8", "8000"},
		{"zones of cache", "cache other.test\n", 0, errorsBeside, true, "8000", "8000" + told},
	} {
		for _, cache := range []string{"", "cache\n"} {
			if strings.HasPrefix(tt.plugins, "cache") && cache != "" {
				continue
			}
			t.Run(tt.name+", "+cache, func(t *testing.T) {
				up := newOPTUpstream(t, tt.rcode, tt.options...)
				rig := startCache(t, ". {\n $OFPUNT\n $CLOSE\n"+tt.plugins+cache+"forward . "+up.addr+"\n}\n")
				for i := range 2 {
					r := new(dns.Msg).SetQuestion("x.test.", dns.TypeA)
					if tt.edns {
						r.SetEdns0(1232, true)
						r.IsEdns0().Hdr.Ttl |= flags
						r.IsEdns0().Option = options
					}
					m := rig.ask(socketAsker, r)
					if m == nil || m.Rcode != tt.rcode {
						t.Fatalf("query %d: %v", i, m)
					}
					// The exchange's writer clears all flags but DO.
					if got := strings.Replace(ednsOf(m), "c000", "8000", 1); got != tt.want {
						t.Errorf("query %d: the guest gets %q, want %q", i, got, tt.want)
					}
					for _, rr := range m.Extra {
						if rr.Header().Rrtype != dns.TypeOPT {
							t.Errorf("query %d: the guest gets %v", i, rr)
						}
					}
				}
				if got := *up.got.Load(); got != tt.wantUp {
					t.Errorf("the upstream gets %q, want %q", got, tt.wantUp)
				}
				want := int64(2)
				if cache != "" && tt.rcode != dns.RcodeNameError { // without SOA
					want = 1
				}
				if got := up.asked.Load(); got != want {
					t.Errorf("the upstream was asked %d times, want %d", got, want)
				}
			})
		}
	}
}
