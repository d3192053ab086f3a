// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/origin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines closes the handler and returns the lines of queries.
func open(t testing.TB, properties string, next plugin.HandlerFunc) (h *Handler, lines func() []map[string]any) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.json")
	h, err := parse(caddy.NewTestController("dns", fmt.Sprintf("audit %s {\n%s\n}", path, properties)))
	if err != nil {
		t.Fatal(err)
	}
	h.Next = next
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.close() })
	return h, func() (all []map[string]any) {
		t.Helper()
		_ = h.close()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.Lines(b) {
			line := map[string]any{}
			if err := json.Unmarshal(text, &line); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if line["event"] == "query" {
				all = append(all, line)
			}
		}
		return all
	}
}

var guest = &origin.Origin{
	Bridge: "br-int", InPort: 7, VLAN: 12, Network: origin.Network{0: 0x11, 15: 0x22}, Switch: "red", Port: "red-vm1",
	MAC: origin.MAC{2, 0, 0, 0, 0, 0x11}, Destination: netip.MustParseAddrPort("169.254.169.254:53"),
}

type writer struct {
	test.ResponseWriter
	local, remote net.Addr
	err           error
}

func newWriter() *writer {
	return &writer{
		local:  &net.UDPAddr{IP: net.IPv4(169, 254, 169, 254).To4(), Port: 53},
		remote: &net.UDPAddr{IP: net.IPv4(10, 0, 0, 5).To4(), Port: 40000},
	}
}

func (w *writer) LocalAddr() net.Addr       { return w.local }
func (w *writer) RemoteAddr() net.Addr      { return w.remote }
func (w *writer) WriteMsg(m *dns.Msg) error { return w.err }

type exchange struct {
	arrived time.Time
	outcome *origin.Outcome
}

func (x *exchange) Arrived() time.Time { return x.arrived }

func (x *exchange) Outcome() (f origin.Outcome, known bool) {
	if x.outcome == nil {
		return f, false
	}
	return *x.outcome, true
}

func from(o *origin.Origin, x *exchange) context.Context {
	ctx := origin.NewContext(context.Background(), o)
	return context.WithValue(ctx, origin.ExchangeKey{}, x)
}

func answer(records ...string) plugin.HandlerFunc {
	return func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		m := new(dns.Msg).SetReply(r)
		m.Authoritative = true
		for _, text := range records {
			rr, err := dns.NewRR(text)
			if err != nil {
				return dns.RcodeServerFailure, err
			}
			m.Answer = append(m.Answer, rr)
		}
		return dns.RcodeSuccess, w.WriteMsg(m)
	}
}

func query(name string) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, dns.TypeA)
	m.Id = 4711
	return m
}
