// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestFilter(t *testing.T) {
	is := func(change func(*Event)) *Event {
		e := someEvent(t)
		if change != nil {
			change(e)
		}
		return e
	}
	named := func(name string) *Event { return is(func(e *Event) { e.Question = question(t, name, dns.TypeA) }) }
	unreadable := is(func(e *Event) { e.Question = nil })
	some := is(nil)
	for _, tt := range []struct {
		name   string
		filter string // parameters
		event  *Event
		want   bool
	}{
		{"none", "", some, true},
		{"port", "port=red-vm1", some, true},
		{"another port", "port=red-vm2", some, false},
		{"one of two ports", "port=red-vm2&port=red-vm1", some, true},
		{"a part of the port", "port=red", some, false},
		{"no port known", "port=red-vm1", is(func(e *Event) { e.Port = "" }), false},
		{"switch", "switch=red", some, true},
		{"another switch", "switch=blue", some, false},
		{"switch, and another port", "switch=red&port=red-vm2", some, false},
		{"block by its zone", "server-block=example.org", some, true},
		{"block by its line", "server-block=Corefile:7", some, true},
		{"another block", "server-block=Corefile:8", some, false},
		{"no block", "server-block=Corefile:7", is(func(e *Event) { e.Block = nil }), false},
		{"name", "name=db.example.org", some, true},
		{"name in other letters", "name=DB.EXAMPLE.ORG.", some, true},
		{"another name", "name=dc.example.org", some, false},
		{"a name above", "name=example.org", some, false},
		{"a name below", "name=x.db.example.org", some, false},
		{"below", "name=*.example.org", some, true},
		{"far below", "name=*.example.org.", named("a.b.c.example.org."), true},
		{"itself is not below", "name=*.example.org", named("example.org."), false},
		{"the end of a label is no label", "name=*.example.org", named("dbexample.org."), false},
		{"below, in other letters", "name=*.eXample.oRG", named("A.EXAMPLE.ORG."), true},
		{"as long as one below", "name=*.example.org", named("a.example.net."), false},
		{"a label with the bytes of another name", "name=*.b", named(`a\001b.`), false},
		{"below the root", "name=*.", some, true},
		{"the root is not below", "name=*.", named("."), false},
		{"the root", "name=.", named("."), true},
		{"not the root", "name=.", some, false},
		{"a wildcard that is asked for", "name=*.example.org", named("*.example.org."), true},
		{"no name known", "name=*.", unreadable, false},
		{"type", "type=a", some, true},
		{"another type", "type=AAAA&type=TYPE65", some, false},
		{"a type by its number", "type=TYPE1", some, true},
		{"no type known", "type=A", unreadable, false},
		{"rcode", "rcode=noerror", some, true},
		{"another rcode", "rcode=NXDOMAIN", some, false},
		{"an rcode by its number", "rcode=3", is(func(e *Event) { e.Rcode = dns.RcodeNameError }), true},
		{"an extended rcode", "rcode=BADVERS", is(func(e *Event) { e.Rcode = dns.RcodeBadVers }), true},
		{"resumed", "rcode=RESUMED", is(func(e *Event) { e.Rcode = RcodeResumed }), true},
		{"dropped", "rcode=dropped&rcode=RESUMED", is(func(e *Event) { e.Rcode = RcodeDropped }), true},
		{"not dropped", "rcode=DROPPED", some, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parameters, err := url.ParseQuery(tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			f, err := ParseFilter(parameters)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.matches(tt.event); got != tt.want {
				t.Errorf("%v", got)
			}
			if n := testing.AllocsPerRun(10, func() { f.matches(tt.event) }); n > 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func TestWrongFilters(t *testing.T) {
	refusals := ""
	for _, filter := range []string{
		"port=", "name=", "name=a..b", "name=" + strings.Repeat("x", 64), "type=X", "type=TYPE65536", "rcode=X", "rcode=4096", "rcode=-1", strings.Repeat("&switch=a", 33)[1:],
	} {
		parameters, err := url.ParseQuery(filter)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseFilter(parameters)
		refusals += fmt.Sprintf("%.20s: %v\n", filter, err)
	}
	golden.Check(t, refusals)
}

// Whatever is asked for, a filter by the name as it is shown matches, and one of names below what stands
// above it.
func FuzzName(f *testing.F) {
	f.Add([]byte("\x02db\x07example\x03org\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x03A.b\x01*\x00\x00\x1c\x00\x01"))
	f.Add([]byte("\x00\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, asked []byte) {
		name, end, err := dns.UnpackDomainName(asked, 0)
		if err != nil || slices.ContainsFunc(asked[:end], func(c byte) bool { return c >= 0xc0 }) {
			return // no name without compression
		}
		e := &Event{Question: append(asked[:end:end], 0, 1, 0, 1)}
		if _, err := parseName(name); err != nil || strings.HasPrefix(name, "*.") {
			return // it stands for others
		}
		filter, err := ParseFilter(url.Values{"name": {name}})
		if err != nil || !filter.matches(e) {
			t.Fatalf("%q does not match itself: %v", name, err)
		}
		if next, last := dns.NextLabel(name, 0); !last && next < len(name) {
			above, err := ParseFilter(url.Values{"name": {"*." + name[next:]}})
			if err != nil || !above.matches(e) {
				t.Fatalf("%q is not below %q: %v", name, name[next:], err)
			}
		}
		lineOf(e)
	})
}
