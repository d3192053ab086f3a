// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

const watchCorefile = `gold.example {
    ofpunt br-int
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.77"
    }
}
dead.example {
    ofpunt br-int
    forward . 127.0.0.1:1
}
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        rate off
        control unix:SOCKET
    }
    metadata
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache
    private
    forward . UPSTREAM
}
`

// watched is two tenants whose queries are watched.
type watched struct {
	overlap
	t        *testing.T
	server   *server
	socket   string
	upstream *lab.DNSServer
}

// watchAt opens a stream. The process counts and shows what is asked from then on.
func (w *watched) watchAt(pathAndQuery string) *watching {
	w.t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.socket)
	}}
	request, err := http.NewRequestWithContext(within(w.t, 4*wait), http.MethodGet, "http://puntdns"+pathAndQuery, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: tr}).Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s", pathAndQuery, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return &watching{w.t, response.Body, lines}
}

// watching is an open stream.
type watching struct {
	t     *testing.T
	body  io.Closer
	lines *bufio.Scanner
}

// next reads a line.
func (w *watching) next(to any) {
	w.t.Helper()
	if !w.lines.Scan() {
		w.t.Fatalf("the stream has ended: %v", w.lines.Err())
	}
	if err := json.Unmarshal(w.lines.Bytes(), to); err != nil {
		w.t.Fatalf("%v: %q", err, w.lines.Text())
	}
}

// queries reads so many queries.
func (w *watching) queries(n int) (all []api.WatchLine) {
	w.t.Helper()
	for len(all) < n {
		var l api.WatchLine
		if w.next(&l); l.Event != api.EventQuery {
			w.t.Fatalf("%+v, want a query", l)
		}
		all = append(all, l)
	}
	return all
}

// asked is a query that a guest asks, and what watch says of it: port, switch, client, server, transport,
// block, name, type, rcode, result, reason and upstream.
type asked struct {
	guest  *lab.Guest
	server string
	tcp    bool
	name   string
	qtype  uint16
	rcode  int
	line   string
}

// ask asks all, one after the other.
func (w *watched) ask(all []asked) {
	w.t.Helper()
	for _, q := range all {
		m, ask := new(dns.Msg).SetQuestion(q.name, q.qtype), q.guest.Exchange
		if q.tcp {
			ask = q.guest.ExchangeTCP
		}
		if r, _, err := ask(within(w.t, wait), m, net.JoinHostPort(q.server, "53")); err != nil || r.Rcode != q.rcode {
			w.t.Fatalf("%s %s: %v, %v", q.guest.Name, q.name, r, err)
		}
	}
}

// said is a line in the words of asked.line. The client has no port, which is another one each time, and
// the block no folder.
func said(l *api.WatchLine) string {
	client, _, _ := net.SplitHostPort(l.Client)
	block := strings.TrimPrefix(l.Block, filepath.Dir(l.Block[:max(0, strings.Index(l.Block, " - "))])+"/")
	return strings.Join([]string{l.Port, l.Switch, client, l.Server, l.Transport, block, l.Name, l.Type, l.Rcode, l.Result, l.Reason, l.Upstream}, "|")
}

func newWatched(t *testing.T) *watched {
	n := newOverlap(t)
	w := &watched{
		overlap: n, t: t, socket: filepath.Join(n.Dir, "control.sock"),
		upstream: n.Upstream("www.example.org. 60 IN A 192.0.2.5"),
	}
	w.server = serve(t, n.Lab, w.corefile(w.socket))
	return w
}

func (w *watched) corefile(socket string) string {
	return corefile(w.Lab, replaceAll(watchCorefile, "SOCKET", socket, "UPSTREAM", w.upstream.Addr))
}

// questions are of each kind, once.
func (w *watched) questions() []asked {
	of := func(g *lab.Guest, server, transport, block, name, qtype, rest string) string {
		address, port := "10.0.1.11", net.JoinHostPort(server, "53")
		if strings.Contains(server, ":") {
			address = "fd00:1::11"
		}
		if block != "" {
			block = "Corefile.puntdns:" + block
		}
		return strings.Join([]string{g.Name, strings.TrimSuffix(g.Name, "-vm1"), address, port, transport, block, name, qtype, rest}, "|")
	}
	red, blue := w.red, w.blue
	const dot, gold = "12 - .", "2 - gold.example"
	return []asked{
		{guest: red, server: resolver4, name: "db.internal.", qtype: dns.TypeA, line: of(red, resolver4, "udp", dot, "db.internal.", "A", "NOERROR|answered|chain|")},
		{guest: blue, server: resolver4, name: "db.internal.", qtype: dns.TypeA, line: of(blue, resolver4, "udp", dot, "db.internal.", "A", "NOERROR|answered|chain|")},
		{guest: red, server: resolvers[1], name: "DB.internal.", qtype: dns.TypeAAAA, line: of(red, resolvers[1], "udp", dot, "DB.internal.", "AAAA", "NOERROR|answered|chain|")},
		{guest: red, server: resolver4, tcp: true, name: "db.internal.", qtype: dns.TypeA, line: of(red, resolver4, "tcp", dot, "db.internal.", "A", "NOERROR|answered|chain|")},
		{guest: red, server: resolver4, name: "www.example.org.", qtype: dns.TypeA, line: of(red, resolver4, "udp", dot, "www.example.org.", "A", "NOERROR|answered|chain|"+w.upstream.Addr)},
		{guest: blue, server: resolver4, name: "www.example.org.", qtype: dns.TypeA, line: of(blue, resolver4, "udp", dot, "www.example.org.", "A", "NOERROR|answered|chain|")}, // from cache
		{guest: red, server: resolver4, name: "none.internal.", qtype: dns.TypeA, rcode: dns.RcodeNameError, line: of(red, resolver4, "udp", dot, "none.internal.", "A", "NXDOMAIN|answered|chain|")},
		{guest: red, server: resolver4, name: "a.gold.example.", qtype: dns.TypeA, line: of(red, resolver4, "udp", gold, "a.gold.example.", "A", "NOERROR|answered|chain|")},
		{guest: blue, server: resolver4, name: "db.internal.", qtype: dns.TypeMAILB, rcode: dns.RcodeNotImplemented, line: of(blue, resolver4, "udp", "", "db.internal.", "MAILB", "NOTIMP|refused|type|")},
		{guest: blue, server: resolver4, name: "dead.example.", qtype: dns.TypeA, rcode: dns.RcodeServerFailure, line: of(blue, resolver4, "udp", "8 - dead.example", "dead.example.", "A", "SERVFAIL|answered|chain|127.0.0.1:1")},
	}
}

// Each query of each guest is shown once, by whoever looks on and wants it, and counted once.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	for _, tc := range []struct {
		name string
		f    func(t *testing.T, w *watched)
	}{
		{"each query once", watchEach},
		{"top counts what was asked", watchTop},
		{"puntctl", watchPuntctl},
		{"a reader that does not read", watchUnread},
		{"a reload", watchReload},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := *w
			of.t = t
			tc.f(t, &of)
		})
	}
	// It tells those who watch that it ends.
	s := w.watchAt(api.PathWatch)
	w.server.endWell()
	var last api.Error
	if s.next(&last); !strings.Contains(last.Message, "puntdns ends") {
		t.Errorf("%+v", last)
	}
}

func watchEach(t *testing.T, w *watched) {
	all := w.questions()
	type selected struct {
		query   string
		matches func(q *asked) bool
		stream  *watching
	}
	streams := []selected{
		{query: "", matches: func(*asked) bool { return true }},
		{query: "port=red-vm1", matches: func(q *asked) bool { return q.guest == w.red }},
		{query: "switch=blue&switch=none", matches: func(q *asked) bool { return q.guest == w.blue }},
		{query: "name=db.internal", matches: func(q *asked) bool { return strings.EqualFold(q.name, "db.internal.") }},
		{query: "name=*.internal", matches: func(q *asked) bool { return strings.HasSuffix(q.name, ".internal.") }},
		{query: "type=AAAA", matches: func(q *asked) bool { return q.qtype == dns.TypeAAAA }},
		{query: "rcode=NXDOMAIN&rcode=NOTIMP", matches: func(q *asked) bool { return q.rcode == dns.RcodeNameError || q.rcode == dns.RcodeNotImplemented }},
		{query: "server-block=gold.example", matches: func(q *asked) bool { return q.name == "a.gold.example." }},
		{query: "server-block=Corefile.puntdns:12&port=blue-vm1&type=A", matches: func(q *asked) bool { return strings.Contains(q.line, "|Corefile.puntdns:12 ") && q.guest == w.blue }},
	}
	for i := range streams {
		streams[i].stream = w.watchAt(api.PathWatch + "?" + streams[i].query)
	}
	// Were a query shown twice, or where it does not match, it would stand in the place of one of the second
	// round. An upstream is told only where it is asked.
	w.ask(all)
	cached := slices.Clone(all)
	for i := range cached {
		if cached[i].name == "www.example.org." {
			cached[i].line = strings.TrimSuffix(cached[i].line, w.upstream.Addr)
		}
	}
	w.ask(cached)
	for _, s := range streams {
		var want, got []string
		for _, q := range slices.Concat(all, cached) {
			if s.matches(&q) {
				want = append(want, q.line)
			}
		}
		for _, l := range s.stream.queries(len(want)) {
			got = append(got, said(&l))
		}
		// One is published when it has been sent, and the next one may come before that.
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got\n%s\nwant\n%s", s.query, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		s.stream.body.Close()
	}
}

func watchTop(t *testing.T, w *watched) {
	s := w.watchAt(api.PathTop + "?interval=1")
	all := w.questions()
	const rounds = 3
	for range rounds {
		w.ask(all)
	}
	got := map[string]uint64{}
	add := func(e *api.TopEntry, keys ...string) {
		got[strings.Join(keys, " ")] += e.Queries
		if e.TooHigh != 0 || e.NoError+e.NXDomain+e.ServFail+e.OtherRcodes+e.Resumed+e.Dropped != e.Queries || e.MedianSeconds <= 0 || e.P99Seconds < e.MedianSeconds {
			t.Errorf("%+v", e)
		}
		got[strings.Join(keys, " ")+" NOERROR"] += e.NoError
	}
	for got["all"] < uint64(rounds*len(all)) {
		var top api.Top
		if s.next(&top); top.Missed > 0 || top.Seconds < .5 {
			t.Errorf("%+v", top)
		}
		if top.All.Queries > 0 {
			add(&top.All, "all")
		}
		for _, kind := range api.TopKinds {
			table := top.Table(kind)
			if !table.Exact || table.Distinct != len(table.Entries) {
				t.Errorf("%s: %+v", kind, table)
			}
			for i := range table.Entries {
				e := &table.Entries[i]
				add(e, kind, e.Port+e.Name+e.Upstream, e.Switch)
			}
		}
	}
	want := map[string]uint64{"upstreams 127.0.0.1:1 ": rounds, "upstreams 127.0.0.1:1  NOERROR": 0}
	for _, q := range all {
		sw := strings.TrimSuffix(q.guest.Name, "-vm1")
		for _, key := range []string{"all", "guests " + q.guest.Name + " " + sw, "names " + strings.ToLower(q.name) + " " + sw, "networks  " + sw} {
			want[key] += rounds
			want[key+" NOERROR"] += 0
			if q.rcode == dns.RcodeSuccess {
				want[key+" NOERROR"] += rounds
			}
		}
	}
	// What cache has asked for, it may ask for anew.
	delete(got, "upstreams "+w.upstream.Addr+" ")
	delete(got, "upstreams "+w.upstream.Addr+"  NOERROR")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// puntctl shows queries until it has as many as it is told, and top once.
func watchPuntctl(t *testing.T, w *watched) {
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		status := puntctl.Run("test", []string{"watch", "--socket", w.socket, "-n", "2", "-o", "wide", "--name", "db.internal", "--port", "red-vm1"}, in, &errs)
		in.Close()
		ended <- status
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "TIME ") {
		t.Errorf("%q before the heading", lines.Text())
	}
	w.ask(w.questions()) // two of UDP by IPv4 and IPv6, and one of TCP
	var shown []string
	for lines.Scan() {
		shown = append(shown, lines.Text())
	}
	if status := <-ended; status != 0 || len(shown) != 2 || errs.String() != "2 queries shown\n" {
		t.Errorf("exit status %d, %q, %q", status, shown, errs.String())
	}
	for _, line := range shown {
		if f := strings.Fields(line); len(f) != 12 || f[2] != "red-vm1" || f[3] != "red" || f[8] != "NOERROR" || f[9] != "Corefile.puntdns:12" {
			t.Errorf("%q", line)
		}
	}
	t.Logf("puntctl watch\n%s", strings.Join(shown, "\n"))

	// The queries are over, and puntdns has stored them.
	var past bytes.Buffer
	status := puntctl.Run("test", []string{"watch", "--socket", w.socket, "--last", "1", "--no-follow", "--name", "db.internal", "-o", "json"}, &past, &errs)
	if n := strings.Count(past.String(), `"name":"db.internal."`); status != 0 || n != 1 {
		t.Errorf("exit status %d, %d past queries, want 1\n%s%s", status, n, past.String(), errs.String())
	}

	// Somebody asks while top counts for a second.
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := exchange(within(t, wait), w.red, resolver4, "db.internal.", dns.TypeA); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var top api.Top
	o := &operator{t, w.Lab, w.socket}
	status = o.ask(&top, "top", "--once", "--interval", "1", "--by", "guests,names", "--limit", "5")
	text, _, _ := o.run("top", "--once", "--interval", "1")
	close(stop)
	<-done
	if status != 0 || top.All.Queries == 0 || len(top.Guests.Entries) != 1 || top.Guests.Entries[0].Queries != top.All.Queries || top.Networks != nil ||
		len(top.Names.Entries) != 1 || top.Names.Entries[0].Name != "db.internal." {
		t.Errorf("exit status %d, %+v", status, top)
	}
	t.Logf("puntctl top\n%s", text)
}

// One that does not read takes no answer from anybody, and is told of each query that it is not shown.
// How many are lost depends on the room in the socket; TestUnreadStream in ofpunt has some lost.
func watchUnread(t *testing.T, w *watched) {
	s := w.watchAt(api.PathWatch + "?rate=10000&name=db.internal&port=blue-vm1")
	const all = 8000
	q := questions(t, w.blue, resolver4)
	for i := range all {
		if i >= 100 && !q.below(100, wait) {
			t.Fatal("no answers")
		}
		if err := q.ask("db.internal.", dns.TypeA, "NOERROR 10.0.1.201"); err != nil {
			t.Fatal(err)
		}
	}
	q.finish(wait).clean(t, "beside one who does not read")
	shown, over, lost := uint64(0), uint64(0), uint64(0)
	for shown+over+lost < all {
		var l api.WatchLine
		if s.next(&l); l.Event == api.EventQuery {
			shown++
		}
		over, lost = over+l.OverRate, lost+l.Lost
	}
	if shown+over+lost != all {
		t.Errorf("%d shown, %d over the rate, %d lost, of %d", shown, over, lost, all)
	}
	t.Logf("%d shown, %d over the rate, %d lost", shown, over, lost)
}

// A reload goes past a stream, but for one to another socket, of which the stream says so.
func watchReload(t *testing.T, w *watched) {
	s := w.watchAt(api.PathWatch + "?name=db.internal")
	first := w.questions()[:1]
	reload := w.server.reload
	w.ask(first)
	reload("# a comment\n" + w.corefile(w.socket))
	w.ask(first)
	lines := s.queries(2)
	if before, after := said(&lines[0]), said(&lines[1]); before != first[0].line || after != strings.Replace(first[0].line, "Corefile.puntdns:12", "Corefile.puntdns:13", 1) {
		t.Errorf("%s, then %s", before, after)
	}
	reload(w.corefile(w.socket + ".other"))
	var last api.Error
	if s.next(&last); !strings.Contains(last.Message, "the control socket was closed") {
		t.Errorf("%+v", last)
	}
	reload(w.corefile(w.socket))
}
