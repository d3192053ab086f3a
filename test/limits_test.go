// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/tcp"
	"github.com/puntdns/puntdns/test/lab"
)

// byLimit is the text of a limit.
func byLimit(label, value string, properties ...string) string {
	return fmt.Sprintf("limit %s %s {\n    %s\n}\n", label, value, strings.Join(properties, "\n    "))
}

// metersAre waits until puntdns has these meters in the switch, as "RATE BURST".
func metersAre(t *testing.T, l *lab.Lab, what string, want ...string) {
	t.Helper()
	slices.Sort(want)
	l.Eventually("meters: "+what, func() error {
		got := standingMeters(l)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q\n%s", got, want, l.Node.OFCTL("dump-meters", lab.Bridge))
		}
		return nil
	})
}

// A guest with a limit of its own gets more through the switch than another one, and has more
// queries in its chain. Its limit follows the databases and the Corefile, without a lost query.
func TestLimits(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	other := aclGuest(n.l, "red", 0, 12)
	const project, projectLabel = "f1c6b2a0d5c84d0c9b6a1f2e3d4c5b6a", "ofpunt/external-id/neutron:project_id"
	ofVM, ofProject := "ofpunt/port="+n.vm.Port, projectLabel+"="+project
	own := func(port, project string) {
		n.l.NBCTL("--wait=sb", "set", "Logical_Switch_Port", port, `external_ids:"neutron:project_id"=`+project)
	}
	own(other.Port, "none")
	text := func(properties ...string) string {
		text := n.corefile("lease $LEASE\n"+strings.Join(properties, "\n"), "", 9153, 8181)
		// An upstream that takes its time is not asked once more, nor given up.
		forward := "forward . " + n.upstream.Addr
		return strings.Replace(text, forward, fmt.Sprintf("%s {\n        read_timeout %s\n    }", forward, 2*wait), 1)
	}
	s := start(t, n.l, text("rate 1 40", byLimit("ofpunt/port", n.vm.Port, "rate 1 70"), byLimit(projectLabel, project, "rate 1 60")))
	s.ready(200)
	metersAre(t, n.l, "one of its own, and one of all", "1 70", "1 40")
	n.l.Node.Revalidate()
	// As much at once, and one more for each second that it takes.
	for g, at := range map[*lab.Guest]int{n.vm: 70, other: 40} {
		if got := burst(t, g, 100); got < at-20 || got > at+10 {
			t.Errorf("%d of 100 queries of %s answered, want some %d\n%s", got, g.Name, at, n.l.Node.OFCTL("dump-meters", lab.Bridge))
		}
	}
	const refused = "coredns_ofpunt_limit_refused_total"
	n.l.Eventually("drops by the limit are counted", func() error {
		by, all := s.metric(refused, "limit", ofVM, "property", "rate"), s.metric("coredns_ofpunt_rate_drops_total")
		if by < 20 || by >= all {
			return fmt.Errorf("%v of %v", by, all)
		}
		return nil
	})
	if got := s.metric(refused); got != s.metric(refused, "limit", ofVM) {
		t.Errorf("%v refused by limits, %v of them by that of %s", got, s.metric(refused, "limit", ofVM), n.vm.Name)
	}

	reload := func(properties ...string) {
		t.Helper()
		s.reload(corefile(n.l, text(properties...)))
	}
	t.Run("queries in the chain", func(t *testing.T) {
		s.t = t
		reload("rate off\n max_concurrent 200 3", byLimit(projectLabel, project, "rate 25000 90", "max_concurrent 25 20"), byLimit("ofpunt/port", n.vm.Port, "max_concurrent 30"))
		for _, step := range []struct {
			name, ofVM, ofOther string
			vm, other           int
			meters              []string
		}{
			{"of the guest", "none", "none", 30, 3, nil},
			{"of the guest and the project", "none", project, 30, 20, []string{"25000 90"}},
			{"of a project with two guests", project, project, 20, 5, []string{"25000 90", "25000 90"}},
		} {
			own(n.vm.Port, step.ofVM)
			own(other.Port, step.ofOther)
			metersAre(t, n.l, step.name, step.meters...) // the databases have been read by then
			n.l.Node.Revalidate()
			if got, want := n.inChain(s, 40, n.vm, other), []int{step.vm, step.other}; !slices.Equal(got, want) {
				t.Errorf("%s: %d of 40 queries each are in the chain, want %d", step.name, got, want)
			}
		}
		for limit, want := range map[string]float64{ofVM: 10 + 10, ofProject: 20 + 20 + 35} {
			s.reaches(want, refused, "limit", limit, "property", "max_concurrent")
		}
	})

	// The guests ask all the while.
	s.t = t
	own(n.vm.Port, "none")
	own(other.Port, "none")
	byProject := byLimit(projectLabel, project, "rate 30000 80")
	for _, step := range []struct {
		name   string
		do     func()
		meters []string
	}{
		{"a reload to limits", func() { reload("rate 20000 60", byProject) }, []string{"20000 60", "20000 60"}},
		{"a port of the project", func() { own(n.vm.Port, project) }, []string{"20000 60", "30000 80"}},
		{"another port of the project", func() { own(other.Port, project) }, []string{"30000 80", "30000 80"}},
		{"no port of it", func() { own(n.vm.Port, "none"); own(other.Port, "none") }, []string{"20000 60", "20000 60"}},
		{"a reload to a limit without a rate", func() { reload("rate 20000 60", byLimit("ofpunt/port", n.vm.Port, "tcp_connections 9"), byProject) }, []string{"20000 60", "20000 60"}},
		{"a reload to no rate of the guest", func() { reload("rate 20000 60", byLimit("ofpunt/port", n.vm.Port, "rate off"), byProject) }, []string{"20000 60"}},
		{"a reload to a rate of the guest alone", func() { reload("rate off", byLimit("ofpunt/port", n.vm.Port, "rate 15000 50")) }, []string{"15000 50"}},
		{"a reload to none", func() { reload("rate off") }, nil},
		{"a reload to those of the network", func() {
			reload("rate off", byLimit("ofpunt/network", strings.TrimSpace(n.l.NBCTL("--bare", "--columns=_uuid", "list", "Logical_Switch", "red")), "rate 9000"))
		}, []string{"9000 64", "9000 64"}},
		{"a reload to that of an OpenFlow port", func() { reload("rate off", byLimit("ofpunt/in-port", fmt.Sprint(other.OFPort), "rate 8000")) }, []string{"8000 64"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			stop := n.load(t)
			step.do()
			metersAre(t, n.l, step.name, step.meters...)
			asked, wrong := stop()
			if len(wrong) > 0 || asked < 8 {
				t.Errorf("of %d queries: %v", asked, wrong)
			}
			expect(t, other, ofSurvivor, "db.internal", "@"+resolver4, "+time=5")
		})
	}
	s.t = t
	s.endWell()
}

// inChain has guests ask that many questions each, one guest after the other, of an upstream that
// answers none until all of them are in the chain or refused. It returns how many of each guest
// are in the chain. All are answered somehow, and none is in the chain any more.
func (n survivor) inChain(s *server, queries int, guests ...*lab.Guest) (admitted []int) {
	t := s.t
	t.Helper()
	const packetIns = "coredns_ofpunt_packet_ins_total"
	release := make(chan struct{})
	n.upstream.SetHandler(saysSlow(func(send func()) { <-release; send() }))
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	s.idle()
	refused := s.metric(packetIns, "result", "refused")
	conns := make([]net.Conn, len(guests))
	before := 0
	for i, g := range guests {
		conn, err := g.Dial(within(t, wait), "udp", net.JoinHostPort(resolver4, "53"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
		for j := range queries {
			q, err := new(dns.Msg).SetQuestion(fmt.Sprintf("chain%d-%d.example.", i, j), dns.TypeTXT).Pack()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(q); err != nil {
				t.Fatal(err)
			}
		}
		in := 0
		n.l.Eventually("all queries of "+g.Name+" admitted or refused", func() error {
			in = int(s.metric(inFlight))
			if out := int(s.metric(packetIns, "result", "refused") - refused); in+out != (i+1)*queries {
				return fmt.Errorf("%d in flight and %d refused of %d", in, out, (i+1)*queries)
			}
			return nil
		})
		admitted = append(admitted, in-before)
		before = in
	}
	let()
	for i, conn := range conns {
		_ = conn.SetDeadline(time.Now().Add(wait))
		answered, b := 0, make([]byte, 512)
		for range queries {
			k, err := conn.Read(b)
			if err != nil {
				t.Fatalf("%s: %v", guests[i].Name, err)
			}
			r := new(dns.Msg)
			if err := r.Unpack(b[:k]); err != nil {
				t.Fatal(err)
			}
			switch got := withTTL(r); got {
			case `NOERROR 0 "slow"`:
				answered++
			case "SERVFAIL": // refused, or in the chain for too long
			default:
				t.Errorf("%s: %s", guests[i].Name, got)
			}
		}
		if answered > admitted[i] {
			t.Errorf("%s: %d queries answered by the upstream, of %d in the chain", guests[i].Name, answered, admitted[i])
		}
	}
	s.idle()
	return admitted
}

// A guest has as many TCP connections as its limit says, and another one as many as before. With
// a lower limit those that are open stay.
func TestLimitOfConnections(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	other := aclGuest(n.l, "red", 0, 12)
	const most = tcp.MaxOfOwner + 5
	text := func(limit int) string {
		text := n.corefile("lease $LEASE\n"+byLimit("ofpunt/port", n.vm.Port, fmt.Sprintf("tcp_connections %d", limit)), "", 9153, 8181)
		return strings.Replace(text, "    errors\n", "    errors\n    timeouts {\n        read 60s\n        idle 60s\n    }\n", 1)
	}
	s := start(t, n.l, text(most))
	s.ready(200)
	asked := func(conns []*dns.Conn) {
		t.Helper()
		for i, c := range conns {
			_ = c.SetDeadline(time.Now().Add(wait))
			asks(t, c, uint16(i), "db.internal.", dns.TypeA)
			mustTell(t, c, uint16(i), "NOERROR 10.0.0.21")
		}
	}
	refused := func(g *lab.Guest) {
		t.Helper()
		conn, err := g.Dial(within(t, wait), "tcp", net.JoinHostPort(resolver4, "53"))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s, one more: %v", g.Name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	open := func(g *lab.Guest, count int) (conns []*dns.Conn) {
		t.Helper()
		for range count {
			conns = append(conns, dialTCP(t, g, 0))
		}
		asked(conns)
		return conns
	}
	const metric = "coredns_ofpunt_limit_refused_total"
	conns := open(n.vm, most)
	refused(n.vm)
	if got := s.metric(metric, "limit", "ofpunt/port="+n.vm.Port, "property", "tcp_connections"); got == 0 {
		t.Error("not counted")
	}
	before := s.metric(metric)
	open(other, tcp.MaxOfOwner)
	refused(other)
	if got := s.metric(metric); got != before {
		t.Errorf("%v refused by a limit that the guest has not", got-before)
	}

	reload := func(limit int) {
		t.Helper()
		s.reload(corefile(n.l, text(limit)))
	}
	reload(5)
	asked(conns)
	refused(n.vm)
	for _, c := range conns[4:] {
		c.Close()
	}
	s.connections(4 + tcp.MaxOfOwner)
	conns = append(conns[:4], open(n.vm, 1)...)
	refused(n.vm)
	reload(7)
	conns = append(conns, open(n.vm, 2)...)
	asked(conns)
	refused(n.vm)
}

// Without OVN's databases a limit is by the local Interface, whose external_ids are followed at
// once, and not by the next beat only.
func TestLimitsOfInterfaces(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
	red, blue := plainGuest(l, "red-vm", "net-a", 11, 1), plainGuest(l, "blue-vm", "net-b", 12, 2)
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement neutron
        lease 1h
        rate 1 40
        limit ofpunt/external-id/role mail {
            rate 1 70
        }
        limit ofpunt/switch net-b {
            rate 1 60
        }
    }
    hosts {
        10.0.0.21 db.internal
    }
    errors
    prometheus `+metricsAddr+`
    ready `+readyAddr+` {
        monitor continuously
    }
}
`)
	metersAre(t, l, "by the network", "1 40", "1 60")
	for _, step := range []struct {
		guest  *lab.Guest
		ids    string
		meters []string
	}{
		{red, "external_ids:role=mail", []string{"1 70", "1 60"}},
		{blue, "external_ids:role=mail", []string{"1 70", "1 70"}},
		{red, "external_ids:role=web", []string{"1 40", "1 70"}},
	} {
		l.Node.VSCTL("set", "Interface", step.guest.NodePort, step.ids)
		metersAre(t, l, step.guest.Name+" has "+step.ids, step.meters...)
	}
	s.endWell()
}
