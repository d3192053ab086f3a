// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// reloaded is a network with guests who ask without a pause, for names of the
// network, names that a cache may have, and names for which the upstream takes its
// time.
type reloaded struct {
	l        *lab.Lab
	upstream *lab.DNSServer
	quick    []*questioner
	slow     []*questioner
	// link is another way to the switch.
	link string
	vm   *lab.Guest // one of them
}

// slowUpstream is how long the upstream takes for names under slow.example.
const slowUpstream = 200 * time.Millisecond

func newReloaded(t *testing.T) *reloaded {
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 0)
	l.AddDNS(map[string]string{"db.internal": "10.0.0.21"}, "red")
	n := &reloaded{l: l, upstream: l.Upstream()}
	for i := range 3 {
		g := aclGuest(l, "red", 0, 11+i)
		n.vm = g
		for _, resolver := range resolvers {
			n.slow = append(n.slow, questions(t, g, resolver))
			for range 2 {
				n.quick = append(n.quick, questions(t, g, resolver))
			}
		}
	}
	n.upstream.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{"up"},
		})
		if strings.HasSuffix(r.Question[0].Name, ".slow.example.") {
			time.AfterFunc(slowUpstream, func() { _ = w.WriteMsg(m) })
			return
		}
		_ = w.WriteMsg(m)
	}))
	n.link = filepath.Join(l.Dir, "link.mgmt")
	if err := os.Symlink(strings.TrimPrefix(l.Node.OpenFlow, "unix:"), n.link); err != nil {
		t.Fatal(err)
	}
	l.Sync()
	return n
}

// ask sends the query number i.
func (n *reloaded) ask(i int) error {
	const up = `NOERROR "up"`
	if i%5 == 0 {
		q := n.slow[i/5%len(n.slow)]
		return q.ask(fmt.Sprintf("n%d.slow.example.", i), dns.TypeTXT, up)
	}
	q := n.quick[i%len(n.quick)]
	// The queue of the switch has room for all that are on the way.
	if !q.below(window/len(n.quick), wait) {
		return fmt.Errorf("no answer in %s", wait)
	}
	if i%5 == 1 {
		return q.ask(fmt.Sprintf("n%d.quick.example.", i/5%20), dns.TypeTXT, up)
	}
	return q.ask("db.internal.", dns.TypeA, ofSurvivor)
}

// load asks that many times a second until stop is called, which returns what
// became of all of it, and how many a second it has been.
func (n *reloaded) load(t *testing.T, perSecond int) (stop func() (all findings, rate float64)) {
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	began := time.Now()
	go func() { failed <- pace(ctx, perSecond, n.ask) }()
	return func() (all findings, rate float64) {
		cancel()
		if err := <-failed; err != nil {
			t.Error(err)
		}
		took := time.Since(began)
		end := time.Now().Add(wait)
		for _, q := range append(n.quick, n.slow...) {
			all.add(q.finish(time.Until(end)))
		}
		rate = float64(all.asked) / took.Seconds()
		t.Logf("%.0f queries/s: %s", rate, all)
		return all, rate
	}
}

const reloadedCorefile = `. {
    ofpunt br-int {
        openflow OPENFLOW
        ovsdb $OVSDB
        PROPERTIES
    }
    RELOAD
    ovnhosts {
        southbound $SB
        OVNHOSTS
        fallthrough
    }
    cache CACHE
    forward . UPSTREAM
    prometheus 127.0.0.1:9153
    ready 127.0.0.1:8181 {
        monitor continuously
    }
    errors
}
`

// reload is what stands in a Corefile, and what shows that it is in force.
type reload struct {
	name, openflow, properties, ovnhosts, cache string
	// flow is a part of one of the flows, or with a "!" in front of none.
	flow   string
	meters int
}

func (n *reloaded) corefile(r reload, plugin string) string {
	if r.cache == "" {
		r.cache = "30"
	}
	if r.openflow == "" {
		r.openflow = n.l.Node.OpenFlow
	}
	return corefile(n.l, strings.NewReplacer("OPENFLOW", r.openflow, "PROPERTIES", unlimited(r.properties), "RELOAD", plugin, "OVNHOSTS", r.ovnhosts,
		"CACHE", r.cache, "UPSTREAM", n.upstream.Addr).Replace(reloadedCorefile))
}

// inForce waits until the flows are as r says.
func (n *reloaded) inForce(r reload) {
	flow, absent := strings.CutPrefix(r.flow, "!")
	n.l.Eventually(r.name, func() error {
		flows := n.l.Node.OFCTL("--no-names", "dump-flows", lab.Bridge, ourCookie)
		if strings.Contains(flows, flow) == absent {
			return fmt.Errorf("want %s:\n%s", r.flow, flows)
		}
		if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "meter=") != r.meters {
			return fmt.Errorf("want %d meters:\n%s", r.meters, m)
		}
		return nil
	})
}

// change writes a Corefile, tells the process, and waits until the log says that it
// is done with it.
func (n *reloaded) change(s *server, text, done string, tell func() error) {
	s.t.Helper()
	s.alive()
	before := strings.Count(s.Log(), done)
	n.l.WriteFile("Corefile.puntdns", text)
	if err := tell(); err != nil {
		s.t.Fatal(err)
	}
	n.l.Eventually(done, func() error {
		s.alive()
		if strings.Count(s.Log(), done) == before {
			return fmt.Errorf("not reloaded:\n%s", s.Log())
		}
		return nil
	})
}

// A reload takes nothing away and gives nothing twice, whatever it changes: the way
// to the switch, the flows, the databases, limits. A Corefile that is wrong changes
// nothing.
func TestReloadUnderLoad(t *testing.T) {
	n := newReloaded(t)
	// What a process with the race detector does on two processors; if they are
	// busy it is less.
	const perSecond = 5000
	changes := []reload{
		{name: "lease", properties: "lease 30s", flow: "hard_timeout=30"},
		{name: "limits", properties: "max_concurrent 2000 600", flow: "hard_timeout=15"},
		{name: "controller id", properties: "controller_id 77", flow: "controller(id=77,"},
		{name: "another controller id", properties: "controller_id 78", flow: "controller(id=78,"},
		{name: "no controller id", flow: "!controller(id=78,"},
		{name: "another way to the switch", openflow: "unix:" + n.link},
		{name: "and back"},
		{name: "another address", properties: "address 169.254.169.254 fd00::254 10.0.0.53", flow: "nw_dst=10.0.0.53"},
		{name: "no ARP", properties: "arp off", flow: "!arp_tpa"},
		{name: "ARP", flow: "arp_tpa=169.254.169.254"},
		{name: "rate", properties: "rate 100000 1000", meters: 3},
		{name: "another rate", properties: "rate 200000 1000", meters: 3},
		{name: "no rate", properties: "rate off"},
		{name: "two databases", ovnhosts: "northbound $NB"},
		{name: "cache", cache: "60"},
		{name: "a switch that calls", openflow: "ptcp:6655:127.0.0.1"},
		{name: "a socket again"},
	}
	// One of that type takes no flows along as it comes.
	n.l.Node.VSCTL("--", "--id=@c", "create", "Controller", `target="tcp:127.0.0.1:6655"`, "type=service",
		"connection_mode=out-of-band", "max_backoff=1000", "--", "add", "Bridge", lab.Bridge, "controller", "@c")
	s := start(t, n.l, n.corefile(reload{}, ""))
	s.ready(200)
	stop := n.load(t, perSecond)
	overflowed := overflows(t, n.l.Node)
	for _, by := range []struct {
		name, plugin string
		changes      []reload
		tell         func() error
	}{
		{"signal", "", changes, func() error { return s.Signal(syscall.SIGUSR1) }},
		// It looks at the file every 2 or 3 s.
		{"file", "reload 2s 1s", []reload{changes[0], changes[3], changes[5], changes[7], changes[10], changes[15]}, func() error { return nil }},
	} {
		t.Run(by.name, func(t *testing.T) {
			s.t = t
			change := func(text, done string, tell func() error) {
				t.Helper()
				n.change(s, text, done, tell)
			}
			if by.plugin != "" {
				change(n.corefile(reload{}, by.plugin), "Reloading complete", func() error { return s.Signal(syscall.SIGUSR1) })
			}
			for _, r := range by.changes {
				change(n.corefile(r, by.plugin), "Reloading complete", by.tell)
				s.ready(200)
				n.inForce(r)
			}
			right := n.corefile(reload{}, by.plugin)
			for _, wrong := range []struct{ name, text, says string }{
				{"a property", n.corefile(reload{properties: "lease soon"}, by.plugin), `Corefile.puntdns:5 - Error during parsing: lease: "soon": expected`},
				{"databases that are not there", strings.ReplaceAll(right, n.l.SB, "unix:/no/such.sock"), "have not told everything within"},
				{"a switch that is not there", strings.ReplaceAll(right, n.l.Node.OpenFlow, "unix:/no/such.mgmt"), "ofpunt br-int: openflow: unix:/no/such.mgmt: "},
				{"a local database that is not there", strings.ReplaceAll(right, n.l.Node.OVSDB, "unix:/no/such.sock"), "ofpunt br-int: ovsdb: unix:/no/such.sock: "},
				{"nothing", "# to be written\n", "no server block"},
			} {
				if by.plugin != "" && wrong.name == "nothing" {
					continue // the plugin does not say that it could not read the file
				}
				before := standingFlows(n.l)
				change(wrong.text, wrong.says, by.tell)
				s.ready(200)
				if after := standingFlows(n.l); !maps.EqualFunc(before, after, func(a, b standingFlow) bool {
					return a.cookie == b.cookie && a.duration <= b.duration
				}) {
					t.Errorf("a Corefile that is wrong (%s) has changed the flows from\n%v\nto\n%v", wrong.name, before, after)
				}
			}
			// It is in the way of nothing that comes after it.
			change(n.corefile(reload{cache: "45"}, by.plugin), "Reloading complete", by.tell)
			s.ready(200)
		})
	}
	s.t = t
	all, rate := stop()
	all.clean(t, "all")
	if all.lost > 0 {
		t.Logf("the switch has dropped %d packet-ins", overflows(t, n.l.Node)-overflowed)
	}
	// A fraction, for a machine that has other things to do.
	if rate < perSecond/20 {
		t.Errorf("%.0f queries/s are no load, %d are wanted", rate, perSecond)
	}
	s.endWell()
}

// When the connection changes there are two for a moment, with queries on both.
func TestReloadBesideFlood(t *testing.T) {
	n := newReloaded(t)
	s := start(t, n.l, n.corefile(reload{}, ""))
	s.ready(200)
	var flooding sync.WaitGroup
	for id := range 10 {
		flooding.Go(func() {
			if _, err := flood(n.vm, 200_000, time.Second); err != nil {
				t.Error(err)
			}
		})
		r := reload{name: "controller id", properties: fmt.Sprintf("controller_id %d", 70+id%2), flow: fmt.Sprintf("controller(id=%d,", 70+id%2)}
		n.change(s, n.corefile(r, ""), "Reloading complete", func() error { return s.Signal(syscall.SIGUSR1) })
		n.inForce(r)
		flooding.Wait()
	}
	s.ready(200)
	if got := briefly(n.vm.Dig("db.internal", "@"+resolver4, "+time=5")); got != ofSurvivor {
		t.Errorf("after all: %s", got)
	}
	s.endWell()
}
