// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

type resumer struct {
	times int
	err   error
}

func (r *resumer) Resume() error {
	r.times++
	return r.err
}

func TestServeDNS(t *testing.T) {
	gone := errors.New("gone")
	next := test.NextHandler(dns.RcodeRefused, nil)
	tests := []struct {
		name   string
		origin *origin.Origin
		held   *resumer
		next   plugin.Handler
		code   int
		err    error
		times  int
		// empty is set where an answer without data is written.
		empty bool
	}{
		{name: "resumable", origin: &origin.Origin{}, held: &resumer{}, next: next, times: 1},
		// cache would keep a SERVFAIL with an error.
		{name: "answered before", origin: &origin.Origin{}, held: &resumer{err: gone}, next: next, err: gone, times: 1},
		{name: "not resumable", origin: &origin.Origin{}, next: next, code: dns.RcodeRefused},
		{name: "not resumable, the last", origin: &origin.Origin{}, code: dns.RcodeServerFailure},
		{name: "a lookup", origin: &origin.Origin{Lookup: true}, next: next, empty: true},
		{name: "from a socket", next: next, code: dns.RcodeRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if tt.origin != nil {
				if tt.held != nil {
					tt.origin.Resumer = tt.held
				}
				ctx = origin.NewContext(ctx, tt.origin)
			}
			h := &Handler{Next: tt.next}
			w := nonwriter.New(&test.ResponseWriter{})
			code, err := h.ServeDNS(ctx, w, new(dns.Msg).SetQuestion("www.example.", dns.TypeA))
			if code != tt.code || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v, want %d, %v", code, err, tt.code, tt.err)
			}
			if tt.held != nil && tt.held.times != tt.times {
				t.Errorf("resumed %d times, want %d", tt.held.times, tt.times)
			}
			if m := w.Msg; (m != nil) != tt.empty || m != nil && (!m.Response || m.Rcode != 0 || len(m.Question) != 1 || len(m.Answer)+len(m.Ns) > 0) {
				t.Errorf("wrote %v", m)
			}
		})
	}
}

func TestSetup(t *testing.T) {
	tests := []struct {
		input string
		ok    bool
	}{
		{"passthrough", true},
		{"passthrough here", false},
		{"passthrough {\n now\n}", false},
		{"passthrough\npassthrough", false},
	}
	for _, tt := range tests {
		if err := setup(caddy.NewTestController("dns", tt.input)); (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.input, err)
		}
	}
}

func TestSetupRefuses(t *testing.T) {
	for input, want := range map[string]string{
		"passthrough all":             `^plugin/passthrough: Testfile:1 .*\["all"\].*passthrough`,
		"passthrough {\n to there\n}": `^plugin/passthrough: Testfile:2 .*"to"`,
		"passthrough\n\npassthrough":  `^plugin/passthrough: Testfile:3 .*passthrough`,
	} {
		if err := setup(caddy.NewTestController("dns", input)); err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%q: %v, want %s", input, err, want)
		}
	}
}
