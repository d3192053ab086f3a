// SPDX-License-Identifier: Apache-2.0

package lastquery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/ofpunt/metric"
)

func TestCodes(t *testing.T) {
	upstream := netip.MustParseAddrPort("192.0.2.1:53")
	for _, tc := range []struct {
		code string
		q    Query
	}{
		{"answered", Query{Result: metric.Answered, Reason: metric.ReasonChain, Plugin: "cache"}},
		{"answered", Query{Result: metric.Answered, Reason: metric.ReasonChain, Plugin: "forward", Upstream: upstream}},
		{"no-type", Query{Result: metric.Answered, Reason: metric.ReasonChain, Empty: true}},
		{"no-data", Query{Result: metric.Answered, Reason: metric.ReasonChain, Rcode: dns.RcodeNameError, Empty: true, Upstream: upstream}},
		{"private", Query{Result: metric.Answered, Reason: metric.ReasonChain, Rcode: dns.RcodeNameError, Plugin: "private"}},
		{"policy", Query{Result: metric.Answered, Reason: metric.ReasonChain, Rcode: dns.RcodeNameError, Plugin: "rpz"}},
		{"upstream", Query{Result: metric.Answered, Reason: metric.ReasonChain, Rcode: dns.RcodeServerFailure, Upstream: upstream}},
		{"error", Query{Result: metric.Answered, Reason: metric.ReasonChain, Rcode: dns.RcodeServerFailure}},
		{"error", Query{Result: metric.Refused, Reason: metric.ReasonMalformed, Rcode: dns.RcodeFormatError}},
		{"deadline", Query{Result: metric.Answered, Reason: metric.ReasonDeadline, Rcode: dns.RcodeServerFailure, Upstream: upstream}},
		{"loop", Query{Result: metric.Refused, Reason: metric.ReasonLoop, Rcode: dns.RcodeServerFailure}},
		{"no-block", Query{Result: metric.Refused, Reason: metric.ReasonNoBlock, Rcode: dns.RcodeRefused}},
		{"over-limit", Query{Result: metric.Refused, Reason: metric.ReasonPortLimit, Rcode: dns.RcodeServerFailure}},
		{"over-limit", Query{Result: metric.Dropped, Reason: metric.ReasonOverload}},
		{"dropped", Query{Result: metric.Dropped, Reason: metric.ReasonUnanswered}},
		{"resumed", Query{Result: metric.Resumed, Reason: metric.ReasonChain}},
	} {
		all := tc.q.Strings()
		if !slices.Contains(all, "code="+tc.code) {
			t.Errorf("%+v: %q, want %s", tc.q, all, tc.code)
		}
		hasRcode := slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "rcode=") })
		if hasRcode != (tc.q.Result == metric.Answered || tc.q.Result == metric.Refused) {
			t.Errorf("%+v: %q", tc.q, all)
		}
	}
	q := Query{Name: "a.test.", Type: 65280, Rcode: 300, Took: 1234567, Arrived: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))}
	for _, want := range []string{"name=a.test.", "type=TYPE65280", "rcode=RCODE300", "took=1.235ms", "time=2026-01-02T02:04:05Z"} {
		if all := q.Strings(); !slices.Contains(all, want) {
			t.Errorf("%q is not in %q", want, all)
		}
	}
}

// No string is too long for a TXT record, also for a name whose text is longer than its wire format.
func TestLongName(t *testing.T) {
	for _, label := range []string{strings.Repeat("a", 63), strings.Repeat(`\255`, 63)} {
		q := Query{Name: strings.Repeat(label+".", 3)}
		txt := dns.TXT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS}, Txt: q.Strings()}
		if _, err := (&dns.Msg{Answer: []dns.RR{&txt}}).Pack(); err != nil {
			t.Errorf("%.10s: %v", label, err)
		}
	}
}

// A guest finds its own queries only: the newest for a name, and none that is too old.
func TestFind(t *testing.T) {
	s, now := NewStore(), time.Now()
	red := Guest{Network: origin.Network{1}, Switch: "net", Port: "vm1"}
	others := []Guest{{Network: origin.Network{2}, Switch: "net", Port: "vm1"}, {Network: origin.Network{1}, Switch: "net", Port: "vm2"}, {Network: origin.Network{1}, Port: "vm1"}}
	put := func(g Guest, name string, age time.Duration, rcode int) {
		s.Put(g, &Query{Name: name, Arrived: now.Add(-age), Rcode: rcode})
	}
	find := func(g Guest, name string) int {
		if q, found := s.Find(g, name, now); found {
			return q.Rcode
		}
		return -1
	}
	put(red, "old.", maxAge+time.Second, 1)
	if got := find(red, "old."); got != -1 {
		t.Error("a query that is too old:", got)
	}
	put(red, "a.", 3*time.Second, 2)
	put(red, "a.", 2*time.Second, 3)
	put(red, "b.", time.Second, 4)
	for name, want := range map[string]int{"a.": 3, "b.": 4, "": 4, "c.": -1} {
		if got := find(red, name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
		for _, g := range others {
			if got := find(g, name); got != -1 {
				t.Errorf("%+v finds %d", g, got)
			}
		}
	}
	for i := range perGuest {
		put(red, fmt.Sprintf("n%d.", i), 0, 5)
	}
	if find(red, "b.") != -1 || find(red, "n0.") != 5 {
		t.Error("the room of a guest is not what it should be")
	}
	for i := range 3 * maxGuests {
		put(Guest{Port: fmt.Sprint(i)}, "a.", 0, 0)
	}
	if n := s.guests.Len(); n > maxGuests {
		t.Errorf("%d guests are stored", n)
	}
}
