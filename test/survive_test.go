// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

const surviveCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        control $CONTROL.METRICS
        PROPERTIES
    }
    ovnhosts {
        southbound $SB
        OVNHOSTS
        fallthrough
    }
    forward . UPSTREAM
    prometheus 127.0.0.1:METRICS
    ready 127.0.0.1:READY {
        monitor continuously
    }
    errors
}
`

// ofSurvivor is what puntdns answers for db.internal. OVN's own DNS has the same
// address for it, with another TTL.
const (
	ofSurvivor = "NOERROR 30 10.0.0.21"
	ofNative   = "NOERROR 3600 10.0.0.21"
)

// survivor is a network with one guest, and a slow upstream.
type survivor struct {
	l        *lab.Lab
	vm       *lab.Guest
	upstream *lab.DNSServer
}

func newSurvivor(t *testing.T) survivor {
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 0)
	l.AddDNS(map[string]string{"db.internal": "10.0.0.21"}, "red")
	n := survivor{l: l, vm: aclGuest(l, "red", 0, 11), upstream: l.Upstream()}
	n.upstream.SetHandler(saysSlow(func(send func()) { time.AfterFunc(200*time.Millisecond, send) }))
	return n
}

// saysSlow has an upstream answer each question when later calls send, which may be after later
// has returned.
func saysSlow(later func(send func())) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		m.Answer = append(m.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 0}, Txt: []string{"slow"},
		})
		later(func() { _ = w.WriteMsg(m) })
	})
}

func (n survivor) corefile(properties, ovnhosts string, metrics, ready int) string {
	return strings.NewReplacer("PROPERTIES", unlimited(properties), "OVNHOSTS", ovnhosts, "UPSTREAM", n.upstream.Addr,
		"METRICS", fmt.Sprint(metrics), "READY", fmt.Sprint(ready)).Replace(surviveCorefile)
}

// load has the guest ask for a name of its network, and for one that takes the upstream its time.
func (n survivor) load(t *testing.T) (stop func() (asked int, other map[string]int)) {
	var all []standing
	for i := range 4 {
		resolver := resolvers[i%2]
		all = append(all,
			standing{n.vm, resolver, "db.internal.", dns.TypeA, ofSurvivor},
			standing{n.vm, resolver, fmt.Sprintf("slow%d.example.", i), dns.TypeTXT, `NOERROR 0 "slow"`})
	}
	return keepAsking(t, wait, all...)
}

// undisturbed checks that nobody has taken or changed a flow of a process. It looks
// after a beat, by which the process has heard of all that was done before.
func (s *server) undisturbed(t *testing.T) {
	t.Helper()
	const beats = "coredns_ofpunt_probe_duration_seconds"
	before := s.metric(beats)
	s.l.Eventually("a beat", func() error {
		if s.metric(beats) == before {
			return errors.New("none yet")
		}
		return nil
	})
	if m := s.mendings(); m.lost != 0 || len(m.told) > 0 {
		t.Errorf("%s has lost %v flows to somebody else:\n%s", s.Name, m.lost, s.Log())
	}
}

// well waits until the status of the process is well: it has the flows.
func (s *server) well() {
	s.t.Helper()
	s.operator().eventually()
}

// yields waits until the process knows that another process has the flows.
func (s *server) yields() {
	s.t.Helper()
	s.operator().eventually(api.CodeOtherProcess)
}

// Two processes on one bridge hand over: the later one takes the flows, the
// earlier one yields and goes without taking anything with it, or takes them back
// when the later one has gone.
func TestHandOver(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	first := launch(t, n.l, n.l.Node, "first", n.corefile("lease $LONGLEASE", "", 9153, 8181))
	first.ready(200)
	// controllerID is that of the punt: never OVN's, and another for each process.
	controllerID := func() string {
		flows := n.l.Node.OFCTL("dump-flows", lab.Bridge, "table=202,cookie=0x70646e0000000000/0xffffff0000000000")
		_, rest, found := strings.Cut(flows, "controller(id=")
		id, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(id); !found || err != nil || n < 1024 {
			t.Errorf("controller id %q, want one from 1024 on, in\n%s", id, flows)
		}
		return id
	}
	cookie := func() string {
		flows := n.l.Node.OFCTL("dump-flows", lab.Bridge, "table=200")
		for _, f := range strings.Split(flows, "\n") {
			if strings.Contains(f, "priority=10,") || strings.Contains(f, "priority=10 ") {
				_, rest, _ := strings.Cut(f, "cookie=")
				c, _, _ := strings.Cut(rest, ",")
				return c
			}
		}
		return "none"
	}
	installs := func() float64 {
		return first.metric("coredns_ofpunt_flow_installs_total", "bridge", lab.Bridge, "reason", "lost") +
			first.metric("coredns_ofpunt_flow_installs_total", "bridge", lab.Bridge, "reason", "new")
	}

	// It takes over, and gives back.
	ofFirst, idOfFirst := cookie(), controllerID()
	second := launch(t, n.l, n.l.Node, "second", n.corefile("lease $LONGLEASE", "", 9154, 8182))
	second.metricsAt = "127.0.0.1:9154"
	second.serves()
	first.yields()
	ofSecond := cookie()
	if ofSecond == ofFirst {
		t.Errorf("the punt has the cookie of the first still: %s", ofSecond)
	}
	if id := controllerID(); id == idOfFirst {
		t.Errorf("both processes have controller id %s", id)
	}
	quiet := installs()
	for range 20 {
		expect(t, n.vm, ofSurvivor, "db.internal", "@169.254.169.254", "+time=5")
	}
	if got := installs(); got != quiet {
		t.Errorf("the first went on installing: %v, then %v", quiet, got)
	}
	second.undisturbed(t)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	first.well()
	n.l.Eventually("the first has its flows again", func() error {
		// It came later than the second, by its cookie.
		if c, id := cookie(), controllerID(); len(c) != len(ofSecond) || c <= ofSecond || id != idOfFirst {
			return fmt.Errorf("the punt has cookie %s and controller id %s, want one above %s and %s", c, id, ofSecond, idOfFirst)
		}
		return nil
	})

	// An upgrade: the next comes before this one goes, and no query is lost.
	stop := n.load(t)
	third := launch(t, n.l, n.l.Node, "third", n.corefile("lease $LONGLEASE", "", 9155, 8183))
	third.metricsAt = "127.0.0.1:9155"
	third.serves()
	first.yields()
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	third.undisturbed(t)
	if asked, wrong := stop(); len(wrong) > 0 {
		t.Errorf("of %d queries: %v", asked, wrong)
	}
	first.toldTimes(t, 0, logProbeMissed) // it went on probing
}

// Processes that are stopped at any time do not put back what another has done: one has
// the flows, and the other one yields.
func TestHandOverStopped(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	first := launch(t, n.l, n.l.Node, "first", n.corefile("lease $LEASE", "", 9153, 8181))
	first.ready(200)
	signal := func(s *server, sig syscall.Signal) {
		t.Helper()
		if err := s.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	answered := func() {
		t.Helper()
		expectSoon(t, n.l, n.vm, ofSurvivor, "db.internal", "@"+resolver4)
	}
	// beats waits until one has looked at its flows several times.
	beats := func(s *server) {
		t.Helper()
		s.undisturbed(t)
		s.undisturbed(t)
	}

	// It learns late that another has taken over.
	before := first.mendings()
	signal(first, syscall.SIGSTOP)
	second := launch(t, n.l, n.l.Node, "second", n.corefile("lease $LEASE", "", 9154, 8182))
	second.metricsAt = "127.0.0.1:9154"
	second.serves()
	signal(first, syscall.SIGCONT)
	first.yields()
	beats(second)
	first.mended(t, before, 0, 0)

	// Somebody deletes all flows: whose they were puts them back.
	ofFirst, ofSecond := first.mendings(), second.mendings()
	n.l.Node.OFCTL("del-flows", lab.Bridge, ourCookie)
	second.mended(t, ofSecond, privateFlows+guestFlows, privateFlows+guestFlows)
	answered()
	first.mended(t, ofFirst, 0, 0)

	// The punt of the second expires. The first waits whether it comes back, takes over,
	// and keeps what it has when the second is back.
	ofFirst, ofSecond = first.mendings(), second.mendings()
	signal(second, syscall.SIGSTOP)
	first.well()
	first.mended(t, ofFirst, privateFlows+guestFlows, 0)
	answered()
	signal(second, syscall.SIGCONT)
	second.yields()
	beats(first)
	answered()
	first.mended(t, ofFirst, privateFlows+guestFlows, 0)
	second.mended(t, ofSecond, 0, 0)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	answered()
	first.mended(t, ofFirst, privateFlows+guestFlows, 0)
}

// What somebody else does to our flows is undone.
func TestFlowsAreMended(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	s := start(t, n.l, n.corefile(rareBeats, "", 9153, 8181))
	s.ready(200)
	const cookies = "cookie=0x70646e0000000000/0xffffff0000000000"
	const entry, private = guestFlows, privateFlows
	ofEntry := fmt.Sprintf("%s,table=%d", cookies, n.l.Node.Stage(lab.DNSStage)-1)
	dump := func() []string {
		return flowLines(n.l.Node.OFCTL("--no-stats", "--no-names", "dump-flows", lab.Bridge, cookies))
	}
	ours := dump()
	if len(ours) != entry+private {
		t.Fatalf("%d flows, want %d:\n%s", len(ours), entry+private, strings.Join(ours, "\n"))
	}
	// mended waits until the flows are as they were: a query may be answered by what the
	// switch has cached of them.
	mended := func(t *testing.T) {
		t.Helper()
		n.l.Eventually("the flows are as before", func() error {
			if got := dump(); !slices.Equal(got, ours) {
				return fmt.Errorf("our flows were\n%s\nand are\n%s", strings.Join(ours, "\n"), strings.Join(got, "\n"))
			}
			return nil
		})
	}
	for _, harm := range []struct {
		name string
		args []string
		lost int
	}{
		{"entry flows modified", []string{"mod-flows", lab.Bridge, ofEntry + ",actions=drop"}, entry},
		{"leased flow modified", []string{"--strict", "mod-flows", lab.Bridge, "table=200,priority=10,actions=drop"}, 1},
		{"private table wiped", []string{"del-flows", lab.Bridge, "table=200"}, 3},
		{"punt wiped", []string{"del-flows", lab.Bridge, "table=202"}, 1},
		{"entry flows deleted", []string{"del-flows", lab.Bridge, ofEntry}, entry},
		{"leased flow overwritten", []string{"add-flow", lab.Bridge, "table=200,priority=10,actions=drop"}, 1},
		{"leased flow overwritten with another cookie of ours", []string{"add-flow", lab.Bridge, "cookie=0x70646e0000000001,table=200,priority=10,actions=drop"}, 1},
		{"all of ours deleted", []string{"del-flows", lab.Bridge, cookies}, entry + private},
	} {
		t.Run(harm.name, func(t *testing.T) {
			before := s.mendings()
			n.l.Node.OFCTL(harm.args...)
			mended(t)
			n.l.Eventually("served again", func() error {
				if got := isTold(n.vm, resolver4, "db.internal."); got != ofSurvivor {
					return fmt.Errorf("%s\n%s", got, n.l.Node.OFCTL("dump-flows", lab.Bridge, cookies))
				}
				return nil
			})
			s.mended(t, before, harm.lost, harm.lost)
		})
	}
	// OVN does not watch over its own flows, so no guest is served after that, and nobody is told
	// otherwise, until ovn-controller begins anew.
	t.Run("all flows of the bridge deleted", func(t *testing.T) {
		before := s.mendings()
		n.l.Node.OFCTL("del-flows", lab.Bridge)
		s.reaches(0, "coredns_ofpunt_ready", "bridge", lab.Bridge)
		n.l.Node.Restart("ovn-controller")
		s.reaches(1, "coredns_ofpunt_ready", "bridge", lab.Bridge)
		mended(t)
		s.mended(t, before, entry+private, entry+private)
	})
	s.endWell()
}

// Guests that fill the limits with queries to a dead upstream do not end the lease,
// even where nothing leaves the chains from one beat to the next; nor, where there is
// room, another guest's answers.
func TestFullIsNotStuck(t *testing.T) {
	for _, tc := range []struct {
		name, limits, reason string
		other                []string // what another guest of the network may be told
	}{
		{"a guest's limit", "16 4", "port-limit", []string{ofSurvivor}},
		// OVN's own DNS says it with another TTL.
		{"a network's share", "4 4", "overload", []string{"SERVFAIL", ofSurvivor}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			testFullIsNotStuck(t, tc.limits, tc.reason, tc.other)
		})
	}
}

func testFullIsNotStuck(t *testing.T, limits, reason string, want []string) {
	n := newSurvivor(t)
	other := aclGuest(n.l, "red", 0, 12)
	n.upstream.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
	// Beats every 3 s: nothing leaves the chains from one to the next, as forward gives up after 4 s and more.
	lease := lab.Scaled(9 * time.Second)
	s := start(t, n.l, n.corefile(fmt.Sprintf("lease %.fs\n max_concurrent %s", lease.Seconds(), limits), "", 9153, 8181))
	s.ready(200)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				one, end := context.WithTimeout(context.Background(), 300*time.Millisecond)
				_, _ = exchange(one, n.vm, resolver4, fmt.Sprintf("dead%d.example.", i), dns.TypeA)
				end()
				time.Sleep(10 * pause)
			}
		})
	}
	n.l.Eventually("the limit", func() error {
		if s.punted("refused", reason) == 0 {
			return errors.New("not reached")
		}
		return nil
	})
	asked := 0
	for end := time.Now().Add(4 * lease); time.Now().Before(end); asked++ {
		time.Sleep(pause)
		r, err := exchange(within(t, wait), other, resolver4, "db.internal.", dns.TypeA)
		if err != nil {
			t.Fatalf("the other guest: %v", err)
		}
		got := withTTL(r)
		if !slices.Contains(want, got) {
			t.Errorf("the other guest: %s", got)
			break
		}
	}
	cancel()
	wg.Wait()
	s.toldTimes(t, 0, logProbeMissed)
	s.toldTimes(t, 0, logLeaseExpired)
	t.Logf("the other guest has asked %d times", asked)
}
