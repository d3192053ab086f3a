// SPDX-License-Identifier: Apache-2.0

package ready

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
)

type part struct {
	name string
	why  []string
	next plugin.Handler
}

func (p *part) Name() string { return p.name }
func (p *part) Ready() bool  { return len(p.why) == 0 }
func (p *part) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return plugin.NextOrFailure(p.name, p.next, ctx, w, r)
}

type explainer struct{ part }

func (e *explainer) NotReady() []string { return e.why }

func started(t *testing.T, m *monitor, plugins ...plugin.Handler) string {
	t.Helper()
	c := &dnsserver.Config{Zone: ".", ListenHosts: []string{"127.0.0.1"}}
	before := dnsserver.Directives
	t.Cleanup(func() { dnsserver.Directives = before })
	dnsserver.Directives = nil
	for _, p := range plugins {
		dnsserver.Directives = append(dnsserver.Directives, p.Name())
		c.AddPlugin(func(plugin.Handler) plugin.Handler { return p })
	}
	if _, err := dnsserver.NewServer("dns://127.0.0.1:0", []*dnsserver.Config{c}); err != nil {
		t.Fatal(err)
	}
	address := testkit.FreeAddress(t)
	m.configs, m.addresses = []*dnsserver.Config{c}, []string{address}
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.stop() })
	return address
}

func get(t *testing.T, address string) string {
	t.Helper()
	r, err := http.Get("http://" + address + "/ready")
	if err != nil {
		return "no answer"
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", r.StatusCode, body)
}

func TestAnswer(t *testing.T) {
	a, b := &explainer{part{name: "a"}}, &part{name: "b"}
	address := started(t, &monitor{continuously: true}, a, b)
	for _, tt := range []struct {
		name string
		a, b []string
		want string
	}{
		{"all ready", nil, nil, "200 OK"},
		{"one is not, and says why", []string{"the switch is away", "the database is away"}, nil, "503 a\na: the switch is away\na: the database is away\n"},
		{"one is not, and says nothing", nil, []string{"-"}, "503 b"},
		{"none is", []string{"gone"}, []string{"-"}, "503 a,b\na: gone\n"},
		{"all ready again", nil, nil, "200 OK"},
	} {
		a.why, b.why = tt.a, tt.b
		if got := get(t, address); got != tt.want {
			t.Errorf("%s: %q, expected %q", tt.name, got, tt.want)
		}
	}
}

func TestUntilReady(t *testing.T) {
	a := &explainer{part{name: "a", why: []string{"starting"}}}
	address := started(t, &monitor{}, a)
	for _, tt := range []struct {
		why  []string
		want string
	}{{[]string{"starting"}, "503 a\na: starting\n"}, {nil, "200 OK"}, {[]string{"lost"}, "200 OK"}} {
		a.why = tt.why
		if got := get(t, address); got != tt.want {
			t.Errorf("%q, expected %q", got, tt.want)
		}
	}
}

func TestStop(t *testing.T) {
	m := &monitor{}
	address := started(t, m, &part{name: "a"})
	for range 3 { // as many failed reloads
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		if got := get(t, address); got != "no answer" {
			t.Errorf("stopped: %q", got)
		}
		if err := m.start(); err != nil {
			t.Fatal(err)
		}
		if got := get(t, address); got != "200 OK" {
			t.Errorf("started again: %q", got)
		}
	}
}

type slow struct {
	part
	asked, goOn chan struct{}
}

func (s *slow) Ready() bool {
	close(s.asked)
	<-s.goOn
	return true
}

// A request in progress gets its answer; stop waits no longer.
func TestStopDuringRequest(t *testing.T) {
	a := &slow{part{name: "a"}, make(chan struct{}), make(chan struct{})}
	m := &monitor{}
	address := started(t, m, a)
	got, stopped := make(chan string), make(chan time.Duration)
	go func() { got <- get(t, address) }()
	<-a.asked
	go func() {
		began := time.Now()
		_ = m.stop() // no error
		stopped <- time.Since(began)
	}()
	for { // until it no longer listens
		c, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		c.Close()
	}
	close(a.goOn)
	if got := <-got; got != "200 OK" {
		t.Errorf("answered %q", got)
	}
	if d := <-stopped; d >= shutdownTimeout {
		t.Errorf("stopped after %s", d)
	}
}

func TestSetup(t *testing.T) {
	for _, tt := range []struct {
		name, corefile string
		address        string
		continuously   bool
		err            string
	}{
		{"default", "ready", ":8181", false, ""},
		{"address", "ready 127.0.0.1:80", "127.0.0.1:80", false, ""},
		{"continuously", "ready {\n monitor continuously\n}", ":8181", true, ""},
		{"until ready", "ready :1 {\n monitor until-ready\n}", ":1", false, ""},
		{"no port", "ready localhost", "", false, `"localhost": expected [HOST]:PORT`},
		{"two addresses", "ready :1 :2", "", false, "expected one address at most, got 2 words"},
		{"property", "ready {\n often\n}", "", false, `unknown property "often", expected monitor`},
		{"monitor", "ready {\n monitor\n}", "", false, "monitor: expected until-ready or continuously, got 0 words"},
		{"monitor what", "ready {\n monitor never\n}", "", false, `monitor: "never": expected until-ready or continuously`},
		{"twice", "ready\nready", "", false, "given twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := caddy.NewTestController("dns", tt.corefile)
			err := setup(c)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, expected %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m, _ := c.Get(monitorKey{}).(*monitor)
			if m == nil || len(m.addresses) != 1 || m.addresses[0] != tt.address || m.continuously != tt.continuously {
				t.Errorf("%+v", m)
			}
		})
	}
}
