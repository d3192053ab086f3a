// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// secondBridge is a bridge beside the lab's, without OVN.
const secondBridge = "br-two"

// twoBridges is a node with two bridges, and a guest on each: they are alike to
// their MACs and addresses.
type twoBridges struct {
	*lab.Lab
	one, two *lab.Guest
}

// newTwoBridges has OVN on the first bridge, or not.
func newTwoBridges(t *testing.T, plain bool) twoBridges {
	t.Helper()
	n := twoBridges{Lab: lab.New(t, lab.Options{Plain: plain})}
	for _, sw := range []string{"red", "blue"} {
		n.AddSwitch(sw)
		n.AddDNS(map[string]string{"db.internal": map[string]string{"red": "10.0.0.101", "blue": "10.0.0.201"}[sw]}, sw)
	}
	guest := func(name, sw, hostname string) *lab.Guest {
		return n.Node.AddGuest(lab.Guest{
			Name: name, Switch: sw, MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"),
			Routes: []string{resolver4 + " dev " + lab.Iface, resolver6 + " dev " + lab.Iface}, Hostname: hostname,
		})
	}
	n.one = guest("red-vm", "red", "vm1")
	// Its logical port is one of blue where Northbound is read.
	n.two = guest("blue-vm", "", "")
	n.NBCTL("lsp-add", "blue", "blue-vm", "--", "lsp-set-addresses", "blue-vm", n.two.MAC+" 10.0.0.11 fd00:10::11")
	for _, g := range []*lab.Guest{n.one, n.two} {
		knows(t, g, resolvers...)
	}
	if plain {
		n.Node.OFCTL("add-flow", lab.Bridge, "priority=1,actions=NORMAL")
	} else {
		n.Sync()
	}
	n.Node.VSCTL("del-port", lab.Bridge, n.two.NodePort)
	n.makeSecond()
	return n
}

// makeSecond makes the second bridge and plugs its guest in.
func (n twoBridges) makeSecond() {
	port := n.two.NodePort
	n.Node.VSCTL("add-br", secondBridge, "--", "set", "Bridge", secondBridge, "datapath_type="+n.Datapath, "fail_mode=standalone", "other_config:disable-in-band=true",
		"--", "add-port", secondBridge, port,
		"--", "set", "Interface", port, "external_ids:iface-id="+n.two.Port, `external_ids:attached-mac="`+n.two.MAC+`"`)
}

// second is the endpoint of the second bridge: its socket stands beside the
// first's.
func (n twoBridges) second() string {
	return "unix:" + filepath.Join(filepath.Dir(strings.TrimPrefix(n.Node.OpenFlow, "unix:")), secondBridge+".mgmt")
}

// ours are the flows of puntdns on a bridge.
func (n twoBridges) ours(bridge string) int {
	return len(flowLines(n.Node.OFCTL("dump-flows", bridge, ourCookie)))
}

// block is the server blocks of a bridge. TWO is the endpoint of the second. Guests ask as
// fast as they are answered here, which is more than the default of rate. What says who
// asks has a block of its own: cache would give one guest the answer of another.
func (n twoBridges) block(bridge, placement, body string) string {
	at := n.Node.OpenFlow
	if bridge == secondBridge {
		at = n.second()
	}
	return `. {
    ofpunt ` + bridge + ` {
        openflow ` + at + `
        ovsdb $OVSDB
        rate off
        ` + placement + `
    }
    errors
    ` + body + `
}
who.example {
    ofpunt ` + bridge + `
    metadata
    errors
    template IN TXT who.example {
        answer "{{ .Name }} 60 IN TXT \"{{ .Meta \"ofpunt/bridge\" }} {{ .Meta \"ofpunt/switch\" }} {{ .Meta \"ofpunt/port\" }}\""
    }
}
`
}

// bridgesTail is what one of the blocks has for all of them.
const bridgesTail = `
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }`

const bridgeSouthbound = `
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache`

func (n twoBridges) both() string {
	return n.block(lab.Bridge, "", bridgesTail+bridgeSouthbound) + n.block(secondBridge, "placement table 0 102", "hosts {\n 10.0.0.202 db.internal\n fallthrough\n }\n cache")
}

// told asks once and compares.
func told(ctx context.Context, g *lab.Guest, resolver, name string, qtype uint16, want string) error {
	r, err := exchange(ctx, g, resolver, name, qtype)
	switch {
	case err != nil:
		return err
	case inShort(r) != want:
		return fmt.Errorf("%s is told %s of %s, want %s", g.Name, inShort(r), name, want)
	}
	return nil
}

// toldSoon asks until the answer is right, with many tries in a second.
func toldSoon(ctx context.Context, g *lab.Guest, name string, qtype uint16, want string) error {
	for {
		one, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err := told(one, g, resolver4, name, qtype, want)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// load has the guest of the first bridge ask both resolvers.
func (n twoBridges) load(t *testing.T) (stop func() (asked int, other map[string]int)) {
	const want = "NOERROR 10.0.0.101"
	return keepAsking(t, wait, standing{n.one, resolver4, "db.internal.", dns.TypeA, want}, standing{n.one, resolver6, "db.internal.", dns.TypeA, want})
}

const (
	whoOne = `NOERROR "br-int red red-vm"`
	whoTwo = `NOERROR "br-two  blue-vm"` // no database says which network
)

// Two bridges, one with OVN: who asks is told what his bridge's blocks say,
// though the frames are the same to the bit.
func TestBridges(t *testing.T) {
	t.Parallel()
	n := newTwoBridges(t, false)
	s := serve(t, n.Lab, n.both())
	s.reaches(2, "coredns_ofpunt_ready")
	ctx := within(t, 2*wait)
	for _, resolver := range resolvers {
		for _, tt := range []struct {
			guest *lab.Guest
			name  string
			qtype uint16
			want  string
		}{
			{n.one, "who.example.", dns.TypeTXT, whoOne},
			{n.two, "who.example.", dns.TypeTXT, whoTwo},
			{n.one, "db.internal.", dns.TypeA, "NOERROR 10.0.0.101"},
			{n.two, "db.internal.", dns.TypeA, "NOERROR 10.0.0.202"},
			{n.one, "vm1.", dns.TypeA, "NOERROR 10.0.0.11"},
			{n.two, "vm1.", dns.TypeA, "SERVFAIL"},
		} {
			if err := told(ctx, tt.guest, resolver, tt.name, tt.qtype, tt.want); err != nil {
				t.Error(err)
			}
		}
	}

	const times = 200
	answered := func(bridge string) float64 {
		return s.metric("coredns_ofpunt_packet_ins_total", "bridge", bridge, "result", "answered", "reason", "chain")
	}
	before := [2]float64{answered(lab.Bridge), answered(secondBridge)}
	var wrong mistakes
	var wg sync.WaitGroup
	for g, want := range map[*lab.Guest]string{n.one: "NOERROR 10.0.0.101", n.two: "NOERROR 10.0.0.202"} {
		raw := g.Raw()
		t.Cleanup(func() { raw.Close() })
		var queries [][]byte
		for id := range times {
			m := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
			m.Id = uint16(id)
			f := udpFrame{srcMAC: n.one.MAC, dstMAC: resolverMAC, ttl: 64, src: "10.0.0.11:4000", dst: resolver4 + ":53", payload: pack(t, m)}
			queries = append(queries, f.build(t))
		}
		wg.Go(func() {
			for id, q := range queries {
				got, err := rawExchange(ctx, raw, q, resolver4+":53")
				r := new(dns.Msg)
				if err == nil {
					err = r.Unpack(udpPayload(got))
				}
				if err != nil || int(r.Id) != id || inShort(r) != want {
					wrong.add(fmt.Sprintf("%s: %v, want %s: %v", g.Name, r, want, err))
				}
			}
		})
	}
	wg.Wait()
	wrong.report(t)
	for i, bridge := range []string{lab.Bridge, secondBridge} {
		if got := answered(bridge) - before[i]; got != times {
			t.Errorf("%v answers are counted for %s, want %d", got, bridge, times)
		}
		if got := s.metric("coredns_ofpunt_connected", "bridge", bridge); got != 1 {
			t.Errorf("connected to %s: %v", bridge, got)
		}
		if got, want := s.metric("coredns_ofpunt_flows", "bridge", bridge), float64(n.ours(bridge)); got != want || want != []float64{privateFlows + guestFlows, plainPrivateFlows + plainGuestFlows}[i] {
			t.Errorf("%v flows are counted for %s, and it has %v", got, bridge, want)
		}
	}
	s.endWell()
	for _, bridge := range []string{lab.Bridge, secondBridge} {
		if got := n.ours(bridge); got != 0 {
			t.Errorf("%s has %d flows left", bridge, got)
		}
	}
}

// Bridges without OVN share the database of names, and each has its own ports in
// it.
func TestBridgesNorthbound(t *testing.T) {
	t.Parallel()
	for _, monitor := range []string{"local", "all"} {
		t.Run("monitor "+monitor, func(t *testing.T) {
			n := newTwoBridges(t, true)
			names := "ovnhosts {\n northbound $NB\n monitor " + monitor + "\n fallthrough\n }"
			s := serve(t, n.Lab, n.block(lab.Bridge, "placement table 0 102", names+bridgesTail)+n.block(secondBridge, "placement table 0 102", names))
			ctx := within(t, wait)
			each := func(t *testing.T, one, two string) {
				t.Helper()
				for g, want := range map[*lab.Guest]string{n.one: one, n.two: two} {
					if err := toldSoon(ctx, g, "db.internal.", dns.TypeA, want); err != nil {
						t.Errorf("%v\n%s", err, s.Log())
					}
				}
			}
			each(t, "NOERROR 10.0.0.101", "NOERROR 10.0.0.201")
			if err := told(ctx, n.two, resolver6, "who.example.", dns.TypeTXT, `NOERROR "br-two blue blue-vm"`); err != nil {
				t.Error(err)
			}
			// What happens to the ports of one bridge is nothing to the other.
			stop := n.load(t)
			n.Node.VSCTL("set", "Interface", n.two.NodePort, "external_ids:iface-id=none")
			n.Eventually("flows of a port without a logical one", func() error {
				if got := n.ours(secondBridge); got != plainPrivateFlows {
					return fmt.Errorf("%d flows, want %d", got, plainPrivateFlows)
				}
				return nil
			})
			n.Node.VSCTL("set", "Interface", n.two.NodePort, "external_ids:iface-id=blue-vm")
			each(t, "NOERROR 10.0.0.101", "NOERROR 10.0.0.201")
			n.Node.VSCTL("del-br", secondBridge)
			s.reaches(0, "coredns_ofpunt_connected", "bridge", secondBridge)
			// The database has told by the time that it tells of the next change.
			n.NBCTL("set", "Logical_Switch_Port", "red-vm", "options:hostname=renamed")
			if err := toldSoon(ctx, n.one, "renamed.", dns.TypeA, "NOERROR 10.0.0.11"); err != nil {
				t.Error(err)
			}
			if asked, other := stop(); len(other) > 0 {
				t.Errorf("of %d queries on the other bridge: %v", asked, other)
			}
			s.endWell()
		})
	}
}

// A bridge that is deleted and made again is served again, and the other never ceases
// to be.
func TestBridgesRemade(t *testing.T) {
	t.Parallel()
	n := newTwoBridges(t, false)
	s := serve(t, n.Lab, n.both())
	ctx := within(t, 2*wait)
	if err := toldSoon(ctx, n.two, "who.example.", dns.TypeTXT, whoTwo); err != nil {
		t.Fatal(err)
	}
	stop := n.load(t)
	for round, away := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second, 3 * time.Second} {
		n.Node.VSCTL("del-br", secondBridge)
		s.reaches(0, "coredns_ofpunt_connected", "bridge", secondBridge)
		s.reaches(0, "coredns_ofpunt_flows", "bridge", secondBridge)
		s.reaches(1, "coredns_ofpunt_connected", "bridge", lab.Bridge)
		s.ready(503)
		// The longer it is away, the rarer it is looked for.
		time.Sleep(away)
		n.makeSecond()
		back := time.Now()
		if err := toldSoon(ctx, n.two, "who.example.", dns.TypeTXT, whoTwo); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, s.Log())
		}
		t.Logf("round %d: served again after %s", round, time.Since(back))
		s.ready(200)
		s.reaches(1, "coredns_ofpunt_connected", "bridge", secondBridge)
		if got := n.ours(secondBridge); got != plainPrivateFlows+plainGuestFlows {
			t.Errorf("round %d: %d flows, want %d", round, got, plainPrivateFlows+plainGuestFlows)
		}
	}
	asked, other := stop()
	if t.Logf("%d queries on the other bridge", asked); len(other) > 0 {
		t.Errorf("of %d queries on the other bridge: %v", asked, other)
	}
	// It is looked for many times, and that it is not there is told once each time.
	if got := s.told(logSwitchAbsent, secondBridge); got < 2 || got > 4 {
		t.Errorf("the log tells %d times of four absences:\n%s", got, s.Log())
	}

	// It ends in order without the bridge too.
	n.Node.VSCTL("del-br", secondBridge)
	s.reaches(0, "coredns_ofpunt_connected", "bridge", secondBridge)
	s.endWell()
	if got := n.ours(lab.Bridge); got != 0 {
		t.Errorf("%d flows are left", got)
	}
}

// One bridge is served while another has never been there.
func TestBridgesLate(t *testing.T) {
	t.Parallel()
	n := newTwoBridges(t, false)
	n.Node.VSCTL("del-br", secondBridge)
	s := start(t, n.Lab, n.both())
	ctx := within(t, 2*wait)
	if err := toldSoon(ctx, n.one, "who.example.", dns.TypeTXT, whoOne); err != nil {
		t.Fatalf("%v\n%s", err, s.Log())
	}
	s.ready(503)
	s.log(logSwitchAbsent, secondBridge)
	s.log(logNoBridge, secondBridge)
	n.makeSecond()
	if err := toldSoon(ctx, n.two, "who.example.", dns.TypeTXT, whoTwo); err != nil {
		t.Fatalf("%v\n%s", err, s.Log())
	}
	s.ready(200)
	s.endWell()
}

// A reload adds a bridge and takes one away; the other does not notice.
func TestBridgesReload(t *testing.T) {
	t.Parallel()
	n := newTwoBridges(t, false)
	alone := n.block(lab.Bridge, "", bridgesTail+bridgeSouthbound)
	s := serve(t, n.Lab, alone)
	ctx := within(t, 4*wait)
	reload := func(text string) {
		t.Helper()
		s.reload(corefile(n.Lab, text))
	}
	stop := n.load(t)
	for round := range 2 {
		if got := n.ours(secondBridge); got != 0 {
			t.Errorf("round %d: the second bridge has %d flows before it is named", round, got)
		}
		reload(n.both())
		if err := toldSoon(ctx, n.two, "who.example.", dns.TypeTXT, whoTwo); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, s.Log())
		}
		s.ready(200)
		if got := n.ours(secondBridge); got != plainPrivateFlows+plainGuestFlows {
			t.Errorf("round %d: the second bridge has %d flows, want %d", round, got, plainPrivateFlows+plainGuestFlows)
		}
		reload(alone)
		if got := n.ours(secondBridge); got != 0 {
			t.Errorf("round %d: the second bridge has %d flows after the reload", round, got)
		}
		one, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		if r, err := exchange(one, n.two, resolver4, "who.example.", dns.TypeTXT); err == nil {
			t.Errorf("round %d: the guest of a bridge that is not named is told %s", round, inShort(r))
		}
		cancel()
		s.ready(200)
		for _, name := range []string{"connected", "local_database_up", "flows", "in_flight"} {
			if got := s.metric("coredns_ofpunt_"+name, "bridge", secondBridge); got != 0 {
				t.Errorf("round %d: %s is %v for a bridge that is not named", round, name, got)
			}
		}
	}
	if asked, other := stop(); len(other) > 0 {
		t.Errorf("of %d queries on the other bridge: %v\n%s", asked, other, s.Log())
	}

	// The second alone, and the first again.
	reload(strings.Replace(n.block(secondBridge, "placement table 0 102", bridgesTail+"\n cache"), "$SB", "", 1))
	if err := toldSoon(ctx, n.two, "who.example.", dns.TypeTXT, whoTwo); err != nil {
		t.Errorf("%v\n%s", err, s.Log())
	}
	if got := n.ours(lab.Bridge); got != 0 {
		t.Errorf("the first bridge has %d flows after the reload", got)
	}
	reload(n.both())
	for g, want := range map[*lab.Guest]string{n.one: whoOne, n.two: whoTwo} {
		if err := toldSoon(ctx, g, "who.example.", dns.TypeTXT, want); err != nil {
			t.Errorf("%v\n%s", err, s.Log())
		}
	}

	// A bridge that is gone can be taken out too.
	n.Node.VSCTL("del-br", secondBridge)
	s.reaches(0, "coredns_ofpunt_connected", "bridge", secondBridge)
	reload(alone)
	s.ready(200)
	if err := told(ctx, n.one, resolver6, "who.example.", dns.TypeTXT, whoOne); err != nil {
		t.Error(err)
	}
	s.endWell()
}
