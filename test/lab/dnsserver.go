// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// DNSServer is an authoritative server in this process with its sockets in a
// namespace of the lab, UDP and TCP. It remembers what it was asked.
type DNSServer struct {
	Addr string // HOST:PORT

	host     *Host
	udp, tcp *dns.Server
	closing  sync.Once

	mu      sync.Mutex
	records map[string][]dns.RR // by lower-case owner
	asked   []dns.Question
	handler dns.Handler
}

// Upstream starts a server for *forward* in the first node's namespace, on a
// port of 127.0.0.53 of its own. Records are in zone file notation; what they
// do not have is NXDOMAIN or no data, with an SOA.
func (l *Lab) Upstream(records ...string) *DNSServer {
	l.t.Helper()
	l.mu.Lock()
	port := 5300 + l.upstreams
	l.upstreams++
	l.mu.Unlock()
	return l.Node.ServeDNS(fmt.Sprintf("127.0.0.53:%d", port), records...)
}

// ServeDNS starts a server in the namespace, on a numeric HOST:PORT; records as
// in [Lab.Upstream].
func (h *Host) ServeDNS(addr string, records ...string) *DNSServer {
	h.l.t.Helper()
	s := &DNSServer{Addr: addr, host: h}
	if err := s.start(records); err != nil {
		h.l.t.Fatalf("%s: DNS server on %s: %v", h.Name, addr, err)
	}
	h.l.mu.Lock()
	h.l.servers = append(h.l.servers, s)
	h.l.mu.Unlock()
	return s
}

func (s *DNSServer) start(records []string) error {
	if err := s.set(records); err != nil {
		return err
	}
	pc, err := s.host.ListenPacket("udp", s.Addr)
	if err != nil {
		return err
	}
	ln, err := s.host.Listen("tcp", s.Addr)
	if err != nil {
		pc.Close()
		return err
	}
	s.udp = serve(&dns.Server{PacketConn: pc, Handler: s})
	s.tcp = serve(&dns.Server{Listener: ln, Handler: s})
	return nil
}

// serve runs a server and returns when it does, so that a shutdown finds it
// running.
func serve(srv *dns.Server) *dns.Server {
	started := make(chan struct{})
	srv.NotifyStartedFunc = func() { close(started) }
	go func() {
		// It ends by Shutdown; a socket that fails shows as a query unanswered.
		_ = srv.ActivateAndServe()
	}()
	<-started
	return srv
}

// Set replaces the records.
func (s *DNSServer) Set(records ...string) {
	s.host.l.t.Helper()
	if err := s.set(records); err != nil {
		s.host.l.t.Fatalf("DNS server on %s: %v", s.Addr, err)
	}
}

func (s *DNSServer) set(records []string) error {
	m := make(map[string][]dns.RR)
	for _, line := range records {
		rr, err := dns.NewRR(line)
		if err != nil {
			return err
		}
		if rr == nil {
			return fmt.Errorf("record %q is empty", line)
		}
		name := strings.ToLower(rr.Header().Name)
		m[name] = append(m[name], rr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = m
	return nil
}

// SetHandler has queries answered by h, or not at all; nil goes back to the
// records. They are counted either way.
func (s *DNSServer) SetHandler(h dns.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

// Asked returns the questions so far, in order of arrival.
func (s *DNSServer) Asked() []dns.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]dns.Question(nil), s.asked...)
}

// Count returns how often a name was asked for, whatever the type and case.
func (s *DNSServer) Count(name string) int {
	n := 0
	for _, q := range s.Asked() {
		if strings.EqualFold(q.Name, dns.Fqdn(name)) {
			n++
		}
	}
	return n
}

// ServeDNS implements [dns.Handler].
func (s *DNSServer) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Question...)
	h := s.handler
	if h == nil {
		h = dns.HandlerFunc(s.answer)
	}
	s.mu.Unlock()
	h.ServeDNS(w, r)
}

func (s *DNSServer) answer(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	m.Authoritative = true
	if len(r.Question) == 1 {
		q := r.Question[0]
		s.mu.Lock()
		rrs := s.records[strings.ToLower(q.Name)]
		s.mu.Unlock()
		for _, rr := range rrs {
			if t := rr.Header().Rrtype; t == q.Qtype || q.Qtype == dns.TypeANY || t == dns.TypeCNAME {
				m.Answer = append(m.Answer, rr)
			}
		}
		if len(rrs) == 0 {
			m.Rcode = dns.RcodeNameError
		}
		if len(m.Answer) == 0 {
			m.Ns = []dns.RR{soa(q.Name)}
		}
	}
	size := dns.MinMsgSize
	if opt := r.IsEdns0(); opt != nil {
		m.SetEdns0(dns.DefaultMsgSize, opt.Do())
		size = int(opt.UDPSize())
	}
	if _, ok := w.RemoteAddr().(*net.TCPAddr); ok {
		size = dns.MaxMsgSize
	}
	m.Truncate(size)
	// A client that has gone is no failure of the server.
	_ = w.WriteMsg(m)
}

// soa is owned by the name's last label, so that caches take it for any name.
func soa(name string) dns.RR {
	labels := dns.SplitDomainName(name)
	zone := "."
	if len(labels) > 0 {
		zone = dns.Fqdn(labels[len(labels)-1])
	}
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 5},
		Ns:  "ns.upstream.", Mbox: "lab.upstream.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 5,
	}
}

// Close ends the server: its address then refuses queries.
func (s *DNSServer) Close() { s.shutdown() }

func (s *DNSServer) shutdown() {
	s.closing.Do(func() {
		// A handler of the test may hang; its sockets are closed all the same.
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		for _, srv := range []*dns.Server{s.udp, s.tcp} {
			_ = srv.ShutdownContext(ctx)
		}
	})
}
