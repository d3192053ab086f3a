// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"runtime"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/lastquery"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

// answerer is who has answered, as far as the property *why* stores it.
type answerer struct {
	// plugin is the name of the package of the plugin, empty if no plugin has answered.
	plugin string
	// empty is set if the answer has no records.
	empty bool
}

// answererOf returns who calls the writer with an answer. It is the zero value without the property *why*.
func (s *Server) answererOf(m *dns.Msg) (a answerer) {
	if s.lastQueries != nil {
		a = answerer{pluginOnStack(), len(m.Answer) == 0}
	}
	return a
}

// maxFrames is more than there are between the writer and the plugin: each plugin on the way may have a writer.
const maxFrames = 64

// answersForForward ends the name of the function of package chain that writes the answer of *forward*, with the
// property *hedge*.
const answersForForward = "/chain.(*loopGuard).ServeDNS"

// pluginOnStack returns the name of the package of the innermost ServeDNS on the stack, or of the caller of
// origin.ReplaceAnswer before that. The interface PluginTracker of CoreDNS has the outermost plugin instead, since each
// call of the next plugin wraps the writer.
func pluginOnStack() string {
	var pcs [maxFrames]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for replaced := false; ; {
		f, more := frames.Next()
		// The name is such as github.com/coredns/coredns/plugin/forward.(*Forward).ServeDNS.
		if strings.HasSuffix(f.Function, answersForForward) {
			return "forward"
		}
		if replaced || strings.HasSuffix(f.Function, ".ServeDNS") {
			name, _, _ := strings.Cut(f.Function[strings.LastIndexByte(f.Function, '/')+1:], ".")
			return name
		}
		replaced = strings.HasSuffix(f.Function, "/origin.ReplaceAnswer")
		if !more {
			return ""
		}
	}
}

// guest returns the logical port for the property *why*.
func (s *sender) guest() lastquery.Guest {
	return lastquery.Guest{Network: s.origin.Network, Switch: s.origin.Switch, Port: s.origin.Port}
}

// store stores the outcome of the exchange for the property *why*. The arguments are the arguments of count.
func (x *Exchange) store(result, reason string, rcode int) {
	if x.server.lastQueries == nil || reason == metric.ReasonWhy || x.from.origin.Port == "" || x.from.channel.intake.bridge.Tally == nil || len(x.payload) < headerLen {
		return
	}
	name, at, err := dns.UnpackDomainName(x.payload, headerLen)
	if err != nil || len(x.payload) < at+2 {
		return
	}
	q := lastquery.Query{
		Arrived: x.arrived, Took: time.Since(x.arrived),
		Name: strings.ToLower(name), Type: uint16(x.payload[at])<<8 | uint16(x.payload[at+1]),
		Result: result, Reason: reason, Rcode: rcode, Plugin: x.answerer.plugin, Empty: x.answerer.empty,
	}
	if u := x.upstream.Load(); u != nil {
		q.Upstream = *u
	}
	x.server.lastQueries.Put(x.from.guest(), &q)
}

// answerWhy answers a question of the property *why*: for the zone itself what has become of the guest's last query,
// for NAME.ZONE of its last query for the name. It reports whether the question is one.
func (x *Exchange) answerWhy() bool {
	question := &x.request.Question[0]
	zone := x.server.Why
	if zone == "" || question.Qclass != dns.ClassCHAOS || !dns.IsSubDomain(zone, question.Name) || x.from.origin.Port == "" {
		return false
	}
	qname := strings.ToLower(question.Name)
	m := new(dns.Msg).SetReply(&x.request)
	m.Authoritative = true
	switch q, found := x.server.lastQueries.Find(x.from.guest(), strings.TrimSuffix(qname, zone), x.arrived); {
	case !found && qname != zone:
		m.Rcode = dns.RcodeNameError
	case found && (question.Qtype == dns.TypeTXT || question.Qtype == dns.TypeANY):
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS}, Txt: q.Strings()}}
	}
	if x.request.IsEdns0() != nil {
		m.SetEdns0(maxPayload, false)
	}
	x.writer.init(x)
	b := buffers.get()
	defer buffers.put(b)
	answer, err := x.writer.pack(m, b)
	if err != nil {
		_ = x.writer.fail(err) // counted and logged there
		return true
	}
	b.answer, b.rcode = answer, m.Rcode
	_ = x.reply(b, metric.Answered, metric.ReasonWhy, m.Rcode) // counted there
	return true
}
