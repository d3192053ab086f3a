// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"testing"

	"github.com/coredns/caddy"
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
	tests := []struct {
		name   string
		punted bool
		held   *resumer
		code   int
		err    error
		times  int
	}{
		{"paused", true, &resumer{}, dns.RcodeSuccess, nil, 1},
		{"answered before", true, &resumer{err: gone}, dns.RcodeServerFailure, gone, 1},
		{"not paused", true, nil, dns.RcodeRefused, nil, 0},
		{"from a socket", false, nil, dns.RcodeRefused, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.Background()
			if tt.punted {
				o := &origin.Origin{}
				if tt.held != nil {
					o.Resumer = tt.held
				}
				ctx = origin.NewContext(ctx, o)
			}
			h := &Handler{Next: test.NextHandler(dns.RcodeRefused, nil)}
			code, err := h.ServeDNS(ctx, &test.ResponseWriter{}, new(dns.Msg))
			if code != tt.code || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v, want %d, %v", code, err, tt.code, tt.err)
			}
			if tt.held != nil && tt.held.times != tt.times {
				t.Errorf("resumed %d times, want %d", tt.held.times, tt.times)
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
