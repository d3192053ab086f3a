// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// auditLine is a line of the plugin audit.
type auditLine struct {
	Seq                                              int
	Event                                            string
	Time                                             time.Time
	Network, Switch, Port, Project                   string
	Client, Server, Protocol                         string
	ClientPort                                       int `json:"client_port"`
	ServerPort                                       int `json:"server_port"`
	ID                                               uint16
	Name, Type, Rcode, Flags, Result, Reason, Source string
	Answers                                          int
	Duration                                         float64
}

// auditLines returns the lines of an audit log, old files first. Each has to be one, with the next
// number.
func auditLines(t *testing.T, path string) (all []auditLine) {
	t.Helper()
	files, err := filepath.Glob(path + ".*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, file := range append(files, path) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.Lines(b) {
			var l auditLine
			if err := json.Unmarshal(text, &l); err != nil || text[len(text)-1] != '\n' {
				t.Fatalf("%s: %q: %v", file, text, err)
			}
			if all = append(all, l); l.Seq != len(all) {
				t.Fatalf("%s: line %d has the number %d", file, len(all), l.Seq)
			}
		}
	}
	return all
}

// auditKey is a query of a guest.
type auditKey struct {
	port string
	id   uint16
}

// auditLoad asks, from both tenants, over UDP and TCP and at both addresses.
type auditLoad struct {
	l    *lab.Lab
	next map[*lab.Guest]uint16 // the ID of the next query; mu guards it
	// asked has the line that a query should bring; mu guards it.
	asked map[auditKey]auditLine
	mu    sync.Mutex
}

// ask asks one question, and takes note of what the audit log should have. want has what is not the
// question or the guest.
func (a *auditLoad) ask(ctx context.Context, g *lab.Guest, protocol, resolver, name string, want auditLine) (*dns.Msg, error) {
	a.mu.Lock()
	a.next[g]++
	id := a.next[g]
	want.Port, want.Switch, want.Project = g.Port, g.Switch, "p-"+g.Switch
	want.Protocol, want.Server, want.Name, want.Type = protocol, resolver, name, "A"
	a.asked[auditKey{g.Port, id}] = want
	a.mu.Unlock()
	m := new(dns.Msg).SetQuestion(name, dns.TypeA)
	m.Id = id
	exchange := g.Exchange
	if protocol == "tcp" {
		exchange = g.ExchangeTCP
	}
	r, _, err := exchange(ctx, m, net.JoinHostPort(resolver, "53"))
	return r, err
}

// rounds asks for local names, cached ones and others until stop is closed.
func (a *auditLoad) rounds(ctx context.Context, g *lab.Guest, protocol, resolver string, stop <-chan struct{}) error {
	answered := auditLine{Rcode: "NOERROR", Result: "answered", Reason: "chain"}
	for i := 0; ; i++ {
		select {
		case <-stop:
			if i < 3 {
				return fmt.Errorf("%s over %s: %d rounds are no load", g.Name, protocol, i)
			}
			return nil
		case <-time.After(pause):
		}
		local, forwarded, cached := answered, answered, answered
		local.Source, forwarded.Source, cached.Source = "ovnhosts/dns", "forward/", anySource
		once := fmt.Sprintf("n%d.%s.%s.%s.example.", i, g.Switch, protocol, strings.NewReplacer(":", "-", ".", "-").Replace(resolver))
		for _, q := range []struct {
			name string
			want auditLine
		}{{"db.internal.", local}, {once, forwarded}, {once, cached}} {
			if r, err := a.ask(ctx, g, protocol, resolver, q.name, q.want); err != nil || r.Rcode != dns.RcodeSuccess {
				return fmt.Errorf("%s asks for %s over %s: %v, %w", g.Name, q.name, protocol, r, err)
			}
		}
	}
}

// anySource is that of a name that is cached, unless a reload has emptied the cache: none, or the
// upstream.
const anySource = "*"

// compare checks that each query is in the audit log once, with the identity of its guest. It returns
// how many were answered from cache.
func (a *auditLoad) compare(t *testing.T, lines []auditLine) (cached int) {
	t.Helper()
	networks := map[string]string{}
	for g := range a.next {
		networks[g.Port] = strings.TrimSpace(a.l.NBCTL("get", "Logical_Switch", g.Switch, "_uuid"))
	}
	seen := map[auditKey]int{}
	for _, l := range lines {
		if l.Event != "query" {
			continue
		}
		key := auditKey{l.Port, l.ID}
		seen[key]++
		want := a.asked[key]
		if l.Network != networks[l.Port] || l.Network == "" || l.Client == "" || l.ClientPort == 0 || l.ServerPort != 53 || l.Duration <= 0 || time.Since(l.Time) > time.Hour {
			t.Errorf("%+v", l)
		}
		switch {
		case want.Source == anySource && l.Source == "":
			cached++
		case want.Source == anySource && strings.HasPrefix(l.Source, "forward/"):
		case (want.Source == "") != (l.Source == "") || !strings.HasPrefix(l.Source, want.Source):
			t.Errorf("%+v, want the source %q", l, want.Source)
		}
		got := auditLine{
			Port: l.Port, Switch: l.Switch, Project: l.Project, Protocol: l.Protocol, Server: l.Server, Name: l.Name, Type: l.Type,
			Rcode: l.Rcode, Result: l.Result, Reason: l.Reason,
		}
		if want.Source = ""; got != want {
			t.Errorf("query %v:\n%+v, want\n%+v", key, got, want)
		}
	}
	for key, want := range a.asked {
		if seen[key] != 1 {
			t.Errorf("%v, %s over %s, is %d times in the audit log", key, want.Name, want.Protocol, seen[key])
		}
	}
	return cached
}

// auditFolder returns one that puntdns may write to.
func auditFolder(t *testing.T, l *lab.Lab) string {
	t.Helper()
	dir := filepath.Join(l.Dir, "audit")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

const auditedCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
        MODE
    }
    metadata
    errors
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    log . "[{name} {rcode}]"
    audit TRAIL {
        fields default project={/ofpunt/external-id/neutron:project_id} MORE
        rotate 64KiB
        keep all
    }
    acl drop.example {
        drop
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    END
}
`

// Each query of two tenants with equal addresses is in the audit log once, with the identity of its
// guest: names of OVN, cached and forwarded ones, over UDP and TCP, through rotations and reloads,
// one that is refused among them; and those that get SERVFAIL at the deadline, or nothing.
func TestAuditOfTenants(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	projects(n.Lab, "red-vm1", "p-red")
	projects(n.Lab, "blue-vm1", "p-blue")
	n.Sync()
	up := n.Upstream()
	up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Name == "silent.example." {
			return // forward asks until the deadline, and longer
		}
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: net.IPv4(192, 0, 2, 80)})
		_ = w.WriteMsg(m)
	}))
	path := filepath.Join(auditFolder(t, n.Lab), "audit.json")
	text := func(more string) string {
		return corefile(n.Lab, strings.NewReplacer("MODE", "", "TRAIL", path, "MORE", more, "END", "cache 300\n    forward . "+up.Addr+" {\n        max_connect_attempts 0\n    }").Replace(auditedCorefile))
	}
	s := serve(t, n.Lab, text(""))
	a := &auditLoad{l: n.Lab, next: map[*lab.Guest]uint16{}, asked: map[auditKey]auditLine{}}
	ctx := within(t, 2*wait)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, g := range []*lab.Guest{n.red, n.blue} {
		for _, resolver := range resolvers {
			for _, protocol := range []string{"udp", "tcp"} {
				wg.Go(func() {
					if err := a.rounds(ctx, g, protocol, resolver, stop); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	for i, more := range []string{"mac", "query_flags records", ""} {
		s.reload(text(more))
		before := s.metric("coredns_audit_lines_written_total")
		n.Eventually("further lines", func() error {
			if now := s.metric("coredns_audit_lines_written_total"); now < before+20 {
				return fmt.Errorf("%v, then %v", before, now)
			}
			return nil
		})
		if i == 1 {
			s.logsAfter(func() { s.rewrite(t, strings.Replace(text(""), path, filepath.Join(n.Dir, "none", "audit.json"), 1)) }, "expected a folder that this user may write to")
		}
	}
	close(stop)
	wg.Wait()
	_, err := a.ask(ctx, n.red, "udp", resolver4, "silent.example.", auditLine{Rcode: "SERVFAIL", Result: "answered", Reason: "deadline"})
	if err != nil {
		t.Error(err)
	}
	// A client that gets nothing gives up at once.
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r, err := a.ask(short, n.blue, "udp", resolver6, "drop.example.", auditLine{Result: "dropped", Reason: "unanswered"}); err == nil {
		t.Errorf("an answer in the place of none: %v", r)
	}
	n.Eventually("the lines of the queries without an answer in time", func() error {
		files, err := filepath.Glob(path + "*") // it may be rotated between the two
		if err != nil {
			return err
		}
		var all []byte
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			all = append(all, b...)
		}
		for _, name := range []string{`"drop.example."`, `"silent.example."`} {
			if !bytes.Contains(all, []byte(name)) {
				return fmt.Errorf("no line of %s", name)
			}
		}
		return nil
	})
	if got := s.metric("coredns_audit_lines_dropped_total") + s.metric("coredns_audit_write_errors_total"); got != 0 {
		t.Errorf("%v lines or attempts are counted as lost", got)
	}
	rotated := s.metric("coredns_audit_rotations_total")
	s.endWell()
	lines := auditLines(t, path)
	if first, last := lines[0].Event, lines[len(lines)-1].Event; first != "start" || last != "stop" || rotated < 1 {
		t.Errorf("from %q to %q, %v rotations", first, last, rotated)
	}
	if cached := a.compare(t, lines); cached < 10 {
		t.Errorf("%d answers from cache", cached)
	}
	for _, l := range lines {
		if l.Reason == "deadline" && (l.Duration < 4 || l.Duration > 30) {
			t.Errorf("SERVFAIL at the deadline after %v s", l.Duration)
		}
	}
	t.Logf("%d queries, %v rotations", len(a.asked), rotated)
}

// In hijack mode a query that nobody answers is in the audit log as resumed.
func TestAuditOfResumed(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	projects(n.Lab, "red-vm1", "p-red")
	n.Sync()
	path := filepath.Join(auditFolder(t, n.Lab), "audit.json")
	s := serve(t, n.Lab, corefile(n.Lab, strings.NewReplacer("MODE", "address any", "TRAIL", path, "MORE", "", "END", "passthrough").Replace(auditedCorefile)))
	a := &auditLoad{l: n.Lab, next: map[*lab.Guest]uint16{}, asked: map[auditKey]auditLine{}}
	const elsewhere = "198.51.100.53" // there is nobody
	if r, err := a.ask(within(t, wait), n.red, "udp", elsewhere, "db.internal.", auditLine{Rcode: "NOERROR", Result: "answered", Reason: "chain", Source: "ovnhosts/dns"}); err != nil {
		t.Error(r, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _ = a.ask(short, n.red, "udp", elsewhere, "www.example.", auditLine{Result: "resumed", Reason: "chain"})
	s.log(`\[www\.example\. RESUMED\]`)
	s.endWell()
	a.compare(t, auditLines(t, path))
}
