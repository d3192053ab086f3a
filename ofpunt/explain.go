// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

func init() { control.Process.Answer(api.PathExplain, explainer.explain) }

// explainer explains queries, one at a time.
var explainer = newExplainers(&bridges)

// explainers explains queries of the guests of all bridges.
type explainers struct {
	bridges *registry
	// turn has its one mark while nobody explains. Who has taken it gives it back once the chain
	// has returned, so that no operator has more than one query in the chains.
	turn chan struct{}
}

func newExplainers(r *registry) *explainers {
	e := &explainers{bridges: r, turn: make(chan struct{}, 1)}
	e.turn <- struct{}{}
	return e
}

// effects says what an explanation changes.
var effects = []string{
	"nothing was sent to the guest, and nothing is stored in cache",
	"log, audit, errors, prometheus and the plugin dnstap have not seen the query, and it counts against no limit of the guest",
	"plugins of CoreDNS that have counters of their own, such as cache, template and forward, have counted it, and forward tells dnstap what it asks",
}

func badRequest(format string, args ...any) error {
	return &control.Error{Status: http.StatusBadRequest, Err: fmt.Errorf(format, args...)}
}

// wish is what an operator asks.
type wish struct {
	port, name string // the name is fully qualified
	qtype      uint16
	server     netip.AddrPort // invalid for the first resolver address
	tcp        bool
}

// parseWish parses the parameters of api.PathExplain.
func parseWish(parameters url.Values) (w wish, err error) {
	w = wish{port: parameters.Get("port"), name: parameters.Get("name"), qtype: dns.TypeA}
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

// explain is the control.AnswerFunc of api.PathExplain.
func (e *explainers) explain(ctx context.Context, parameters url.Values) (any, error) {
	w, err := parseWish(parameters)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.turn:
	default: // to wait would keep others from the control socket
		return nil, &control.Error{Status: http.StatusServiceUnavailable, Err: errors.New("another query is being explained, or its plugins have not returned; expected none, try again")}
	}
	var returned <-chan struct{} // of the chain, nil while none runs
	defer func() {
		if returned == nil {
			e.turn <- struct{}{}
			return
		}
		go func() {
			<-returned
			e.turn <- struct{}{}
		}()
	}()
	told, err := e.bridges.tellGuests(ctx, nil)
	if err != nil {
		return nil, err
	}
	all := told.(*api.Guests)
	g, unserved, err := findGuest(all, w.port)
	if err != nil {
		return nil, err
	}
	out := newExplanation(&w)
	if unserved != nil {
		out.Guest = api.Guest{Bridge: unserved.Bridge, Port: unserved.Port, Interface: unserved.Interface, InPort: unserved.InPort}
		out.Without = "the same: no query of it is punted"
		out.find(api.CodeUnserved, "interface %s of logical port %q is not served, so none of its queries is punted: %s", unserved.Interface, unserved.Port, unserved.Reason)
		out.Well = false
		return &out.Explanation, nil
	}
	out.Guest = *g
	if returned, err = e.ask(ctx, &w, out); err != nil {
		return nil, err
	}
	out.Well = len(out.Findings) == 0
	return &out.Explanation, nil
}

// explanation is one that is being made.
type explanation struct{ api.Explanation }

func newExplanation(w *wish) *explanation {
	return &explanation{api.Explanation{
		Findings: []api.Problem{}, Flows: []api.GuestFlow{}, Labels: []api.Label{}, Views: []api.View{}, Steps: []api.Step{}, Effects: effects,
		Question: api.ExplainQuestion{Port: w.port, Name: w.name, Type: dns.TypeToString[w.qtype], TCP: w.tcp},
	}}
}

func (e *explanation) find(code, format string, args ...any) {
	e.Findings = append(e.Findings, api.Problem{Code: code, About: e.Guest.Port, Text: fmt.Sprintf(format, args...)})
}

// ask takes the query of a guest through its chain. returned is closed once that is over, and nil
// where the chain was not run.
func (e *explainers) ask(ctx context.Context, w *wish, out *explanation) (returned <-chan struct{}, err error) {
	b := e.bridges.get(out.Guest.Bridge)
	if b == nil {
		return nil, control.NotFound("bridge %s is not served any more", out.Guest.Bridge)
	}
	srv, session := b.current.Load(), b.told.Load()
	if srv == nil || session == nil {
		return nil, control.NotFound("bridge %s: %s", b.name, cmp.Or(b.readiness.reason(), "it is not served"))
	}
	q := &asking{wish: w, srv: srv, out: out}
	if err := q.choose(); err != nil {
		return nil, err
	}
	t := guestTeller{teller: teller{bridge: b, srv: srv, session: session, view: b.ports.View(), now: time.Now()}}
	key, ok := t.askerKeyOf(&out.Guest)
	if !ok {
		return nil, control.NotFound("port %s is not served any more", out.Guest.Port)
	}
	t.tellFlows(ctx, key, &out.Explanation)
	in := packetOf(&out.Guest, srv.options.Placement)
	if key.MAC != ([6]byte{}) {
		q.mac = key.MAC
		in.Regs[placement.RegInPort] = key.Port
	}
	returned, err = q.run(b, in)
	if err == nil && b.current.Load() != srv {
		err = &control.Error{Status: http.StatusServiceUnavailable, Err: errors.New("the Corefile was reloaded meanwhile; expected the same one, try again")}
	}
	return returned, err
}

// asking is the query of a guest whose address and server are chosen.
type asking struct {
	*wish
	srv   *server
	out   *explanation
	guest netip.AddrPort
	mac   [6]byte
}

// clientPort is the port that the query is from.
const clientPort = 50000

// choose chooses the ends of the query.
func (q *asking) choose() error {
	g := &q.out.Guest
	if !q.server.IsValid() {
		q.server = defaultServer(g)
	}
	if !q.server.IsValid() {
		return badRequest("port %s has no resolver address of its own, as it may ask any: expected --server ADDR", g.Port)
	}
	address := netip.MustParseAddr("192.0.2.1")
	if q.server.Addr().Is6() {
		address = netip.MustParseAddr("fe80::1")
	}
	for _, text := range g.Addresses {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() == q.server.Addr().Is4() {
			address = a
			break
		}
	}
	q.guest, q.mac = netip.AddrPortFrom(address, clientPort), [6]byte{2, 0, 0, 0, 0, 1}
	if len(g.MACs) > 0 {
		if mac, err := net.ParseMAC(g.MACs[0]); err == nil && len(mac) == len(q.mac) {
			q.mac = [6]byte(mac)
		}
	}
	q.out.Question.Server = q.server.String()
	return nil
}

// defaultServer returns where a guest asks: its first resolver address of a family that it has, or
// what DHCP tells it where any address is one.
func defaultServer(g *api.Guest) (server netip.AddrPort) {
	var all []netip.AddrPort
	for _, r := range g.Resolvers {
		if a, err := netip.ParseAddrPort(r); err == nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 && g.DHCP != nil {
		for _, word := range strings.FieldsFunc(g.DHCP.DNSServer, func(r rune) bool { return strings.ContainsRune("{}, ", r) }) {
			if a, err := netip.ParseAddr(word); err == nil {
				all = append(all, netip.AddrPortFrom(a, placement.DNSPort))
			}
		}
	}
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

// message returns the query.
func (q *asking) message() ([]byte, error) {
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	m.SetEdns0(1232, false)
	return m.Pack()
}

// run has the chain answer, and tells what it has said.
func (q *asking) run(b *bridge, in openflow.PacketIn) (returned <-chan struct{}, err error) {
	message, err := q.message()
	if err == nil {
		in.Data, err = punt.QueryFrame(q.guest, q.mac, q.server, message)
	}
	if err != nil {
		return nil, badRequest("name %.80q: %w", q.name, err)
	}
	x := explain.New()
	begun := time.Now()
	v := b.punts.Ask(q.srv.punts, &punt.Question{
		In: in, TCP: q.tcp, Paused: q.srv.pause && !q.tcp, Answered: x.Answer,
		Context: x.Context(&serverContext{context.Background(), q.srv}),
	})
	go func() {
		<-v.Done // until then the plugins have to know that nobody has asked
		x.End()
	}()
	q.out.Seconds = time.Since(begun).Seconds()
	q.tell(&v, x.Report())
	return v.Done, nil
}

// tell tells what has become of the query.
func (q *asking) tell(v *punt.Verdict, r explain.Report) {
	out := q.out
	var network *ovn.Network
	if q.srv.source != nil {
		network = q.srv.source.Snapshot().Network(v.Origin.Network)
	}
	canonical, _ := names.Canonical(strings.TrimSuffix(q.name, "."))
	out.Without = q.srv.tellWithout(network, canonical, out.Question.Type, q.server, q.tcp)
	switch {
	case !v.Identified || v.Origin.Port != "" && out.Guest.Port != "" && v.Origin.Port != out.Guest.Port:
		out.find(api.CodeUnknownGuest, "the packet would not be known to be of this guest: the switch and the databases do not agree, which passes")
		return
	case !v.IsResolver:
		out.find(api.CodeNotResolver, "%s is no resolver address of this guest, which are %s: the query is not punted, and goes on", q.server, strings.Join(out.Guest.Resolvers, " "))
		return
	}
	q.tellLabels(&v.Origin)
	q.tellChain(&r, v.Fate.Result)
	out.Result, out.Reason = v.Fate.Result, v.Fate.Reason
	if v.Answer != nil {
		out.Rcode, out.Answer = dns.RcodeToString[v.Answer.Rcode], v.Answer.String()
	}
	q.judge(v, &r)
}

// tellLabels tells the labels of a query: those of ofpunt, and the external_ids that a block names.
func (q *asking) tellLabels(o *origin.Origin) {
	seen := map[string]bool{}
	add := func(all []label) {
		for _, l := range all {
			if !seen[l.name] {
				seen[l.name] = true
				q.out.Labels = append(q.out.Labels, api.Label{Name: l.name, Value: l.value(o)})
			}
		}
	}
	add(labels[:])
	for _, b := range q.srv.blocks {
		add(b.labels)
	}
}

// tellChain tells the views and the plugins. result is that of the query.
func (q *asking) tellChain(r *explain.Report, result string) {
	out := q.out
	for _, v := range r.Views {
		told := api.View{Block: v.Block, Name: v.Name, Matches: v.Matches, Expressions: []api.Expression{}, Labels: []api.Label{}}
		for _, e := range v.Expressions {
			told.Expressions = append(told.Expressions, api.Expression{Text: e.Text, Value: e.Value, Error: e.Err})
		}
		for _, l := range v.Labels {
			told.Labels = append(told.Labels, api.Label{Name: l.Name, Value: l.Value})
		}
		out.Views = append(out.Views, told)
	}
	out.Block, out.View, out.Notes = r.Block, r.View, r.Notes
	for i, s := range r.Steps {
		if s.Plugin == explain.Connect && len(out.Steps) > 0 {
			last := &out.Steps[len(out.Steps)-1] // forward: nothing stands between the two
			last.Notes = append(last.Notes, fmt.Sprintf("asked %s, for %d us", strings.Join(s.Notes, " "), s.Took.Microseconds()))
			continue
		}
		told := api.Step{Plugin: s.Plugin, Depth: s.Depth, Seconds: s.Took.Seconds(), Notes: s.Notes, Verdict: api.VerdictReturns}
		switch {
		case s.Left:
			told.Verdict = api.VerdictLeft
		case i == r.Answered && result == metric.Resumed:
			told.Verdict = api.VerdictResumes
		case i == r.Answered:
			told.Verdict = api.VerdictAnswers
		case !s.Ended:
			told.Verdict = api.VerdictWaits
		case s.Passed:
			told.Verdict = api.VerdictPasses
		}
		out.Steps = append(out.Steps, told)
	}
	if r.Truncated {
		out.Notes = append(out.Notes, "some steps or notes are left out: there were too many")
	}
}

// judge finds by what the query does not get what an operator expects.
func (q *asking) judge(v *punt.Verdict, r *explain.Report) {
	out := q.out
	resumed := v.Fate.Result == metric.Resumed
	bad := v.Answer == nil || v.Answer.Rcode != dns.RcodeSuccess || len(v.Answer.Answer) == 0
	for _, f := range r.Findings {
		// What other networks know, and errors on the way, matter without a good answer.
		if bad {
			out.find(f.Code, "%s", f.Text)
		}
	}
	if r.Cached != r.Below {
		out.find(api.CodeCached, "the guest gets what is in cache: %s; the plugins below cache say now: %s", r.Cached, r.Below)
	}
	if v.Fate.Reason == metric.ReasonNoBlock {
		out.find(api.CodeNoBlock, "no server block takes the query")
	}
	if bad && !resumed {
		q.judgeViews(r)
	}
	switch {
	case v.Fate.Reason == metric.ReasonDeadline:
		out.find(api.CodeDeadline, "the plugins have not answered in %.1f s, so the guest gets SERVFAIL; %s", out.Seconds, whoWaits(r))
	case resumed:
	case v.Answer == nil:
		out.find(api.CodeDropped, "the guest gets no answer (%s)", cmp.Or(v.Fate.Reason, metric.ReasonUnanswered))
	case v.Answer.Rcode == dns.RcodeNameError:
		out.find(api.CodeNoData, "%s does not exist for %s of switch %s, says %s", q.name, out.Guest.Port, cmp.Or(out.Guest.Switch, "unknown"), whoAnswered(r))
	case v.Answer.Rcode != dns.RcodeSuccess:
		out.find(api.CodeError, "the guest gets %s (%s)%s", out.Rcode, v.Fate.Reason, errorOf(r))
	case len(v.Answer.Answer) == 0:
		out.find(api.CodeNoData, "%s has no records of type %s, says %s", q.name, out.Question.Type, whoAnswered(r))
	}
}

// judgeViews finds the views that do not match.
func (q *asking) judgeViews(r *explain.Report) {
	for _, v := range r.Views {
		if v.Matches {
			continue
		}
		var unmet []string
		for _, e := range v.Expressions {
			if e.Value != "true" {
				unmet = append(unmet, e.Text+" is "+cmp.Or(e.Value, e.Err))
			}
		}
		for _, l := range v.Labels {
			unmet = append(unmet, fmt.Sprintf("%s is %q", l.Name, l.Value))
		}
		q.out.find(api.CodeView, "view %s of block %s does not match: %s", v.Name, v.Block, strings.Join(unmet, ", "))
	}
}

// whoWaits says which plugin has not returned.
func whoWaits(r *explain.Report) string {
	if r.Pending < 0 {
		return "none of them waits by now"
	}
	s := r.Steps[r.Pending]
	if s.Plugin == explain.Connect {
		return "it waits for upstream " + strings.Join(s.Notes, " ")
	}
	return "it waits for " + s.Plugin
}

// whoAnswered names the plugin that has answered.
func whoAnswered(r *explain.Report) string {
	if r.Answered < 0 {
		return "the server"
	}
	return r.Steps[r.Answered].Plugin
}

func errorOf(r *explain.Report) string {
	if r.Err == nil {
		return ""
	}
	return ": " + r.Err.Error()
}

// uuidOf returns a UUID as OVN writes it.
func uuidOf(id [16]byte) string { return ovsdb.UUID(id).String() }
