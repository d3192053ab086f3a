// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
)

func newTestTop(t *testing.T, feed *Feed, query string) *Top {
	t.Helper()
	parameters, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	top, err := NewTop(feed, parameters, noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(top.Close)
	return top
}

// As long as there are counters for all, each query is counted with whom it is of, and once.
func TestTop(t *testing.T) {
	var feed Feed
	top := newTestTop(t, &feed, "interval=2")
	publish := func(n int, change func(*Event)) {
		for range n {
			e := someEvent(t)
			if change != nil {
				change(e)
			}
			feed.Publish(e)
		}
	}
	publish(3, nil)
	publish(1, func(e *Event) { e.Question = question(t, "DB.example.ORG.", dns.TypeAAAA) })
	publish(2, func(e *Event) { e.Port, e.Rcode, e.Took = "red-vm2", dns.RcodeNameError, 400*time.Millisecond })
	publish(5, func(e *Event) {
		e.Port, e.Switch, e.Network, e.Rcode = "blue-vm1", "blue", origin.Network{2}, RcodeDropped
		e.Question = nil
	})
	publish(2, func(e *Event) {
		e.Rcode, e.Upstream = dns.RcodeServerFailure, netip.MustParseAddrPort("192.0.2.1:53")
		e.Question = question(t, "www.example.net.", dns.TypeA)
	})
	publish(1, func(e *Event) { e.Rcode = RcodeResumed })
	publish(1, func(e *Event) { e.Rcode = dns.RcodeRefused })
	got := top.Snapshot(noon.Add(2 * time.Second))
	all := got.All
	if all.Queries != 15 || all.NoError != 4 || all.NXDomain != 2 || all.ServFail != 2 || all.OtherRcodes != 1 || all.Resumed != 1 || all.Dropped != 5 || all.PerSecond != 7.5 || got.Missed != 0 || got.Seconds != 2 {
		t.Errorf("%+v", got)
	}
	if m, p := all.MedianSeconds, all.P99Seconds; math.Abs(m-42e-6) > 42e-6/8 || math.Abs(p-.4) > .4/8 {
		t.Errorf("median %v, p99 %v", m, p)
	}
	want := map[string]string{
		api.TopGuests:    "red-vm1 8 of red, blue-vm1 5 of blue, red-vm2 2 of red, ",
		api.TopNames:     "db.example.org. 8 of red, www.example.net. 2 of red, ",
		api.TopNetworks:  "red 10, blue 5, ",
		api.TopUpstreams: "192.0.2.1:53 2, ",
	}
	for kind, want := range want {
		table := got.Table(kind)
		text := ""
		for _, e := range table.Entries {
			text += fmt.Sprint(e.Port, e.Name, e.Upstream)
			if e.Port+e.Name+e.Upstream == "" {
				text += e.Switch
			}
			text += fmt.Sprint(" ", e.Queries)
			if e.Port+e.Name != "" {
				text += " of " + e.Switch
			}
			text += ", "
			if e.TooHigh != 0 || e.NoError+e.NXDomain+e.ServFail+e.OtherRcodes+e.Resumed+e.Dropped != e.Queries {
				t.Errorf("%s: %+v", kind, e)
			}
		}
		if text != want || !table.Exact || table.Distinct != len(table.Entries) {
			t.Errorf("%s: %s, want %s: %+v", kind, text, want, table)
		}
	}
	if next := top.Snapshot(noon.Add(4 * time.Second)); next.All.Queries != 0 || next.All.MedianSeconds != 0 || len(next.Guests.Entries) != 0 {
		t.Errorf("it has not begun anew: %+v", next)
	}
	if top.Close(); feed.Wanted() {
		t.Error("nobody listens any more")
	}
}

// A name means another host in each network, and a network without a UUID is known by its name.
func TestTopKeys(t *testing.T) {
	var feed Feed
	top := newTestTop(t, &feed, "by=names&by=guests&by=networks&limit=3")
	for i := range 4 {
		for _, id := range []origin.Network{{}, {1}} {
			feed.Publish(&Event{Port: "vm", Bridge: "br-int", Switch: fmt.Sprint("switch", i), Network: id, Question: question(t, "db.", dns.TypeA)})
		}
	}
	got := top.Snapshot(noon)
	for _, kind := range []string{api.TopNames, api.TopGuests, api.TopNetworks} {
		if table := got.Table(kind); table.Distinct != 8 || len(table.Entries) != 3 {
			t.Errorf("%s: %+v", kind, table)
		}
	}
	if got.Upstreams != nil || got.Table("x") != nil {
		t.Error("a table that nobody has asked for")
	}
}

// Among far more names than counters, those that make a thousandth of all are found, and the bounds that
// are told hold.
func TestTopFindsTheFrequent(t *testing.T) {
	var feed Feed
	top := newTestTop(t, &feed, "by=names&limit=200")
	r, exact := rand.New(rand.NewPCG(1, 2)), map[string]uint64{}
	const all = 100_000
	for i := range all {
		name := fmt.Sprintf("n%d.flood.", i)
		if r.IntN(4) == 0 {
			name = fmt.Sprintf("n%d.often.", r.IntN(100))
		}
		exact[name]++
		feed.Publish(&Event{Question: question(t, name, dns.TypeA)})
		top.Drain()
	}
	table := top.Snapshot(noon.Add(time.Second)).Names
	if table.Exact || table.MissingAtMost > all/topCounters || table.Distinct != topCounters {
		t.Errorf("%v, %d of %d", table.Exact, table.MissingAtMost, table.Distinct)
	}
	for _, e := range table.Entries {
		if n := exact[e.Name]; n > e.Queries || n < e.Queries-e.TooHigh || e.NoError != e.Queries-e.TooHigh {
			t.Errorf("%s: %d, too high by %d at most, %d of them answered; want %d", e.Name, e.Queries, e.TooHigh, e.NoError, n)
		}
	}
	for name, n := range exact {
		if n > table.MissingAtMost && !slices.ContainsFunc(table.Entries, func(e api.TopEntry) bool { return e.Name == name }) {
			t.Errorf("%s was asked for %d times, and is not in the table", name, n)
		}
	}
}

// What a reader that does not come was not shown is told.
func TestTopMisses(t *testing.T) {
	var feed Feed
	top := newTestTop(t, &feed, "")
	for range topRoom + 11 {
		feed.Publish(&Event{Port: "vm"})
	}
	if got := top.Snapshot(noon.Add(time.Second)); got.All.Queries != topRoom || got.Missed != 11 {
		t.Errorf("%d counted, %d missed", got.All.Queries, got.Missed)
	}
	if got := top.Snapshot(noon.Add(2 * time.Second)); got.Missed != 0 {
		t.Errorf("%d missed once more", got.Missed)
	}
}

// The middle of each bin is within an eighth of what is counted there.
func TestHistogram(t *testing.T) {
	last := -1
	for d := time.Duration(1 << firstBit); d < 17*time.Second; d += d/50 + 1 {
		bin := binOf(d)
		if bin < last || bin > last+1 {
			t.Fatalf("%s: bin %d behind %d", d, bin, last)
		}
		last = bin
		if m := middleOf(bin); math.Abs(float64(m-d)) > float64(d)/8 {
			t.Errorf("%s: bin %d has the middle %s", d, bin, m)
		}
	}
	if last != bins-1 {
		t.Errorf("the last bin is %d", last)
	}
	if a, b := binOf(-1), binOf(time.Hour); a != 0 || b != bins-1 {
		t.Errorf("%d, %d", a, b)
	}
	var h histogram
	if h.quantile(.5) != 0 {
		t.Error("the median of nothing")
	}
	for i := range 100 {
		h[binOf(time.Duration(i+1)*time.Millisecond)]++
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, .5: 50 * time.Millisecond, .99: 99 * time.Millisecond, 1: 100 * time.Millisecond} {
		if got := h.quantile(q); math.Abs(float64(got-want)) > float64(want)/8 {
			t.Errorf("quantile %v: %s, want %s", q, got, want)
		}
	}
}
