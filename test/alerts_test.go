// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

const (
	rulesFile      = "../deploy/prometheus/puntdns.rules.yaml"
	prometheusAddr = "127.0.0.1:9090"
	// rateRange is the range of rates in the shortened rules: some scrapes of a second.
	rateRange = "6s"
)

// shortened returns the rules with short durations: ranges are rateRange, and what an alert waits
// for is a four-hundredth. Which alert has which duration is tested by promtool.
func shortened(rules string) string {
	rules = regexp.MustCompile(`\[\d+m\]`).ReplaceAllString(rules, "["+rateRange+"]")
	return regexp.MustCompile(`(?m)^( +for: )(\d+)m$`).ReplaceAllStringFunc(rules, func(line string) string {
		m := regexp.MustCompile(`^( +for: )(\d+)m$`).FindStringSubmatch(line)
		minutes, _ := strconv.Atoi(m[2]) // digits
		return m[1] + fmt.Sprint(minutes*60_000/400) + "ms"
	})
}

// needPrometheus looks for Debian's package prometheus.
func needPrometheus(t *testing.T) {
	t.Helper()
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			lab.Lack(t, "%v", err)
		}
	}
}

// monitor is a Prometheus that scrapes puntdns and has the shortened rules.
type monitor struct {
	t    *testing.T
	node *lab.Node
}

// scraped starts a monitor beside a puntdns.
func scraped(t *testing.T, l *lab.Lab) *monitor {
	t.Helper()
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	config := l.WriteFile("prometheus.yaml", `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 250ms}
rule_files: ["`+l.WriteFile("rules.yaml", shortened(string(rules)))+`"]
scrape_configs: [{job_name: puntdns, static_configs: [{targets: ["`+metricsAddr+`"]}]}]
`)
	l.Node.Start("prometheus", nil, "prometheus", "--config.file="+config, "--storage.tsdb.path="+l.Dir+"/prometheus",
		"--web.listen-address="+prometheusAddr, "--log.level=warn")
	m := &monitor{t, l.Node}
	if err := l.Node.WaitHTTP(within(t, wait), "http://"+prometheusAddr+"/-/ready", 200); err != nil {
		t.Fatal(err)
	}
	// Counters that have been at 0 are needed to see them rise.
	l.Eventually("scrapes", func() error {
		if n := m.values(`count_over_time(coredns_ofpunt_connected[` + rateRange + `]) > 1`); len(n) == 0 {
			return errors.New("none so far")
		}
		return nil
	})
	return m
}

// get asks the HTTP API of Prometheus, and decodes the data of its answer.
func (m *monitor) get(path string, data any) {
	m.t.Helper()
	_, body, err := m.node.HTTPGet(within(m.t, wait), "http://"+prometheusAddr+"/api/v1/"+path)
	if err != nil {
		m.t.Fatal(err)
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
		m.t.Fatalf("%s: %v %s", path, err, body)
	}
}

// firing are the names of the alerts that fire.
func (m *monitor) firing() map[string]bool {
	m.t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	m.get("alerts", &data)
	all := map[string]bool{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = true
		}
	}
	return all
}

// values are those of an instant query.
func (m *monitor) values(expr string) (values []string) {
	m.t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	m.get("query?query="+url.QueryEscape(expr), &data)
	for _, r := range data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values
}

// ofBusyMachine are alerts that a machine raises by itself if it stands still for a second or
// four: here they wait for a fraction of what they wait for in production.
var ofBusyMachine = []string{"PuntdnsDown", "PuntdnsLeaseLapsed", "PuntdnsDeadlines", "PuntdnsNotReady"}

// raises has a fault raise an alert, and no other one that was not there before. The fault may be
// repeated.
func (m *monitor) raises(alert string, fault func()) {
	m.t.Helper()
	began := time.Now()
	before := m.firing()
	if before[alert] {
		m.t.Errorf("%s fires before its fault", alert)
	}
	for now := before; !now[alert]; now = m.firing() {
		if time.Since(began) > wait {
			m.t.Errorf("%s does not fire, but %q do", alert, slices.Sorted(maps.Keys(now)))
			return
		}
		fault()
		time.Sleep(100 * time.Millisecond) // Prometheus has no event to wait for
	}
	for other := range m.firing() {
		if other != alert && !before[other] && !slices.Contains(ofBusyMachine, other) {
			m.t.Errorf("the fault of %s raises %s, too", alert, other)
		}
	}
	m.t.Logf("%s after %s", alert, time.Since(began).Round(100*time.Millisecond))
}

// once has a fault happen once.
func once(fault func()) func() { return sync.OnceFunc(fault) }

// alertRig is a puntdns with guests that ask all the time, and what its faults need.
type alertRig struct {
	t *testing.T
	l *lab.Lab
	s *server
	m *monitor
	// blue asks all the time until stopLoad; the others have faults.
	blue, red1, red2, red3 *lab.Guest
	stopLoad               func()
	upstream               *lab.DNSServer
	held                   chan struct{} // closed when the upstream is to answer what it holds
	sb, ovs, mgmt          *lab.Gate
	text                   string // of the Corefile
}

const alertController = 4242

func newAlertRig(t *testing.T) *alertRig {
	l := lab.New(t, lab.Options{})
	// No ACL and no router: connection tracking of Open vSwitch 3.1.0 aborts now and then.
	l.AddSwitch("red")
	l.AddSwitch("blue")
	guest := func(sw string, number int) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: fmt.Sprintf("%s-vm%d", sw, number), Switch: sw, MAC: fmt.Sprintf("02:00:00:00:01:%02x", 16+number),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.1.%d/24", 10+number)), Routes: []string{resolver4 + " dev " + lab.Iface}, PortSecurity: true,
		})
	}
	l.AddDNS(map[string]string{"db.internal": "10.0.1.99"}, "red")
	l.AddDNS(map[string]string{"db.internal": "10.0.2.99"}, "blue")
	r := &alertRig{t: t, l: l, held: make(chan struct{})}
	r.red1, r.red2, r.red3 = guest("red", 1), guest("red", 2), guest("red", 3)
	r.blue = guest("blue", 1)
	l.Sync()
	gate := func(name, to string) *lab.Gate {
		g := l.Gate("unix:" + l.Dir + "/" + name + ".gate")
		g.Open(to)
		return g
	}
	r.sb, r.ovs, r.mgmt = gate("sb", l.SB), gate("ovs", l.Node.OVSDB), gate("mgmt", l.Node.OpenFlow)
	r.upstream = l.Upstream()
	r.serveUpstream()
	r.text = `. {
    ofpunt br-int {
        openflow ` + r.mgmt.Endpoint + `
        ovsdb ` + r.ovs.Endpoint + `
        controller_id ` + fmt.Sprint(alertController) + `
        lease $LEASE
        rate off
        max_concurrent 40 12
        limit ofpunt/port ` + r.red1.Port + ` {
            rate 10 10
        }
        limit ofpunt/port ` + r.red2.Port + ` {
            tcp_connections 4
        }
        metrics network
    }
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    errors
    ovnhosts {
        southbound ` + r.sb.Endpoint + `
        fallthrough
    }
    cache
    forward . ` + r.upstream.Addr + ` {
        read_timeout 8s
    }
}`
	r.s = start(t, l, r.text)
	r.m = scraped(t, l)
	r.s.ready(200)
	r.load()
	return r
}

// serveUpstream has the upstream answer names at once, but hold those that begin with held, and
// never answer those that begin with silent.
func (r *alertRig) serveUpstream() {
	r.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		switch name := q.Question[0].Name; {
		case strings.HasPrefix(name, "silent"):
			return
		case strings.HasPrefix(name, "held"):
			<-r.held
		}
		m.Rcode = dns.RcodeNameError
		_ = w.WriteMsg(m)
	}))
}

// load has a guest ask over UDP and TCP until stopLoad, names that the databases, the
// cache and the upstream know.
func (r *alertRig) load() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	r.stopLoad = func() { cancel(); done.Wait() }
	r.t.Cleanup(r.stopLoad)
	g := r.blue
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			for _, name := range []string{"db.internal.", "cached.example.", fmt.Sprintf("n%d.example.", i)} {
				one, end := context.WithTimeout(ctx, time.Second)
				_, _ = exchange(one, g, resolver4, name, dns.TypeA) // faults have no answers
				end()
			}
			if i%10 == 0 {
				one, end := context.WithTimeout(ctx, time.Second)
				_, _, _ = g.ExchangeTCP(one, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA), net.JoinHostPort(resolver4, "53"))
				end()
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// send sends n queries at once, for a name or, if it is not fully qualified, for names that begin
// with it.
func (r *alertRig) send(g *lab.Guest, name string, n int) {
	r.t.Helper()
	conn, err := g.Dial(within(r.t, wait), "udp", net.JoinHostPort(resolver4, "53"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	for i := range n {
		of := name
		if !dns.IsFqdn(name) {
			of = fmt.Sprintf("%s%d-%s.example.", name, i, g.Name)
		}
		q, err := new(dns.Msg).SetQuestion(of, dns.TypeA).Pack()
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := conn.Write(q); err != nil {
			r.t.Fatal(err)
		}
	}
}

// connect opens TCP connections, of which some are refused.
func (r *alertRig) connect(g *lab.Guest, n int) {
	for range n {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		if conn, err := g.Dial(ctx, "tcp", net.JoinHostPort(resolver4, "53")); err == nil {
			r.t.Cleanup(func() { conn.Close() })
		}
		cancel()
	}
}

// stop stops puntdns until the switch has no punt any more.
func (r *alertRig) stop() {
	r.t.Helper()
	if err := r.s.Signal(syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = r.s.Signal(syscall.SIGCONT) }()
	r.l.Eventually("the lease is over", func() error {
		if flows := r.l.Node.OFCTL("dump-flows", lab.Bridge, "table=200"); strings.Contains(flows, "hard_timeout") {
			return errors.New(flows)
		}
		return nil
	})
}

// every returns what calls f no more often than each second.
func every(second time.Duration, f func()) func() {
	var last time.Time
	return func() {
		if time.Since(last) >= second {
			last = time.Now()
			f()
		}
	}
}

// A Prometheus with the rules and dashboards of deploy beside a puntdns under load: each fault
// raises its alert and no other one, each panel has data, and names and types are as promtool
// wants them.
func TestAlerts(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	r := newAlertRig(t)
	l, m := r.l, r.m

	m.raises("PuntdnsGuestOverLimit", once(func() { r.send(r.red1, "db.internal.", 300) }))
	r.s.log(logOverRate, r.red1.Port)
	m.raises("PuntdnsTCPAtLimit", once(func() { r.connect(r.red2, 12) }))
	m.raises("PuntdnsOverload", once(func() {
		r.send(r.red2, "held", 12)
		r.send(r.red3, "held", 12)
		l.Eventually("overload", func() error {
			if r.s.metric("coredns_ofpunt_packet_ins_total", "reason", "overload") == 0 {
				return errors.New("nothing is refused")
			}
			return nil
		})
		close(r.held)
	}))
	r.s.log(logOverload)
	m.raises("PuntdnsDeadlines", once(func() { r.send(r.red2, "silent", 10) }))
	m.raises("PuntdnsUpstreamDown", once(r.upstream.Close))
	r.upstream = l.Node.ServeDNS(r.upstream.Addr)
	r.serveUpstream()
	m.raises("PuntdnsPacketsDropped", func() {
		l.Node.OFCTL("packet-out", lab.Bridge, "in_port=controller packet="+strings.Repeat("02", 60)+" actions=controller(id="+fmt.Sprint(alertController)+")")
	})
	m.raises("PuntdnsFlowsLost", every(time.Second, func() {
		l.Node.OFCTL("del-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000,udp")
	}))
	m.raises("PuntdnsLeaseLapsed", once(r.stop))
	m.raises("PuntdnsDatabaseDown", once(r.sb.Close))
	r.sb.Open(l.SB)
	m.raises("PuntdnsLocalDatabaseDown", once(r.ovs.Close))
	r.ovs.Open(l.Node.OVSDB)
	m.raises("PuntdnsSwitchStalled", once(func() { l.Node.Kill("ovsdb-server") }))
	l.Node.Revive("ovsdb-server")
	r.s.reaches(0, "coredns_ofpunt_switch_stalled", "bridge", lab.Bridge)
	m.raises("PuntdnsNotConnected", once(r.mgmt.Close))
	r.mgmt.Open(l.Node.OpenFlow)
	r.s.ready(200)
	m.raises("PuntdnsGuestsUnserved", once(func() {
		l.Node.VSCTL("add-port", lab.Bridge, "nobody", "--", "set", "Interface", "nobody", "type=internal", "external_ids:iface-id=nobody")
	}))
	l.Node.VSCTL("del-port", lab.Bridge, "nobody")
	m.raises("PuntdnsEgressOpen", once(func() {
		policy := "    egress {\n        policy ofpunt/port " + r.red1.Port + " {\n            allow example\n        }\n    }\n    cache\n"
		r.s.reload(corefile(l, strings.Replace(r.text, "    cache\n", policy, 1)))
	}))
	if _, err := exchange(within(t, wait), r.red1, resolver4, "www.example.", dns.TypeA); err != nil { // for the panel "Verdicts"
		t.Error(err)
	}
	r.s.reload(corefile(l, r.text))
	m.raises("PuntdnsReloadFailed", once(func() {
		l.WriteFile("Corefile.puntdns", ". {\n    nosuch\n}\n")
		if err := r.s.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}))
	l.WriteFile("Corefile.puntdns", corefile(l, r.text))
	l.Eventually("all alerts are over", func() error {
		if still := m.firing(); len(still) > 0 {
			return fmt.Errorf("%q", slices.Sorted(maps.Keys(still)))
		}
		return nil
	})
	other := launch(t, l, l.Node, "other", strings.NewReplacer(readyAddr, "127.0.0.1:8182", metricsAddr, "127.0.0.1:9154", fmt.Sprint(alertController), "4243").Replace(r.text))
	m.raises("PuntdnsNotReady", func() {})
	if err := other.Stop(); err != nil {
		t.Error(err)
	}

	r.checkMetrics(t)
	r.checkPanels(t)
	const byNetwork = "coredns_ofpunt_network_queries_total"
	if r.s.metric(byNetwork, "switch", "blue", "result", "answered") == 0 {
		t.Errorf("no query of the network is counted\n%s", r.s.metrics())
	}
	r.stopLoad()
	r.blue.Remove()
	l.Eventually("the series of a network go with its last guest", func() error {
		for _, f := range r.s.families() {
			for _, metric := range f.GetMetric() {
				if labelled(metric, []string{"switch", "blue"}) {
					return errors.New(f.GetName())
				}
			}
		}
		return nil
	})
	if len(r.s.families()[byNetwork].GetMetric()) != 4 {
		t.Errorf("the other network has no series\n%s", r.s.metrics())
	}
	m.raises("PuntdnsDown", once(func() {
		_ = r.s.Kill() // says that it was killed
	}))
}

// acceptedProblems are what promtool finds wrong with metrics of others.
var acceptedProblems = []string{}

// checkMetrics compares the exposition with what promtool wants, and with what rules and
// dashboards name.
func (r *alertRig) checkMetrics(t *testing.T) {
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(r.s.metrics())
	out, err := check.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); !slices.Contains(acceptedProblems, line) {
			t.Errorf("promtool check metrics: %s (%v)", line, err)
		}
	}
	there := r.s.families()
	for _, file := range []string{rulesFile, "../deploy/grafana/node.json", "../deploy/grafana/fleet.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(?:coredns|go|process)_[a-z_]+`).FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			histogram, _, _ := strings.Cut(regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, " "), " ")
			if there[name] == nil && there[histogram] == nil {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// checkPanels asks what each panel of the dashboards asks.
func (r *alertRig) checkPanels(t *testing.T) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", metricsAddr, "$bridge", lab.Bridge)
	for _, file := range []string{"../deploy/grafana/node.json", "../deploy/grafana/fleet.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatal(err)
		}
		if len(dashboard.Panels) == 0 {
			t.Errorf("%s has no panels", file)
		}
		for _, p := range dashboard.Panels {
			for _, q := range p.Targets {
				values := r.m.values(variables.Replace(q.Expr))
				if !slices.ContainsFunc(values, func(v string) bool { return v != "NaN" }) {
					t.Errorf("%s, %q: no data but %q for %s", file, p.Title, values, q.Expr)
				}
			}
		}
	}
}

// promtool takes the rules, and their tests pass.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	for _, args := range [][]string{{"check", "rules", "puntdns.rules.yaml"}, {"test", "rules", "puntdns.rules.test.yaml"}} {
		check := exec.CommandContext(within(t, wait), "promtool", args...)
		check.Dir = "../deploy/prometheus"
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}
