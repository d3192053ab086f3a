// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func newTestLines(t *testing.T, feed *Feed, query string) *Lines {
	t.Helper()
	parameters, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLines(feed, parameters, noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestLine(t *testing.T) {
	var feed Feed
	l := newTestLines(t, &feed, "")
	feed.Publish(someEvent(t))
	e := someEvent(t)
	e.TCP, e.Question, e.Rcode, e.Upstream = true, question(t, "a\x1b[2J.", dns.TypeHTTPS), dns.RcodeBadVers, netip.MustParseAddrPort("[2001:db8::1]:53")
	e.Question[len(e.Question)-1], e.Attributes = 3, nil
	feed.Publish(e)
	feed.Publish(&Event{Arrived: noon, Bridge: "br-int", Rcode: RcodeDropped, Result: "dropped", Reason: "short"})
	feed.Publish(&Event{Arrived: noon, Bridge: "br-int", Rcode: RcodeResumed, Result: "resumed", Reason: "chain", Question: question(t, ".", 65280)})
	lines, done := l.Next(noon)
	want := `{"event":"query","time":"2024-05-06T12:00:00Z","duration_seconds":0.000042,"bridge":"br-int","port":"red-vm1","switch":"red","network":"01000000-0000-0000-0000-000000000000","labels":{"ofpunt/external-id/project":"p1"},"client":"10.0.1.11:34567","server":"169.254.169.254:53","transport":"udp","server_block":"/etc/puntdns/Corefile:7 - example.org .","name":"Db.Example.org.","type":"A","rcode":"NOERROR","result":"answered","reason":"chain"}
{"event":"query","time":"2024-05-06T12:00:00Z","duration_seconds":0.000042,"bridge":"br-int","port":"red-vm1","switch":"red","network":"01000000-0000-0000-0000-000000000000","client":"10.0.1.11:34567","server":"169.254.169.254:53","transport":"tcp","server_block":"/etc/puntdns/Corefile:7 - example.org .","name":"a\\027[2J.","type":"HTTPS","class":"CH","rcode":"BADVERS","result":"answered","reason":"chain","upstream":"[2001:db8::1]:53"}
{"event":"query","time":"2024-05-06T12:00:00Z","bridge":"br-int","transport":"udp","rcode":"DROPPED","result":"dropped","reason":"short"}
{"event":"query","time":"2024-05-06T12:00:00Z","bridge":"br-int","transport":"udp","name":".","type":"TYPE65280","rcode":"RESUMED","result":"resumed","reason":"chain"}
`
	if got := text(t, lines...); got != want || done {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is over the rate, and what finds no room, is told once a second; and the sum of all at the end.
func TestMissedLines(t *testing.T) {
	var feed Feed
	l := newTestLines(t, &feed, "rate=20&count=100")
	publish := func(n int, at time.Duration) {
		for range n {
			feed.Publish(&Event{Arrived: noon.Add(at)})
		}
	}
	next := func(at time.Duration) string {
		lines, done := l.Next(noon.Add(at))
		n := lineKinds(lines)
		got := fmt.Sprint(n[api.EventQuery], " queries")
		for _, line := range lines {
			if line := line.(*api.WatchLine); line.Event != api.EventQuery {
				got += fmt.Sprintf(", %s: %d shown, %d over, %d lost", line.Event, line.Shown, line.OverRate, line.Lost)
			}
		}
		return fmt.Sprint(got, ", ", done)
	}
	publish(10, 0)
	if got := next(100 * time.Millisecond); got != "1 queries, false" {
		t.Error(got)
	}
	publish(1, time.Second)
	if got := next(time.Second); got != "1 queries, missed: 0 shown, 9 over, 0 lost, false" {
		t.Error(got)
	}
	if got := next(3 * time.Second); got != "0 queries, false" {
		t.Error(got)
	}
	// The reader does not come for an hour.
	for i := range linesRoom + 7 {
		publish(1, 4*time.Second+time.Duration(i)*time.Second)
	}
	if got, want := next(time.Hour), "98 queries, end: 100 shown, 9 over, 7 lost, true"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if l.Close(); feed.Wanted() {
		t.Error("nobody listens any more")
	}
}

// One call shows no more than the ring has, however fast others are.
func TestLinesAreBounded(t *testing.T) {
	var feed Feed
	l := newTestLines(t, &feed, "rate=10000")
	for i := range 3 * linesRoom {
		feed.Publish(&Event{Arrived: noon.Add(time.Duration(i) * time.Second)})
	}
	lines, _ := l.Next(noon.Add(time.Hour))
	if n := lineKinds(lines); n[api.EventQuery] != linesRoom || n[api.EventMissed] != 1 {
		t.Errorf("%v", n)
	}
	if last := lines[len(lines)-1].(*api.WatchLine); last.Lost != 2*linesRoom {
		t.Errorf("%+v", last)
	}
}

func TestWrongParameters(t *testing.T) {
	var feed Feed
	refusals := ""
	for _, query := range []string{"rate=0", "rate=10001", "rate=x", "count=-1", "last=1025", "since=x", "follow=false", "type=x", "interval=0", "interval=61", "limit=0", "by=x"} {
		parameters, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, lines := NewLines(&feed, parameters, noon)
		_, top := NewTop(&feed, parameters, noon)
		refusals += fmt.Sprintf("%s: watch: %v; top: %v\n", query, lines, top)
	}
	golden.Check(t, refusals)
}
