// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/testkit"
)

// from is a writer to a client.
type from struct {
	test.ResponseWriter
	addr net.Addr
	tsig error
}

func (f *from) RemoteAddr() net.Addr { return f.addr }
func (f *from) TsigStatus() error    { return f.tsig }

// A NOTIFY for a policy zone is taken from its primary, and refused from others, guests included. Any other
// NOTIFY goes on.
func TestServeNotify(t *testing.T) {
	h, err := readHandler(caddy.NewTestController("dns", `rpz . {
	zone plain.rpz transfer 127.0.0.1:1 [::1]:1
	zone signed.rpz transfer 127.0.0.1:1 tsig feed
	zone file.rpz file `+writeZone(t, t.TempDir(), "file.rpz", "")+`
	tsig feed c2VjcmV0
}`))
	if err != nil {
		t.Fatal(err)
	}
	passed := false
	h.Next = plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
		passed = true
		return dns.RcodeSuccess, nil
	})
	if err := h.open(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	for _, tt := range []struct {
		name, zone, from string
		qtype            uint16
		key              string // that signs it, "" for none
		tsig             error
		guest            bool
		want             string // "" to pass
	}{
		{name: "a primary", zone: "plain.rpz.", from: "127.0.0.1", want: "accepted"},
		{name: "in upper case", zone: "PLAIN.rpz.", from: "127.0.0.1", want: "accepted"},
		{name: "a primary with IPv6", zone: "plain.rpz.", from: "::1", want: "accepted"},
		{name: "a primary by a socket for both", zone: "plain.rpz.", from: "::ffff:127.0.0.1", want: "accepted"},
		{name: "another", zone: "plain.rpz.", from: "127.0.0.2", want: "refused"},
		{name: "a guest with the primary's address", zone: "plain.rpz.", from: "127.0.0.1", guest: true, want: "refused"},
		{name: "signed, though there is no key", zone: "plain.rpz.", from: "127.0.0.1", key: "other.", tsig: dns.ErrSecret, want: "accepted"},
		{name: "signed", zone: "signed.rpz.", from: "127.0.0.1", key: "Feed.", want: "accepted"},
		{name: "signed, of another", zone: "signed.rpz.", from: "127.0.0.2", key: "feed.", want: "refused"},
		{name: "signed, of a guest", zone: "signed.rpz.", from: "127.0.0.1", key: "feed.", guest: true, want: "refused"},
		{name: "not signed", zone: "signed.rpz.", from: "127.0.0.1", want: "refused"},
		{name: "signed by another key", zone: "signed.rpz.", from: "127.0.0.1", key: "other.", want: "refused"},
		{name: "signed by another secret", zone: "signed.rpz.", from: "127.0.0.1", key: "feed.", tsig: dns.ErrSig, want: "refused"},
		{name: "a zone of a file", zone: "file.rpz.", from: "127.0.0.1"},
		{name: "another zone", zone: "example.", from: "127.0.0.1"},
		{name: "another type", zone: "plain.rpz.", from: "127.0.0.1", qtype: dns.TypeA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := new(dns.Msg).SetNotify(tt.zone)
			if tt.qtype != 0 {
				m.Question[0].Qtype = tt.qtype
			}
			if tt.key != "" {
				m.SetTsig(tt.key, dns.HmacSHA256, 300, 1)
			}
			ctx := t.Context()
			if tt.guest {
				ctx = origin.NewContext(ctx, &origin.Origin{Switch: "s", Port: "p"})
			}
			count := func() float64 {
				return testkit.Value(t, notifies.WithLabelValues(strings.ToLower(tt.zone), tt.want))
			}
			before := 0.
			if tt.want != "" {
				before = count()
			}
			w := dnstest.NewRecorder(&from{addr: &net.UDPAddr{IP: net.ParseIP(tt.from), Port: 5353}, tsig: tt.tsig})
			passed = false
			if _, err := h.ServeDNS(ctx, w, m); err != nil {
				t.Fatal(err)
			}
			if passed != (tt.want == "") || (w.Msg == nil) != passed {
				t.Fatalf("passed %t, answer %v", passed, w.Msg)
			}
			if passed {
				return
			}
			rcode := dns.RcodeSuccess
			if tt.want == "refused" {
				rcode = dns.RcodeRefused
			}
			if w.Msg.Rcode != rcode || !w.Msg.Response || w.Msg.Opcode != dns.OpcodeNotify || w.Msg.Id != m.Id || len(w.Msg.Question) != 1 {
				t.Errorf("%v", w.Msg)
			}
			if n := count() - before; n != 1 {
				t.Errorf("counted %v times as %s", n, tt.want)
			}
		})
	}
}

// The keys of policy zones belong to the server, beside the keys of plugin tsig.
func TestShareKeys(t *testing.T) {
	h, err := readHandler(caddy.NewTestController("dns", "rpz . {\nzone signed.rpz transfer 127.0.0.1:1 tsig feed\ntsig feed c2VjcmV0\n}"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{"other.": "b3RoZXI="}
	config := &dnsserver.Config{TsigSecret: of}
	if err := h.shareKeys(config); err != nil || config.TsigSecret["feed."] != "c2VjcmV0" || config.TsigSecret["other."] == "" || len(of) != 1 {
		t.Errorf("%v, %v, %v", err, config.TsigSecret, of)
	}
	if err := h.shareKeys(config); err != nil { // tsig has the same key
		t.Errorf("the same key: %v", err)
	}
	if own := h.OwnKeys(); !slices.Equal(own, []string{"feed."}) {
		t.Errorf("own keys %q", own)
	}
	config = &dnsserver.Config{TsigSecret: map[string]string{"feed.": "b3RoZXI="}}
	if err := h.shareKeys(config); err == nil || !strings.Contains(err.Error(), "another secret") || config.TsigSecret["feed."] != "b3RoZXI=" {
		t.Errorf("%v, %v", err, config.TsigSecret)
	}
}
