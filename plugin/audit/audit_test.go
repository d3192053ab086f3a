// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
)

type provider map[string]string

func (p provider) Metadata(ctx context.Context, _ request.Request) context.Context {
	for label, value := range p {
		metadata.SetValueFunc(ctx, label, func() string { return value })
	}
	return ctx
}

func withLabels(ctx context.Context, labels provider) context.Context {
	return labels.Metadata(metadata.ContextWithMetadata(ctx), request.Request{})
}

func check(t *testing.T, line map[string]any, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if got := fmt.Sprint(line[name]); got != fmt.Sprint(value) {
			t.Errorf("%s is %s, want %v", name, got, value)
		}
	}
}

func TestDefaultFields(t *testing.T) {
	h, lines := open(t, "", answer("db.internal. 30 IN A 10.0.0.9", "db.internal. 30 IN A 10.0.0.10"))
	x := &exchange{arrived: time.Now().Add(-1500 * time.Millisecond), outcome: &origin.Outcome{Result: "answered", Reason: "chain"}}
	ctx := withLabels(from(guest, x), provider{"ovnhosts/answer": "dns"})
	if _, err := h.ServeDNS(ctx, newWriter(), query("Db.internal.")); err != nil {
		t.Fatal(err)
	}
	all := lines()
	if len(all) != 1 {
		t.Fatalf("%d lines", len(all))
	}
	check(t, all[0], map[string]any{
		"seq": 2, "event": "query", "time": x.arrived.UTC().Format("2006-01-02T15:04:05.000000Z"),
		"bridge": "br-int", "network": "11000000-0000-0000-0000-000000000022", "switch": "red", "port": "red-vm1",
		"client": "10.0.0.5", "client_port": 40000, "server": "169.254.169.254", "server_port": 53, "protocol": "udp",
		"id": 4711, "name": "Db.internal.", "type": "A", "class": "IN", "rcode": "NOERROR", "flags": "qr,aa,rd", "answers": 2,
		"result": "answered", "reason": "chain", "source": "ovnhosts/dns",
	})
	if len(all[0]) != len(defaultFields)+3 {
		t.Errorf("%d fields: %v", len(all[0]), all[0])
	}
	if d := all[0]["duration"].(float64); d < 1.5 || d > 60 {
		t.Errorf("duration %v", d)
	}
}

func TestOtherFields(t *testing.T) {
	const fields = "fields port in_port vlan mac view query_flags records project={/ofpunt/external-id/neutron:project_id} none={/a/b}"
	h, lines := open(t, fields, answer(`x.example. 30 IN TXT "a\"b" "\255"`, "x.example. 30 IN A 192.0.2.1"))
	q := query("x.example.")
	q.SetEdns0(1232, true)
	q.CheckingDisabled = true
	w := newWriter()
	w.remote, w.local = &net.TCPAddr{IP: net.ParseIP("fd00::5"), Port: 1}, &net.TCPAddr{IP: net.ParseIP("fd00::254"), Port: 53}
	ctx := withLabels(from(guest, &exchange{}), provider{"ofpunt/external-id/neutron:project_id": "p-\xff\n"})
	if _, err := h.ServeDNS(ctx, w, q); err != nil {
		t.Fatal(err)
	}
	all := lines()
	if len(all) != 1 || len(all[0]) != 12 {
		t.Fatal(all)
	}
	check(t, all[0], map[string]any{
		"port": "red-vm1", "in_port": 7, "vlan": 12, "mac": "02:00:00:00:00:11", "view": "", "query_flags": "rd,cd,do",
		"records": []any{`TXT "a\"b" "\255"`, "A 192.0.2.1"}, "project": "p-\ufffd\n", "none": "",
	})
}

// Text of a tenant stays on one line of printable characters.
func TestHostileText(t *testing.T) {
	const text = "vm\n\x1b[2J\u202e\u2066\ufeff\U000e0041\\n"
	path := filepath.Join(t.TempDir(), "audit.json")
	h, err := parse(caddy.NewTestController("dns", "audit "+path+" {\nfields port switch own={/ofpunt/external-id/name}\n}"))
	if err != nil {
		t.Fatal(err)
	}
	h.Next = answer("x.example. 30 IN A 192.0.2.1")
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	o := *guest
	o.Port, o.Switch = text, text
	if _, err := h.ServeDNS(withLabels(from(&o, &exchange{}), provider{"ofpunt/external-id/name": text}), newWriter(), query("x.example.")); err != nil {
		t.Fatal(err)
	}
	_ = h.close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(string(b), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
		t.Errorf("the audit log is not safe: %q", b)
	}
	queries := 0
	for line := range bytes.Lines(b) {
		var got struct{ Event, Port, Switch, Own string }
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got.Event != "query" {
			continue
		}
		if queries++; got.Port != text || got.Switch != text || got.Own != text {
			t.Errorf("%q", got)
		}
	}
	if queries != 1 {
		t.Errorf("%d lines of queries", queries)
	}
}

// The result is what the guest got.
func TestResults(t *testing.T) {
	returns := func(code int, err error) plugin.HandlerFunc {
		return func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return code, err }
	}
	failing := errors.New("not sent")
	tests := []struct {
		name    string
		next    plugin.HandlerFunc
		outcome *origin.Outcome // nil for not known
		socket  bool
		err     error // of the writer
		want    string
	}{
		{"answered", answer(), &origin.Outcome{Result: "answered", Reason: "chain"}, false, nil, "answered chain NOERROR qr,aa,rd"},
		{"answered by the server", returns(dns.RcodeServerFailure, failing), nil, false, nil, "answered chain SERVFAIL "},
		{"refused as a loop", answer(), &origin.Outcome{Result: "refused", Reason: "loop"}, false, nil, "refused loop NOERROR qr,aa,rd"},
		{"resumed", returns(dns.RcodeSuccess, nil), &origin.Outcome{Result: "resumed", Reason: "chain"}, false, nil, "resumed chain  "},
		{"answered at the deadline", answer(), &origin.Outcome{Result: "answered", Reason: "deadline", Rcode: dns.RcodeServerFailure, At: time.Now()}, false, failing, "answered deadline SERVFAIL "},
		{"the chain fails after the deadline", returns(dns.RcodeServerFailure, failing), &origin.Outcome{Result: "answered", Reason: "deadline", Rcode: dns.RcodeServerFailure, At: time.Now()}, false, nil, "answered deadline SERVFAIL "},
		{"answered, and the guest has gone", answer("a.example. 30 IN A 192.0.2.1"), &origin.Outcome{Result: "dropped", Reason: "port"}, false, nil, "dropped port  "},
		{"the connection has gone", answer(), &origin.Outcome{Result: "dropped", Reason: "connection"}, false, failing, "dropped connection  "},
		{"dropped by a plugin", returns(dns.RcodeSuccess, nil), nil, false, nil, "dropped unanswered  "},
		{"from a socket", answer(), nil, true, nil, "answered chain NOERROR qr,aa,rd"},
		{"from a socket that has gone", answer(), nil, true, failing, "dropped connection  "},
		{"from a socket, refused", returns(dns.RcodeRefused, nil), nil, true, nil, "answered chain REFUSED "},
		{"from a socket, dropped", returns(dns.RcodeSuccess, nil), nil, true, nil, "dropped unanswered  "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, lines := open(t, "fields default records", tt.next)
			ctx := context.Background()
			if !tt.socket {
				ctx = from(guest, &exchange{arrived: time.Now().Add(-time.Second), outcome: tt.outcome})
			}
			w := newWriter()
			w.err = tt.err
			_, _ = h.ServeDNS(ctx, w, query("a.example."))
			all := lines()
			if len(all) != 1 {
				t.Fatalf("%d lines", len(all))
			}
			got := fmt.Sprint(all[0]["result"], " ", all[0]["reason"], " ", all[0]["rcode"], " ", all[0]["flags"])
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if all[0]["result"] == "dropped" {
				check(t, all[0], map[string]any{"flags": "", "answers": 0, "records": []any{}})
			}
			if port := all[0]["port"]; tt.socket && port != "" || !tt.socket && port != "red-vm1" {
				t.Errorf("the port is %q", port)
			}
		})
	}
}

// The line has the guest's question and the sent answer, even if plugins change messages. A panic leaves a line, a
// lookup none.
func TestQueryOfTheGuest(t *testing.T) {
	t.Run("rewritten", func(t *testing.T) {
		h, lines := open(t, "", func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			r.Question[0].Name, r.Id = "other.example.", 1
			m := new(dns.Msg).SetReply(r)
			defer func() { m.Rcode = dns.RcodeRefused }()
			return dns.RcodeSuccess, w.WriteMsg(m)
		})
		_, _ = h.ServeDNS(from(guest, &exchange{}), newWriter(), query("a.example."))
		check(t, lines()[0], map[string]any{"name": "a.example.", "id": 4711, "rcode": "NOERROR"})
	})
	t.Run("panic", func(t *testing.T) {
		h, lines := open(t, "", func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { panic("a bug") })
		func() {
			defer func() { _ = recover() }()
			_, _ = h.ServeDNS(from(guest, &exchange{}), newWriter(), query("a.example."))
			t.Error("no panic")
		}()
		check(t, lines()[0], map[string]any{"name": "a.example.", "rcode": "SERVFAIL"})
	})
	for _, socket := range []bool{false, true} {
		t.Run(fmt.Sprintf("a lookup, from a socket %v", socket), func(t *testing.T) {
			var h *Handler
			asked := 0
			h, lines := open(t, "", func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				if asked++; asked == 1 {
					if !socket {
						of := *guest
						of.Lookup = true
						ctx = origin.NewContext(ctx, &of)
					}
					_, _ = h.ServeDNS(ctx, dnstest.NewRecorder(newWriter()), query("target.example."))
				}
				return answer()(ctx, w, r)
			})
			ctx := context.Background()
			if !socket {
				ctx = from(guest, &exchange{})
			}
			_, _ = h.ServeDNS(ctx, newWriter(), query("a.example."))
			all := lines()
			if asked != 2 || len(all) != 1 || all[0]["name"] != "a.example." {
				t.Errorf("%d questions, %v", asked, all)
			}
		})
	}
}

func TestSource(t *testing.T) {
	for _, tt := range []struct {
		labels provider
		want   string
	}{
		{nil, ""},
		{provider{"ovnhosts/answer": "", "forward/upstream": "192.0.2.53:53"}, "forward/192.0.2.53:53"},
		{provider{"ovnhosts/answer": "port"}, "ovnhosts/port"},
		{provider{"rpz/answer": "block.rpz.", "forward/upstream": "9.9.9.9:53"}, "rpz/block.rpz."},
		{provider{"rpz/answer": "", "forward/upstream": "9.9.9.9:53"}, "forward/9.9.9.9:53"},
		{provider{"ovnhosts/answer": "", "ovnforward/upstream": "10.1.0.53:53"}, "ovnforward/10.1.0.53:53"},
		{provider{"neutronhosts/answer": "zone"}, "neutronhosts/zone"},
	} {
		h, lines := open(t, "", answer())
		ctx := from(guest, &exchange{})
		if tt.labels != nil {
			ctx = withLabels(ctx, tt.labels)
		}
		_, _ = h.ServeDNS(ctx, newWriter(), query("a.example."))
		check(t, lines()[0], map[string]any{"source": tt.want})
	}
}

// Any wire name gives JSON, and reads back as the same bytes.
func FuzzName(f *testing.F) {
	for _, name := range []string{"\x02db\x08internal\x00", "\x03\x00\xff\"\x00", "\x04\\.\n\x7f\x00", "\x06\xe2\x80\xa8\xf0\x9f<\x00", "\x00"} {
		f.Add([]byte(name))
	}
	h, err := parseFields([]string{"name", "type", "class"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		name, n, err := dns.UnpackDomainName(wire, 0)
		if err != nil {
			return
		}
		rec := &recorder{ctx: context.Background(), origin: &nobody, question: dns.Question{Name: name, Qtype: 1, Qclass: 1}}
		b := []byte(`{"seq":1`)
		for i := range h {
			b = h[i].value(append(b, h[i].key...), rec)
		}
		var line struct{ Name, Type, Class string }
		if err := json.Unmarshal(append(b, '}'), &line); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if line.Name != name || line.Type != "A" || line.Class != "IN" {
			t.Fatalf("%+v, want %q", line, name)
		}
		back := make([]byte, 512)
		end, err := dns.PackDomainName(line.Name, back, 0, nil, false)
		if err != nil || !sameName(back[:end], wire[:n]) {
			t.Fatalf("%q is %x, want %x: %v", line.Name, back[:end], wire[:n], err)
		}
	})
}

// A name with a pointer equals any.
func sameName(a, b []byte) bool {
	for i := 0; i < len(b) && b[i] != 0; i += int(b[i]) + 1 {
		if b[i] >= 0xc0 {
			return true
		}
	}
	return string(a) == string(b)
}

func BenchmarkServeDNS(b *testing.B) {
	m := new(dns.Msg)
	next := plugin.HandlerFunc(func(_ context.Context, w dns.ResponseWriter, _ *dns.Msg) (int, error) {
		return dns.RcodeSuccess, w.WriteMsg(m)
	})
	h, err := parse(caddy.NewTestController("dns", "audit /dev/null {\n queue 1GiB\n}"))
	if err != nil {
		b.Fatal(err)
	}
	h.Next = next
	if err := h.open(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = h.close() }()
	x := &exchange{arrived: time.Now(), outcome: &origin.Outcome{Result: "answered", Reason: "chain"}}
	ctx := withLabels(from(guest, x), provider{"ovnhosts/answer": "dns"})
	w, q := newWriter(), query("db.internal.")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h.ServeDNS(ctx, w, q)
	}
}

// Unknown numbers have the form of RFC 3597.
func TestUnknownNumbers(t *testing.T) {
	h, lines := open(t, "", func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
		return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetRcode(r, 3841))
	})
	q := query("a.example.")
	q.Question[0].Qtype, q.Question[0].Qclass = 65280, 65280
	_, _ = h.ServeDNS(from(guest, &exchange{}), newWriter(), q)
	check(t, lines()[0], map[string]any{"type": "TYPE65280", "class": "CLASS65280", "rcode": "RCODE3841"})
}

func TestManyRecords(t *testing.T) {
	records := []string{`x.example. 30 IN TXT "` + strings.Repeat("x", 255) + `" "` + strings.Repeat("y", 255) + `" "` + strings.Repeat("z", 255) + `"`}
	for i := range 40 {
		records = append(records, fmt.Sprintf("x.example. 30 IN A 192.0.2.%d", i))
	}
	h, lines := open(t, "fields records answers", answer(records...))
	_, _ = h.ServeDNS(from(guest, &exchange{}), newWriter(), query("x.example."))
	line := lines()[0]
	all := line["records"].([]any)
	if len(all) != mostRecords || len(all[0].(string)) != mostOfRecord+3 || line["answers"] != 41. {
		t.Errorf("%d records, the first of %d bytes, of %v", len(all), len(all[0].(string)), line["answers"])
	}
}
