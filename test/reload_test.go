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

	"github.com/puntdns/puntdns/internal/precheck"
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
	// asked counts the queries of loads that have ended.
	asked int
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
// became of all queries so far, and how many a second it has been.
func (n *reloaded) load(t *testing.T, perSecond int) (stop func() (all findings, rate float64)) {
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	began, before := time.Now(), n.asked
	go func() { failed <- pace(ctx, perSecond, func(i int) error { return n.ask(before + i) }) }()
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
		n.asked = all.asked
		rate = float64(all.asked-before) / took.Seconds()
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
	s.logsAfter(func() {
		n.l.WriteFile(filepath.Base(s.path), text)
		if err := tell(); err != nil {
			s.t.Fatal(err)
		}
	}, "%s", done)
}

// changes are of the way to the switch, the flows, the databases, the limits.
func (n *reloaded) changes() []reload {
	return []reload{
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
}

// wrongCorefile is refused: its text, and what the log says of it.
type wrongCorefile struct{ name, text, says string }

func (n *reloaded) wrong(plugin string) []wrongCorefile {
	right := n.corefile(reload{}, plugin)
	all := []wrongCorefile{
		{"a property", n.corefile(reload{properties: "lease soon"}, plugin), `Corefile.puntdns:5 - Error during parsing: lease: "soon": expected`},
		{"databases that are not there", strings.ReplaceAll(right, n.l.SB, "unix:/no/such.sock"), "have not sent everything within"},
		{"a switch that is not there", strings.ReplaceAll(right, n.l.Node.OpenFlow, "unix:/no/such.mgmt"), "ofpunt br-int: openflow: unix:/no/such.mgmt: "},
		{"a local database that is not there", strings.ReplaceAll(right, n.l.Node.OVSDB, "unix:/no/such.sock"), "ofpunt br-int: ovsdb: unix:/no/such.sock: "},
	}
	if plugin == "" {
		// *reload* does not say that it could not read a file.
		all = append(all, wrongCorefile{"nothing", "# to be written\n", precheck.ErrNoBlock.Error()})
	}
	return all
}

// A reload takes nothing away and gives nothing twice, whatever it changes. A Corefile
// that is wrong changes nothing.
func TestReloadBySignalUnderLoad(t *testing.T) {
	t.Parallel()
	n := newReloaded(t)
	testReloadUnderLoad(t, n, "", n.changes())
}

// So it is where *reload* looks at the file, every 2 or 3 s.
func TestReloadByFileUnderLoad(t *testing.T) {
	t.Parallel()
	n := newReloaded(t)
	all := n.changes()
	testReloadUnderLoad(t, n, "reload 2s 1s", []reload{all[0], all[3], all[5], all[7], all[10], all[15]})
}

func testReloadUnderLoad(t *testing.T, n *reloaded, plugin string, changes []reload) {
	// One of that type takes no flows along as it comes.
	n.l.Node.VSCTL("--", "--id=@c", "create", "Controller", `target="tcp:127.0.0.1:6655"`, "type=service",
		"connection_mode=out-of-band", "max_backoff=1000", "--", "add", "Bridge", lab.Bridge, "controller", "@c")
	s := start(t, n.l, n.corefile(reload{}, plugin))
	s.ready(200)
	tell := func() error { return s.Signal(syscall.SIGUSR1) }
	if plugin != "" {
		tell = func() error { return nil }
	}
	n.nothingLost(t, 2000, func() {
		for _, r := range changes {
			n.change(s, n.corefile(r, plugin), logReload, tell)
			s.ready(200)
			n.inForce(r)
		}
	})
	// It takes 10 s to see that nobody is there.
	n.nothingLost(t, 500, func() {
		for _, w := range n.wrong(plugin) {
			before := standingFlows(n.l)
			n.change(s, w.text, w.says, tell)
			s.ready(200)
			if after := standingFlows(n.l); !maps.EqualFunc(before, after, func(a, b standingFlow) bool {
				return a.cookie == b.cookie && a.duration <= b.duration
			}) {
				t.Errorf("a Corefile that is wrong (%s) has changed the flows from\n%v\nto\n%v", w.name, before, after)
			}
		}
		// It is in the way of nothing that comes after it.
		n.change(s, n.corefile(reload{cache: "45"}, plugin), logReload, tell)
		s.ready(200)
	})
	s.endWell()
}

// nothingLost asks that many times a second while f runs: each query gets its one
// answer, but those that the switch has dropped since its queue was full.
func (n *reloaded) nothingLost(t *testing.T, perSecond int, f func()) {
	t.Helper()
	stop := n.load(t, perSecond)
	f()
	all, rate := stop()
	dropped := min(all.lost, overflows(t, n.l.Node))
	all.lost -= dropped
	t.Logf("the switch has dropped %d packet-ins", dropped)
	all.clean(t, "all")
	// A fraction, for a machine that has other things to do.
	if rate < float64(perSecond)/20 {
		t.Errorf("%.0f queries/s are no load, %d are wanted", rate, perSecond)
	}
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
		s.reload(n.corefile(r, ""))
		n.inForce(r)
		flooding.Wait()
	}
	s.ready(200)
	expect(t, n.vm, ofSurvivor, "db.internal", "@"+resolver4, "+time=5")
	s.endWell()
}
