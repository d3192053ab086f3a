// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// effects are the side effects of an explanation.
var effects = []string{
	"nothing was sent to the guest, and nothing is stored in cache",
	"log, audit, errors, prometheus and the plugin dnstap have not seen the query, and it counts against no limit of the guest",
	"plugins of CoreDNS that have counters of their own, such as cache, template and forward, have counted it, and forward reports its queries to dnstap",
}

func badRequest(format string, args ...any) error {
	return &control.Error{Status: http.StatusBadRequest, Err: fmt.Errorf(format, args...)}
}

type explainRequest struct {
	port, name string // name is fully qualified
	qtype      uint16
	server     netip.AddrPort // invalid for the first resolver address
	from       netip.Addr     // invalid for the guest's first address
	tcp        bool
}

func parseExplainRequest(parameters url.Values) (w explainRequest, err error) {
	w = explainRequest{port: parameters.Get("port"), name: parameters.Get("name"), qtype: dns.TypeA}
	if w.port == "" {
		return w, badRequest("port is empty: expected the name of a logical port, or an interface or an address")
	}
	labels, ok := dns.IsDomainName(w.name)
	if w.name == "" || !ok {
		return w, badRequest("name %.80q: expected a domain name of labels up to 63 bytes, 255 bytes in all", w.name)
	}
	if a, err := netip.ParseAddr(w.name); err == nil {
		reverse, _ := dns.ReverseAddr(a.String())
		return w, badRequest("name %q is an address: expected a domain name, such as %s with type PTR", w.name, reverse)
	}
	if w.name = dns.Fqdn(w.name); labels > 0 && w.name != "." && strings.HasPrefix(w.name, ".") {
		return w, badRequest("name %.80q: expected no empty label", w.name)
	}
	if word := parameters.Get("type"); word != "" {
		if w.qtype, ok = dns.StringToType[strings.ToUpper(word)]; !ok {
			return w, badRequest("type %.80q: expected one such as A, AAAA or PTR", word)
		}
	}
	if word := parameters.Get("server"); word != "" {
		if w.server, err = parseServer(word); err != nil {
			return w, badRequest("server %.80q: expected IP, IPv4:PORT or [IPv6]:PORT", word)
		}
	}
	if word := parameters.Get("from"); word != "" {
		if w.from, err = netip.ParseAddr(word); err != nil || w.from.Zone() != "" || w.from.Is4In6() {
			return w, badRequest("from %.80q: expected an IP address of the guest", word)
		}
	}
	if word := parameters.Get("tcp"); word != "" {
		if w.tcp, err = strconv.ParseBool(word); err != nil {
			return w, badRequest("tcp %.80q: expected true or false", word)
		}
	}
	return w, nil
}

func parseServer(word string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(word); err == nil {
		return netip.AddrPortFrom(a, placement.DNSPort), nil
	}
	return netip.ParseAddrPort(word)
}

// explain answers api.PathExplain.
func (a *answers) explain(ctx context.Context, parameters url.Values) (any, error) {
	w, err := parseExplainRequest(parameters)
	if err != nil {
		return nil, err
	}
	select {
	case <-a.semaphore:
	default: // waiting would block others at the control socket
		return nil, &control.Error{Status: http.StatusServiceUnavailable, Err: errors.New("another query is being explained, or its plugins have not returned; expected none, try again")}
	}
	var returned <-chan struct{} // closed by the chain, nil if none runs
	defer func() {
		if returned == nil {
			a.semaphore <- struct{}{}
			return
		}
		go func() {
			<-returned
			a.semaphore <- struct{}{}
		}()
	}()
	g, unserved, err := findGuest(a.guests(ctx), w.port)
	if err != nil {
		return nil, err
	}
	out := newExplanation(&w)
	if unserved != nil {
		out.showUnserved(unserved, a.bindingProblem(unserved.Bridge))
	} else {
		out.Guest = *g
		for _, p := range g.Problems {
			// A server given by hand need not be announced; without an announced server the guest needs one.
			if p.Code != api.CodeNotAnnounced || !w.server.IsValid() && len(announced(g)) > 0 {
				out.Findings = append(out.Findings, p)
			}
		}
		if returned, err = a.ask(ctx, &w, out); err != nil {
			return nil, err
		}
	}
	out.conclude()
	return &out.Explanation, nil
}

type explanation struct{ api.Explanation }

func newExplanation(w *explainRequest) *explanation {
	return &explanation{api.Explanation{
		Findings: []api.Problem{}, Flows: []api.GuestFlow{}, Labels: []api.Label{}, Views: []api.View{}, Steps: []api.Step{}, Effects: effects,
		Question: api.ExplainQuestion{Port: w.port, Name: w.name, Type: dns.TypeToString[w.qtype], TCP: w.tcp},
	}}
}

// An empty remedy means the remedy of the code.
func (e *explanation) find(code, text, remedy string, commands ...string) {
	e.Findings = append(e.Findings, api.Problem{Code: code, About: e.Guest.Port, Text: text, Remedy: remedy, Commands: commands})
}

// conclude adds what follows from all findings.
func (e *explanation) conclude() {
	e.Well = remedy.Well(e.Findings)
	remedy.FillExplanation(&e.Explanation)
}

func (e *explanation) has(codes ...string) bool {
	return slices.ContainsFunc(e.Findings, func(f api.Problem) bool { return slices.Contains(codes, f.Code) })
}

func (a *answers) bindingProblem(name string) string {
	if b := a.bridges.Get(name); b != nil && b.Server() != nil {
		return b.Server().BindingProblem()
	}
	return ""
}

// binding is a problem of the chassis: it replaces the interface's reason, unless that has another cause.
func (e *explanation) showUnserved(u *api.Unserved, binding string) {
	e.Guest = api.Guest{Bridge: u.Bridge, Port: u.Port, Interface: u.Interface, InPort: u.InPort}
	e.Unasked = "its interface is not served"
	e.Without = "the same: no query of it is punted"
	text := fmt.Sprintf("interface %s (logical port %q) is not served, so none of its queries comes here: %s", u.Interface, u.Port, u.Reason)
	if binding != "" {
		e.Findings = append(e.Findings, api.Problem{Code: api.CodeBinding, About: u.Bridge, Text: binding})
		if u.Expected {
			return
		}
	}
	e.find(api.CodeUnserved, text, u.Remedy)
}

// returned closes when the chain has returned; nil if it did not run.
func (a *answers) ask(ctx context.Context, w *explainRequest, out *explanation) (returned <-chan struct{}, err error) {
	b := a.bridges.Get(out.Guest.Bridge)
	if b == nil {
		return nil, control.NotFound("bridge %s is not served any more", out.Guest.Bridge)
	}
	state := b.State()
	if state == nil || state.Session == nil {
		why := "it is not served"
		if state != nil {
			why = cmp.Or(state.Waiting, why)
		}
		return nil, control.NotFound("bridge %s: %s", out.Guest.Bridge, why)
	}
	srv := state.Server
	q := &explainedQuery{explainRequest: w, serverGiven: w.server.IsValid(), srv: srv, out: out}
	if err := q.choose(); err != nil {
		return nil, err
	}
	t := newGuestLister(b, state, srv)
	key, ok := t.keyOf(&out.Guest)
	if !ok {
		return nil, control.NotFound("port %s is not served any more", out.Guest.Port)
	}
	t.showFlows(ctx, key, &out.Explanation)
	out.EntryTable = t.placement().Table
	in := packetOf(&out.Guest, srv.Options.Placement)
	if key.MAC != ([6]byte{}) {
		q.mac = key.MAC
		in.Regs[placement.RegInPort] = key.Port
	}
	returned, err = q.run(b, in)
	if err == nil && b.Server() != srv {
		err = &control.Error{Status: http.StatusServiceUnavailable, Err: errors.New("the Corefile was reloaded meanwhile; expected the same one, try again")}
	}
	return returned, err
}

type explainedQuery struct {
	*explainRequest
	serverGiven bool
	srv         *bridge.Server
	out         *explanation
	guest       netip.AddrPort
	mac         [6]byte
}

const clientPort = 50000

// choose assumes an address if the databases have none, as for "unknown": the answer depends only on the port.
func (q *explainedQuery) choose() error {
	g, of := &q.out.Guest, &q.out.Question
	if !q.server.IsValid() {
		q.server = defaultServer(g)
	}
	if !q.server.IsValid() {
		return badRequest("port %s has no resolver address of its own, as it may ask any: expected --server ADDR", g.Port)
	}
	is4 := q.server.Addr().Is4()
	if q.from.IsValid() && q.from.Is4() != is4 {
		return badRequest("from %s, to %s: expected addresses of one family", q.from, q.server)
	}
	address := q.from
	for _, text := range g.Addresses {
		if a, err := netip.ParseAddr(text); err == nil && !address.IsValid() && a.Is4() == is4 {
			address = a
		}
	}
	if !address.IsValid() && len(g.Addresses) > 0 {
		return badRequest("server %s: the guest has no address of this family in OVN (%s); expected a server of another family, or --from ADDRESS", q.server, strings.Join(g.Addresses, " "))
	}
	if of.Assumed = !address.IsValid(); of.Assumed {
		address = netip.MustParseAddr(api.StandIn6)
		if is4 {
			address = netip.MustParseAddr(api.StandIn4)
		}
	}
	of.ClientMAC = api.StandInMAC
	if len(g.MACs) > 0 {
		of.ClientMAC = g.MACs[0]
	} else {
		of.Assumed = true
	}
	mac, err := net.ParseMAC(of.ClientMAC)
	if err != nil || len(mac) != len(q.mac) {
		return fmt.Errorf("MAC address %q of port %s: expected 6 bytes", of.ClientMAC, g.Port)
	}
	q.guest, q.mac = netip.AddrPortFrom(address, clientPort), [6]byte(mac)
	of.Server, of.Client = q.server.String(), q.guest.String()
	return nil
}

// defaultServer returns the first resolver address that DHCP announces, else the first resolver address, if possible
// of a family of the guest. With address any it is DHCP's first server.
func defaultServer(g *api.Guest) (server netip.AddrPort) {
	var all []netip.AddrPort
	for _, r := range g.Resolvers {
		if a, err := netip.ParseAddrPort(r); err == nil {
			all = append(all, a)
		}
	}
	var preferred []netip.AddrPort
	for _, a := range announced(g) {
		if a := netip.AddrPortFrom(a, placement.DNSPort); len(all) == 0 || slices.Contains(all, a) {
			preferred = append(preferred, a)
		}
	}
	all = slices.Concat(preferred, all)
	for _, a := range all {
		for _, own := range g.Addresses {
			if o, err := netip.ParseAddr(own); err == nil && o.Is4() == a.Addr().Is4() {
				return a
			}
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return server
}

func announced(g *api.Guest) (all []netip.Addr) {
	if g.DHCP == nil {
		return nil
	}
	for _, word := range strings.FieldsFunc(g.DHCP.DNSServer, func(r rune) bool { return strings.ContainsRune("{}, ", r) }) {
		if a, err := netip.ParseAddr(word); err == nil {
			all = append(all, a)
		}
	}
	return all
}

func (q *explainedQuery) message() ([]byte, error) {
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	m.SetEdns0(1232, false)
	return m.Pack()
}

func (q *explainedQuery) run(b *bridge.Bridge, in openflow.PacketIn) (returned <-chan struct{}, err error) {
	message, err := q.message()
	if err == nil {
		in.Data, err = punt.QueryFrame(q.guest, q.mac, q.server, message)
	}
	if err != nil {
		return nil, badRequest("name %.80q: %w", q.name, err)
	}
	x := explain.New()
	begun := time.Now()
	v := b.Ask(q.srv, &punt.TestQuery{
		In: in, TCP: q.tcp, Resumable: q.srv.Chains().Resumes() && !q.tcp, Answered: x.Answer,
		Context: x.Context(q.srv.Chains().Context()),
		Looped: func(by *origin.Origin) {
			x.Find(explain.Finding{
				Code: api.CodeLoop, Text: fmt.Sprintf("a loop: port %s of switch %s, a DNS server that is asked for the name, asks the same here, and is not answered by itself", by.Port, by.Switch),
			})
		},
	})
	go func() {
		<-v.Done // until then plugins treat the query as explained
		x.End()
	}()
	q.out.Seconds = time.Since(begun).Seconds()
	q.show(&v, x.Report())
	return v.Done, nil
}

func (q *explainedQuery) show(v *punt.TestResult, r explain.Report) {
	out := q.out
	var network *ovn.Network
	if q.srv.Names() != nil {
		network = q.srv.Names().Snapshot().Network(v.Origin.Network)
	}
	canonical, _ := names.Canonical(strings.TrimSuffix(q.name, "."))
	out.Without = withoutPuntdns(q.srv, network, canonical, out.Question.Type, q.server, q.tcp)
	if rules := q.srv.Guests(); v.IsResolver && !(q.tcp && rules.Hijack()) && rules.FailsClosed(rules.LimitOf(&v.Origin)) {
		out.Without = "the switch drops the query, as the guest has `fail closed` in ofpunt"
	}
	switch {
	case !v.Identified || v.Origin.Port != "" && out.Guest.Port != "" && v.Origin.Port != out.Guest.Port:
		out.Unasked = "it would not be known whose query it is"
		out.find(api.CodeUnknownGuest, "the packet would not be known to be of this guest: the switch and the databases do not agree on who has its port", "")
		return
	case !v.IsResolver:
		out.Unasked = "the guest has asked another server"
		out.find(api.CodeNotResolver, fmt.Sprintf("%s is no resolver address of this guest, which are %s: the query is not punted, and goes on", q.server, strings.Join(out.Guest.Resolvers, " ")), "")
		return
	case q.tcp && q.srv.Options.Hijack():
		out.Unasked = "in hijack mode (address any) the switch punts UDP only, so the query goes on to " + q.server.String()
		return
	}
	out.Labels = q.srv.Chains().Labels(&v.Origin)
	q.showChain(&r, v.Outcome.Result)
	out.Result, out.Reason = v.Outcome.Result, v.Outcome.Reason
	if v.Answer != nil {
		out.Rcode, out.Answer = dns.RcodeToString[v.Answer.Rcode], v.Answer.String()
	}
	q.diagnose(v, &r)
}

func (q *explainedQuery) showChain(r *explain.Report, result string) {
	out := q.out
	for _, v := range r.Views {
		view := api.View{Block: v.Block, Name: v.Name, Matches: v.Matches, Expressions: []api.Expression{}, Labels: []api.Label{}}
		for _, e := range v.Expressions {
			view.Expressions = append(view.Expressions, api.Expression{Text: e.Text, Value: e.Value, Error: e.Err})
		}
		for _, l := range v.Labels {
			view.Labels = append(view.Labels, api.Label{Name: l.Name, Value: l.Value})
		}
		out.Views = append(out.Views, view)
	}
	out.Block, out.View, out.Notes = r.Block, r.View, r.Notes
	for i, s := range r.Steps {
		if s.Plugin == explain.Connect && len(out.Steps) > 0 {
			last := &out.Steps[len(out.Steps)-1] // forward: nothing stands between the two
			last.Notes = append(last.Notes, fmt.Sprintf("asked %s, for %.1f ms", strings.Join(s.Notes, " "), 1e3*s.Took.Seconds()))
			continue
		}
		step := api.Step{Plugin: s.Plugin, Depth: s.Depth, Seconds: s.Took.Seconds(), Notes: s.Notes, Verdict: api.VerdictReturns}
		switch {
		case s.Left:
			step.Verdict = api.VerdictLeft
		case i == r.Answered && result == metric.Resumed:
			step.Verdict = api.VerdictResumes
		case i == r.Answered:
			step.Verdict = api.VerdictAnswers
		case i == r.WouldAnswer:
			step.Verdict = api.VerdictWould
		case !s.Ended:
			step.Verdict = api.VerdictWaits
		case s.Passed:
			step.Verdict = api.VerdictPasses
		}
		out.Steps = append(out.Steps, step)
	}
	if r.Truncated {
		out.Notes = append(out.Notes, "some steps or notes are left out: there were too many")
	}
}
