// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/puntdns/puntdns/test/lab"
)

// families are the metrics by name.
func (s *server) families() map[string]*dto.MetricFamily {
	s.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(s.metrics()))
	if err != nil {
		s.t.Fatalf("metrics: %v", err)
	}
	return all
}

// metric is the sum of the counters or gauges of a name whose labels are as
// given, in pairs; a histogram counts by its observations.
func (s *server) metric(name string, labels ...string) float64 {
	s.t.Helper()
	sum := 0.
	for _, m := range s.families()[name].GetMetric() {
		if !labelled(m, labels) {
			continue
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

func labelled(m *dto.Metric, pairs []string) bool {
	for i := 0; i+1 < len(pairs); i += 2 {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == pairs[i] && l.GetValue() == pairs[i+1]
		}) {
			return false
		}
	}
	return true
}

// reaches waits until a metric has a value.
func (s *server) reaches(want float64, name string, labels ...string) {
	s.t.Helper()
	s.l.Eventually(name, func() error {
		if got := s.metric(name, labels...); got != want {
			return fmt.Errorf("%s%q is %v, want %v", name, labels, got, want)
		}
		return nil
	})
}

// inFlight is the metric of queries in the chains.
const inFlight = "coredns_ofpunt_in_flight"

// idle waits until no query is in the chains: they count an answer after it has left.
func (s *server) idle() {
	s.t.Helper()
	s.reaches(0, inFlight)
}

// stays looks at ready once more, when something else has shown that the state
// is what it was.
func (s *server) stays(status int) {
	s.t.Helper()
	got, body, err := s.node.HTTPGet(within(s.t, wait), "http://"+readyAddr+"/ready")
	if err != nil || got != status {
		s.t.Errorf("ready says %d %q (%v), want %d\n%s", got, body, err, status, s.Log())
	}
}

// alive fails if the process has ended.
func (s *server) alive() {
	s.t.Helper()
	select {
	case <-s.Done():
		s.t.Fatalf("%s has ended\n%s", s.Name, s.Log())
	default:
	}
}

// appear puts a socket where the Corefile has looked for it in vain.
func appear(t *testing.T, endpoint, late string) {
	t.Helper()
	if err := os.Symlink(strings.TrimPrefix(endpoint, "unix:"), late); err != nil {
		t.Fatal(err)
	}
}

// What is not there when puntdns starts is waited for, whatever the order in
// which it comes.
func TestObserveStart(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.99"}, "red")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()

	for _, tc := range []struct {
		name string
		// what comes late, in this order: the switch, the local database and
		// the Southbound one
		order []string
	}{
		{"names last", []string{"switch", "local", "names"}},
		{"switch last", []string{"names", "local", "switch"}},
		{"local database last", []string{"switch", "names", "local"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			late := map[string]string{}
			for _, what := range tc.order {
				late[what] = filepath.Join(dir, what)
			}
			s := launch(t, l, l.Node, "late-"+tc.order[0]+"-"+tc.order[1], `
. {
    ofpunt br-int {
        openflow unix:`+late["switch"]+`
        ovsdb unix:`+late["local"]+`
    }
    ovnhosts {
        southbound unix:`+late["names"]+`
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    prometheus `+metricsAddr+`
    errors
}`)
			s.ready(503)
			for _, want := range []string{"ofpunt: bridge br-int: unix:" + late["switch"], "ovnhosts: OVN_Southbound: not in sync: unix:" + late["names"]} {
				l.Eventually("the reason", func() error {
					_, body, err := l.Node.HTTPGet(within(t, wait), "http://"+readyAddr+"/ready")
					return errorUnless(err == nil && strings.Contains(body, want), "ready says %q (%v), want %q in it", body, err, want)
				})
			}
			s.reaches(0, "coredns_ofpunt_connected", "bridge", "br-int")
			s.reaches(0, "coredns_ofpunt_local_database_up", "bridge", "br-int")
			s.reaches(0, "coredns_ovnhosts_database_up")
			absent := [][]string{
				{logSwitchFails, "unix:" + late["switch"], "no such file"},
				{logLocalFails, "unix:" + late["local"], "no such file"},
				{logNotSynced, "OVN_Southbound", "unix:" + late["names"], "no such file"},
			}
			for _, a := range absent {
				s.log(a[0], a[1:]...)
			}
			for i, what := range tc.order {
				s.stays(503)
				s.alive()
				switch what {
				case "switch":
					appear(t, l.Node.OpenFlow, late[what])
					s.reaches(1, "coredns_ofpunt_connected", "bridge", "br-int")
					s.log(logSwitchUp, "unix:"+late[what])
				case "local":
					appear(t, l.Node.OVSDB, late[what])
					s.reaches(1, "coredns_ofpunt_local_database_up", "bridge", "br-int")
					s.log(logLocalUp, "unix:"+late[what])
				case "names":
					appear(t, l.SB, late[what])
					s.reaches(1, "coredns_ovnhosts_database_up")
					s.log(logSynced, "OVN_Southbound", "unix:"+late[what])
				}
				if i < len(tc.order)-1 {
					s.stays(503)
				}
			}
			s.ready(200)
			expect(t, vm, "NOERROR 10.0.1.99", "db.internal", "@169.254.169.254")
			// A state is told once, however many tries it took.
			for _, a := range absent {
				s.toldTimes(t, 1, a[0], a[1:]...)
			}
			s.endWell()
		})
	}
}

// Of a switch that hangs ready and the log say that first, whatever was under way.
func TestObserveHungSwitch(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	aclGuest(l, "red", 1, 1)
	l.Sync()
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
    }
    ovnhosts {
        southbound $SB
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    prometheus `+metricsAddr+`
    errors
}`)
	p := l.Node.Daemon("ovs-vswitchd")
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Signal(syscall.SIGCONT) }) // it is to end with the lab
	s.ready(503)
	_, body, err := s.node.HTTPGet(within(t, wait), "http://"+readyAddr+"/ready")
	if hangs := logged("ofpunt: bridge br-int: "+logSwitchHangs, ""); err != nil || !regexp.MustCompile(hangs).MatchString(body) {
		t.Errorf("ready says %q (%v)", body, err)
	}
	// So does the next connection, which the switch does not take up.
	s.log(logSwitchHangs, "unix:")
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.ready(200)
	s.endWell()
}

// Answers go on from what was known while a database or the switch is away.
func TestObserveOutage(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	row := l.AddDNS(map[string]string{"db.internal": "10.0.1.98"}, "red")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()
	s := launch(t, l, l.Node, "outage", `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    ovnhosts {
        southbound $SB
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    prometheus `+metricsAddr+`
    errors
}`)
	has := func(want string) error {
		if r := vm.Dig("db.internal", "@169.254.169.254"); r.String() != "NOERROR "+want {
			return fmt.Errorf("%s, want %s\n%s", r, want, r.Out)
		}
		return nil
	}
	s.ready(200)
	if err := has("10.0.1.98"); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		name       string
		gone, back func()
		metric     []string
		ready      int // meanwhile; 0 for any
		// served is set where queries are answered meanwhile.
		served bool
	}{
		{"Southbound killed", func() { l.Kill("sb") }, func() { l.Revive("sb") }, []string{"coredns_ovnhosts_database_up"}, 503, true},
		{"Southbound killed again", func() { l.Kill("sb") }, func() { l.Revive("sb") }, []string{"coredns_ovnhosts_database_up"}, 503, true},
		{"switch killed", func() { l.Node.Kill("ovs-vswitchd") }, func() { l.Node.Revive("ovs-vswitchd") }, []string{"coredns_ofpunt_connected", "bridge", "br-int"}, 503, false},
		// It has told who this node is, which does not change. Yet ovs-vswitchd
		// may serve no OpenFlow until it is back.
		{"local database killed", func() { l.Node.Kill("ovsdb-server") }, func() { l.Node.Revive("ovsdb-server") }, []string{"coredns_ofpunt_local_database_up", "bridge", "br-int"}, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.t = t
			tc.gone()
			s.reaches(0, tc.metric[0], tc.metric[1:]...)
			if tc.ready != 0 {
				s.ready(tc.ready)
			}
			if tc.served {
				// The oldest is no worse than the newest: what was known stands.
				for range 5 {
					if err := has(fmt.Sprintf("10.0.1.%d", 98+i)); err != nil {
						t.Error(err)
					}
				}
				s.stays(tc.ready)
			}
			s.alive()
			tc.back()
			s.reaches(1, tc.metric[0], tc.metric[1:]...)
			s.ready(200)
			// A change comes through again.
			want := fmt.Sprintf("10.0.1.%d", 99+i)
			l.SetDNS(row, map[string]string{"db.internal": want})
			l.Eventually("the change", func() error { return has(want) })
		})
	}
	s.t = t
	s.endWell()
}

// Counters of packet-ins, the log and the shape of the metrics.
func TestObserveMetrics(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.99"}, "red")
	vm, other := aclGuest(l, "red", 1, 1), aclGuest(l, "red", 1, 2)
	own := other.ServeDNS("10.0.1.12:53", "www.example.org. 60 IN A 192.0.2.80")
	l.Sync()
	const tail = `
    metadata
    log . "asked {name} port={/ofpunt/port} switch={/ofpunt/switch} bridge={/ofpunt/bridge} destination={/ofpunt/destination} table=[{/ovnhosts/answer}] {rcode}"
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    errors
}`

	t.Run("service", func(t *testing.T) {
		s := launch(t, l, l.Node, "service", `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    template ANY ANY {
        rcode REFUSED
    }`+tail)
		s.ready(200)

		t.Run("answered", func(t *testing.T) {
			answered := s.metric("coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "answered", "reason", "chain")
			for qname, want := range map[string]string{
				"db.internal": "NOERROR 10.0.1.99", "vm2": "NOERROR 10.0.1.12", "www.example.org": "REFUSED",
			} {
				expect(t, vm, want, qname, "@169.254.169.254")
			}
			s.reaches(answered+3, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "answered", "reason", "chain")
			s.reaches(3, "coredns_ofpunt_answer_duration_seconds", "server", "ofpunt://br-int")
			s.reaches(3, "coredns_dns_requests_total", "server", "ofpunt://br-int")
			s.reaches(1, "coredns_ovnhosts_answers_total", "server", "ofpunt://br-int", "answer", "dns")
			s.reaches(1, "coredns_ovnhosts_answers_total", "server", "ofpunt://br-int", "answer", "port")
		})
		t.Run("dropped", func(t *testing.T) {
			response := pack(t, new(dns.Msg).SetReply(new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)))
			for _, tc := range []struct {
				reason   string
				datagram []byte
			}{
				{"short", []byte("short")},
				{"short", make([]byte, 11)},
				{"response", response},
			} {
				before := s.metric("coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "dropped", "reason", tc.reason)
				conn, err := vm.Dial(within(t, wait), "udp", "169.254.169.254:53")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write(tc.datagram); err != nil {
					t.Error(err)
				}
				conn.Close()
				s.reaches(before+1, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "dropped", "reason", tc.reason)
			}
		})
		t.Run("refused", func(t *testing.T) {
			r := vm.Dig("+opcode=STATUS", "db.internal", "@169.254.169.254")
			if r.Status != "NOTIMP" {
				t.Errorf("%s\n%s", r, r.Out)
			}
			s.reaches(1, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "refused", "reason", "opcode")
		})
		t.Run("log", func(t *testing.T) {
			for _, line := range []string{
				`asked db\.internal\. port=red-vm1 switch=red bridge=br-int destination=169\.254\.169\.254:53 table=\[dns\] NOERROR`,
				`asked vm2\. port=red-vm1 switch=red bridge=br-int destination=169\.254\.169\.254:53 table=\[port\] NOERROR`,
				`asked www\.example\.org\. port=red-vm1 switch=red bridge=br-int destination=169\.254\.169\.254:53 table=\[-?\] REFUSED`,
			} {
				s.log(line)
			}
			expect(t, other, "NOERROR 10.0.1.99", "db.internal", "@fd00::254")
			s.log(`asked db\.internal\. port=red-vm2 switch=red bridge=br-int destination=\[fd00::254\]:53 table=\[dns\]`)
		})
		s.endWell()
	})

	t.Run("hijack", func(t *testing.T) {
		s := launch(t, l, l.Node, "hijack", `
. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        address any
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    passthrough`+tail)
		s.ready(200)
		expect(t, vm, "NOERROR 192.0.2.80", "www.example.org", "@10.0.1.12")
		if n := own.Count("www.example.org"); n != 1 {
			t.Errorf("the server of the tenant was asked %d times, want 1", n)
		}
		s.reaches(1, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "resumed", "reason", "chain")
		s.reaches(0, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "answered")
		expect(t, vm, "NOERROR 10.0.1.99", "db.internal", "@10.0.1.12")
		s.reaches(1, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "answered", "reason", "chain")
		s.reaches(0, "coredns_ofpunt_packet_ins_total", "bridge", "br-int", "result", "dropped")
		s.log(`asked www\.example\.org\. port=red-vm1 switch=red bridge=br-int destination=10\.0\.1\.12:53 table=\[-?\]`)
		lintMetrics(t, s)
		s.endWell()
	})
}

// lintMetrics holds the metrics against the rules of promtool(1), check metrics,
// and against what the project promises of them.
func lintMetrics(t *testing.T, s *server) {
	var mine []*dto.MetricFamily
	for name, f := range s.families() {
		if strings.HasPrefix(name, "coredns_ofpunt_") || strings.HasPrefix(name, "coredns_ovnhosts_") {
			mine = append(mine, f)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(mine).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	// promlint asks for no more than some suffix, and says nothing of labels.
	var has []string
	databases := map[string]bool{}
	for _, f := range mine {
		name := f.GetName()
		has = append(has, name)
		if (f.GetType() == dto.MetricType_COUNTER) != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		if f.GetHelp() == "" {
			t.Errorf("%s has no HELP", name)
		}
		for _, m := range f.GetMetric() {
			labels := map[string]bool{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
				if l.GetName() == "database" {
					databases[l.GetValue()] = true
				}
				for _, secret := range []string{"db.internal", "www.example.org", "red-vm", "10.0.1."} {
					if strings.Contains(l.GetValue(), secret) {
						t.Errorf("%s: label %s=%q names a tenant or a query", name, l.GetName(), l.GetValue())
					}
				}
			}
			perQuery := labels["server"] && labels["view"] && !labels["bridge"] && !labels["database"]
			perProcess := labels["bridge"] != labels["database"] && !labels["server"] && !labels["view"]
			if !perQuery && !perProcess {
				t.Errorf("%s has the labels %v, want server and view, or bridge, or database", name, m.GetLabel())
			}
		}
	}
	if len(databases) != 1 {
		t.Errorf("the label database has several forms: %v", databases)
	}
	for _, want := range []string{
		"coredns_ofpunt_packet_ins_total",
		"coredns_ofpunt_answer_duration_seconds",
		"coredns_ofpunt_in_flight",
		"coredns_ofpunt_flows",
		"coredns_ofpunt_flow_installs_total",
		"coredns_ofpunt_connected",
		"coredns_ovnhosts_snapshot_timestamp_seconds",
		"coredns_ovnhosts_rows",
		"coredns_ovnhosts_snapshot_rebuild_seconds",
		"coredns_ovnhosts_database_up",
	} {
		if !slices.Contains(has, want) {
			t.Errorf("no metric %s among %q", want, has)
		}
	}
	if s.metric("coredns_ofpunt_flows") == 0 || s.metric("coredns_ovnhosts_rows", "kind", "ports") == 0 {
		t.Error("flows or ports are counted as none")
	}
}

// An interface that is not served is told of, with the reason, and so is each change
// of the number of guests.
func TestObserveGuests(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.50"}, "red")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()
	s := serve(t, l, pipelineCorefile("lease $LEASE", "", ""))
	s.reaches(1, "coredns_ofpunt_guests", "bridge", "br-int")
	id := l.Node.VSCTL("get", "Interface", vm.NodePort, "external_ids:iface-id")
	l.Node.VSCTL("set", "Interface", vm.NodePort, "external_ids:iface-id=mistyped")
	s.reaches(0, "coredns_ofpunt_guests", "bridge", "br-int")
	s.reaches(1, "coredns_ofpunt_interfaces_unserved", "bridge", "br-int")
	s.log(logGuests, "0", "1")
	s.log(logUnserved, vm.NodePort, "mistyped")
	l.Node.VSCTL("set", "Interface", vm.NodePort, "external_ids:iface-id="+strings.TrimSpace(id))
	s.reaches(0, "coredns_ofpunt_interfaces_unserved", "bridge", "br-int")
	s.log(logGuests, "1", "0")
	s.toldTimes(t, 1, logUnservedAny)
	s.endWell()
}
