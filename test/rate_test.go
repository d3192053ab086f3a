// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// silence is how long no answer comes after the last one.
var silence = lab.Scaled(5 * time.Second)

// burst sends n queries at once and returns how many puntdns answers before there
// is silence. Nobody else may answer one.
func burst(t *testing.T, g *lab.Guest, n int) (answers int) {
	t.Helper()
	return burstTo(t, g, resolver4, n)
}

func burstTo(t *testing.T, g *lab.Guest, resolver string, n int) (answers int) {
	t.Helper()
	conn, err := g.Dial(within(t, wait), "udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q, err := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := conn.Write(q); err != nil {
			t.Fatal(err)
		}
	}
	others := map[string]int{}
	for b := make([]byte, 512); ; {
		if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			t.Fatal(err)
		}
		k, err := conn.Read(b)
		if err != nil {
			if len(others) > 0 {
				t.Errorf("of a burst, how many answers were others than %s: %v", ofSurvivor, others)
			}
			return answers
		}
		r := new(dns.Msg)
		if err := r.Unpack(b[:k]); err != nil {
			t.Fatal(err)
		}
		if got := withTTL(r); got == ofSurvivor {
			answers++
		} else {
			others[got]++
		}
	}
}

// A guest may ask so much and no more: the switch drops what is above, whatever
// is done to its meters, and what one guest asks is none of another's.
func TestRate(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	other := aclGuest(n.l, "red", 0, 12)
	text := n.corefile("lease $LEASE\n rate 1 40", "", 9153, 8181)
	s := start(t, n.l, text)
	s.ready(200)

	// 40 at once, and one more for each second that it takes.
	limited := func(t *testing.T, most int) {
		t.Helper()
		n.l.Node.Revalidate()
		if got := burst(t, n.vm, 90); got < 20 || got > most {
			t.Errorf("%d of 90 queries answered, want from 20 to %d\n%s", got, most, n.l.Node.OFCTL("dump-meters", lab.Bridge))
		}
		expect(t, other, ofSurvivor, "db.internal", "@169.254.169.254", "+time=5")
	}
	meters := func(want int) {
		t.Helper()
		n.l.Eventually("meters", func() error {
			if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "meter=") != want {
				return fmt.Errorf("want %d meters:\n%s", want, m)
			}
			return nil
		})
	}
	limited(t, 50)
	n.l.Eventually("drops are counted", func() error {
		if v := s.metric("coredns_ofpunt_rate_drops_total", "bridge", lab.Bridge); v < 40 {
			return fmt.Errorf("%v", v)
		}
		return nil
	})

	for _, harm := range []struct {
		name string
		do   func()
	}{
		{"all meters deleted", func() { n.l.Node.OFCTL("del-meters", lab.Bridge) }},
		{"ovn-controller restarted", func() {
			n.l.Node.Restart("ovn-controller")
			n.l.Sync()
		}},
		{"ovs-vswitchd restarted", func() {
			n.l.Node.Restart("ovs-vswitchd")
			n.l.Sync()
		}},
	} {
		t.Run(harm.name, func(t *testing.T) {
			harm.do()
			meters(2)
			expectSoon(t, n.l, other, ofSurvivor, "db.internal", "@169.254.169.254")
			limited(t, 50)
		})
	}

	reload := func(t *testing.T, properties string) {
		s.rewrite(t, corefile(n.l, n.corefile(properties, "", 9153, 8181)))
	}
	t.Run("hijack mode", func(t *testing.T) {
		reload(t, "lease $LEASE\n rate 1 45\n address any") // a bucket that is full
		n.l.Eventually("the flows of hijack mode", func() error {
			if f := n.l.Node.OFCTL("dump-flows", lab.Bridge, ourCookie); strings.Contains(f, "nw_dst=169.254.169.254") {
				return fmt.Errorf("%s", f)
			}
			return nil
		})
		limited(t, 50)
	})
	t.Run("another rate", func(t *testing.T) {
		reload(t, "lease $LEASE\n rate 1 60")
		n.l.Eventually("the meters are changed", func() error {
			if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "rate=1 burst_size=60") != 2 {
				return fmt.Errorf("%s", m)
			}
			return nil
		})
	})
	t.Run("a crash leaves none behind", func(t *testing.T) {
		if err := s.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = s.Stop()
		s = start(t, n.l, text)
		s.ready(200)
		meters(2)
		limited(t, 50)
	})
	t.Run("no rate", func(t *testing.T) {
		reload(t, "lease $LEASE\n rate off")
		meters(0)
		n.l.Node.Revalidate()
		before := overflows(t, n.l.Node)
		got := burst(t, n.vm, 90)
		if dropped := overflows(t, n.l.Node) - before; got+dropped < 90 {
			t.Errorf("%d of 90 queries answered, and %d dropped as the switch's queue was full", got, dropped)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		reload(t, "lease $LEASE\n rate 10")
		meters(2)
		n.l.Node.OFCTL("add-meter", lab.Bridge, "meter=5,pktps,band=type=drop,rate=100")
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if m := n.l.Node.OFCTL("dump-meters", lab.Bridge); strings.Count(m, "meter=") != 1 || !strings.Contains(m, "meter=5 ") {
			t.Errorf("want only the one that is not ours:\n%s", m)
		}
	})
}

// Of two processes on a bridge, the one that has the flows has the meters.
func TestRateHandOver(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	first := launch(t, n.l, n.l.Node, "first", n.corefile("lease $LEASE\n rate 1 40", "", 9153, 8181))
	first.ready(200)
	// meter is the only one, with its burst.
	meter := func(what string, burst int) {
		t.Helper()
		n.l.Eventually(what, func() error {
			m := n.l.Node.OFCTL("dump-meters", lab.Bridge)
			if strings.Count(m, "meter=") != 1 || !strings.Contains(m, fmt.Sprintf("burst_size=%d", burst)) {
				return fmt.Errorf("want one with burst %d:\n%s", burst, m)
			}
			return nil
		})
		expect(t, n.vm, ofSurvivor, "db.internal", "@169.254.169.254", "+time=5")
	}
	meter("the first's", 40)
	second := launch(t, n.l, n.l.Node, "second", n.corefile("lease $LEASE\n rate 1 50", "", 9154, 8182))
	second.metricsAt = "127.0.0.1:9154"
	second.serves()
	first.yields()
	meter("the second's", 50)
	second.undisturbed(t)
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	first.well()
	meter("the first's again", 40)

	third := launch(t, n.l, n.l.Node, "third", n.corefile("lease $LEASE\n rate 1 60", "", 9155, 8183))
	third.metricsAt = "127.0.0.1:9155"
	third.serves()
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	meter("the third's, when the first has gone", 60)
	third.undisturbed(t)
}

// standingMeters are the meters of puntdns, as "RATE BURST", of which it has the
// highest ids; ovn-controller counts from 1 up.
func standingMeters(l *lab.Lab) (all []string) {
	for _, m := range meterLine.FindAllStringSubmatch(l.Node.OFCTL("dump-meters", lab.Bridge), -1) {
		if id, err := strconv.Atoi(m[1]); err == nil && id > 1000 {
			all = append(all, m[2]+" "+m[3])
		}
	}
	return all
}

var meterLine = regexp.MustCompile(`meter=(\d+) pktps.*\n.*rate=(\d+)(?: burst_size=(\d+))?`)

// Without a word in the Corefile a guest may ask as much as OVN's own DNS on its
// switch, where control plane protection says how much that is, else the default.
func TestRateDefault(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	aclSwitch(n.l, "blue", 1)
	aclGuest(n.l, "blue", 1, 12)
	n.l.Sync()
	text := func(properties string) string {
		// surviveCorefile says nothing of rate by itself.
		text := strings.Replace(surviveCorefile, "PROPERTIES", properties, 1)
		return strings.NewReplacer("OVNHOSTS", "", "UPSTREAM", n.upstream.Addr, "METRICS", "9153", "READY", "8181").Replace(text)
	}
	s := start(t, n.l, text(""))
	s.ready(200)
	are := func(t *testing.T, want ...string) {
		t.Helper()
		n.l.Eventually("meters", func() error {
			got := standingMeters(n.l)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				return fmt.Errorf("%q, want %q\n%s", got, want, n.l.Node.OFCTL("dump-meters", lab.Bridge))
			}
			return nil
		})
	}
	are(t, "1024 64", "1024 64")
	t.Run("a guest that asks more", func(t *testing.T) {
		n.l.Node.Revalidate()
		began := time.Now()
		got := burst(t, n.vm, 2000)
		took := time.Since(began) - silence
		if most := 64 + int(took.Seconds()*1024*1.1) + 1; got < 50 || got > most {
			t.Errorf("%d of 2000 queries answered in %s, want from 50 to %d", got, took, most)
		}
	})

	// Southbound has the meters of switches with DNS rows: blue has none.
	for _, step := range []struct {
		name    string
		command []string
		want    []string
	}{
		{"a policy", []string{"meter-add", "dns", "drop", "500", "pktps", "70", "--", "copp-add", "policy", "dns", "dns", "--", "ls-copp-add", "policy", "red"}, []string{"1024 64", "500 70"}},
		{"shared with another switch", []string{"ls-copp-add", "policy", "blue", "--", "add", "Logical_Switch", "blue", "dns_records", strings.TrimSpace(n.l.NBCTL("--bare", "--columns=dns_records", "list", "Logical_Switch", "red"))}, []string{"500 70", "500 70"}},
		{"another rate", []string{"set", "Meter_Band", ".", "rate=600"}, []string{"600 70", "600 70"}},
		{"not in packets", []string{"set", "Meter", "dns", "unit=kbps"}, []string{"1024 64", "1024 64"}},
		{"in packets again", []string{"set", "Meter", "dns", "unit=pktps"}, []string{"600 70", "600 70"}},
		{"none on one switch", []string{"clear", "Logical_Switch", "blue", "copp"}, []string{"1024 64", "600 70"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			for i, w := range step.command {
				if w == "." {
					step.command[i] = strings.TrimSpace(n.l.NBCTL("--bare", "--columns=bands", "list", "Meter", "dns"))
				}
			}
			n.l.NBCTL(append([]string{"--wait=sb"}, step.command...)...)
			are(t, step.want...)
			expect(t, n.vm, ofSurvivor, "db.internal", "@169.254.169.254", "+time=5")
		})
	}
	s.toldTimes(t, 1, logNoRate)

	t.Run("hijack mode", func(t *testing.T) {
		s.rewrite(t, corefile(n.l, text("address any")))
		are(t, "10000 256", "600 70")
		n.l.NBCTL("--wait=sb", "clear", "Logical_Switch", "red", "copp")
		are(t, "10000 256", "10000 256")
		n.l.Node.Revalidate()
		before := overflows(t, n.l.Node)
		got := burst(t, n.vm, 200)
		if dropped := overflows(t, n.l.Node) - before; got+dropped < 200 {
			t.Errorf("%d of 200 queries at once answered, and %d dropped as the switch's queue was full", got, dropped)
		}
	})
	s.endWell()
}

// A switch without meters is told of once, and guests are served without. One that
// claims more than Open vSwitch takes, as kernels before 5.8 have it do, has meters.
func TestRateOfTheSwitch(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	gate := n.l.Gate("unix:" + n.l.Dir + "/gate.sock")
	through := func(most uint32) {
		gate.Serve(func(conn net.Conn) {
			to, err := n.l.Node.Dial(context.Background(), "unix", strings.TrimPrefix(n.l.Node.OpenFlow, "unix:"))
			if err != nil {
				return // the client finds out
			}
			go func() {
				_, _ = io.Copy(to, conn)
				to.Close()
			}()
			_ = claimMeters(conn, to, most) // ends with the connection
		})
	}
	through(0)
	s := start(t, n.l, strings.Replace(n.corefile("rate 1000", "", 9153, 8181), "$MGMT", gate.Endpoint, 1))
	s.ready(200)
	since := s.connectedSince()
	for i, tt := range []struct {
		name   string
		most   uint32
		meters []string
	}{
		{"none", 0, nil},
		{"none, after another connection", 0, nil},
		{"too many", 0xffffffff, []string{"1000 64"}},
	} {
		if i > 0 {
			through(tt.most)
			// The flows of the connection before it are there still.
			n.l.Eventually(tt.name+": connection", func() error {
				return errorUnless(s.connectedSince().After(since), "connected since %s", since)
			})
			since = s.connectedSince()
		}
		n.l.Eventually(tt.name+": meters and answers", func() error {
			got := briefly(n.vm.Dig("db.internal", "@169.254.169.254", "+time=1"))
			if m := standingMeters(n.l); got != ofSurvivor || !slices.Equal(m, tt.meters) {
				return fmt.Errorf("%s with meters %q, want %q", got, m, tt.meters)
			}
			return nil
		})
	}
	s.ready(200)
	s.toldTimes(t, 1, logNoMeters)
	s.toldTimes(t, 1, logUnmetered)
	s.toldTimes(t, 1, logMetered)
	s.endWell()
}

// claimMeters passes on what the switch says, but for the highest id of a meter in
// what it tells of its features (OpenFlow 1.5.1, 7.3.5.16).
func claimMeters(to io.Writer, from io.Reader, most uint32) error {
	const typeMultipartReply, meterFeatures = 19, 11
	for {
		header := make([]byte, 8)
		if _, err := io.ReadFull(from, header); err != nil {
			return err
		}
		msg := append(header, make([]byte, binary.BigEndian.Uint16(header[2:])-8)...)
		if _, err := io.ReadFull(from, msg[8:]); err != nil {
			return err
		}
		if len(msg) >= 20 && msg[1] == typeMultipartReply && binary.BigEndian.Uint16(msg[8:]) == meterFeatures {
			binary.BigEndian.PutUint32(msg[16:], most)
		}
		if _, err := to.Write(msg); err != nil {
			return err
		}
	}
}
