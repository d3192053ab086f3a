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

// answerer is for the property *why*.
type answerer struct {
	// plugin is a package name, empty if no plugin has answered.
	plugin string
	// no records
	empty bool
}

func (s *Server) answererOf(m *dns.Msg) (a answerer) {
	if s.lastQueries != nil {
		a = answerer{pluginOnStack(), len(m.Answer) == 0}
	}
	return a
}

// maxFrames exceeds the frames up to the plugin: each plugin may add a writer.
const maxFrames = 64

// answersForForward ends the name of the function that answers for *forward* with the property *hedge*.
const answersForForward = "/chain.(*loopGuard).ServeDNS"

// pluginOnStack returns the package of the innermost ServeDNS on the stack, or of an earlier caller of
// origin.ReplaceAnswer. CoreDNS's PluginTracker has the outermost plugin.
func pluginOnStack() string {
	var pcs [maxFrames]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for replaced := false; ; {
		f, more := frames.Next()
		// For example github.com/coredns/coredns/plugin/forward.(*Forward).ServeDNS.
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

func (s *sender) guest() lastquery.Guest {
	return lastquery.Guest{Network: s.origin.Network, Switch: s.origin.Switch, Port: s.origin.Port}
}

// store is for the property *why*. The arguments are those of count.
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

// answerWhy answers the zone with the guest's last query, and NAME.ZONE with the last query for NAME. It reports
// whether the question is for the zone.
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
		_ = x.writer.fail(err) // fail counts and logs
		return true
	}
	b.answer, b.rcode = answer, m.Rcode
	_ = x.reply(b, metric.Answered, metric.ReasonWhy, m.Rcode) // reply counts
	return true
}
