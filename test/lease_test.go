// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// A renewal of the punt has the switch look at all its datapath flows. The lease goes on
// where there are ten thousand. What a beat costs is in the log; make bench measures it.
func TestLeaseOfManyFlows(t *testing.T) {
	t.Parallel()
	const flows = 10000
	n := newSurvivor(t)
	// Flows that nobody uses stay, and there is room for some more.
	n.l.Node.VSCTL("set", "Open_vSwitch", ".", "other_config:max-idle=3600000", "other_config:flow-limit=200000")
	have := fillDatapath(t, n, flows)
	if have < flows/10 {
		t.Fatalf("%d datapath flows, want %d", have, flows)
	}
	vswitchd := n.l.Node.Daemon("ovs-vswitchd").Pid
	used := func() time.Duration {
		t.Helper()
		d, err := lab.CPUTime(vswitchd)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}

	const span = 4 * time.Second
	began, before := time.Now(), used()
	time.Sleep(span)
	idle := (used() - before).Seconds() / time.Since(began).Seconds()

	s := start(t, n.l, n.corefile("lease $LONGLEASE", "", 9153, 8181))
	s.ready(200)
	beats := func() float64 { return s.metric("coredns_ofpunt_probe_duration_seconds") }
	first := beats()
	began, before = time.Now(), used()
	var count float64
	n.l.Eventually("beats for longer than the lease", func() error {
		if count = beats() - first; count < 5 {
			return fmt.Errorf("%v so far\n%s", count, s.Log())
		}
		return nil
	})
	took, cost := time.Since(began), used()-before
	left := datapath(t, n.l, currentFlows)
	t.Logf("with %d datapath flows, %d at the end, the switch takes %.1f ms a second by itself, and a beat %.1f ms", have, left,
		1000*idle, 1000*(cost.Seconds()-idle*took.Seconds())/count)
	expect(t, n.vm, ofSurvivor, "db.internal", "@"+resolver4)
	s.toldTimes(t, 0, logLeaseExpired)
	s.toldTimes(t, 0, logProbeMissed)
}

// How many flows the datapath has, and how many it may have.
var (
	currentFlows = regexp.MustCompile(`current (\d+)`)
	flowLimit    = regexp.MustCompile(`limit (\d+)`)
)

// datapath returns a number that the switch tells of its datapath's flows.
func datapath(t *testing.T, l *lab.Lab, what *regexp.Regexp) int {
	t.Helper()
	show := l.Node.AppCtl("ovs-vswitchd", "upcall/show")
	m := what.FindStringSubmatch(show)
	if m == nil {
		t.Fatal(show)
	}
	v, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fillDatapath has the switch make so many datapath flows, one for each destination MAC,
// and returns how many it has. A busy switch has fewer: it lowers its limit.
func fillDatapath(t *testing.T, n survivor, flows int) (have int) {
	t.Helper()
	raw := n.vm.Raw()
	defer raw.Close()
	frame := udpFrame{
		srcMAC: n.vm.MAC, dstMAC: "02:01:00:00:00:00", ttl: 64, payload: []byte("12345678"),
		src: netip.AddrPortFrom(n.vm.Addrs[0].Addr(), 256).String(), dst: "10.0.0.99:256",
	}.build(t)
	next := uint32(0x02010000)
	for ctx := within(t, wait/2); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		have = datapath(t, n.l, currentFlows)
		if have >= flows {
			break
		}
		if have >= flows/2 && datapath(t, n.l, flowLimit) < flows*5/4 {
			// It raises its limit at each look at the few thousand that it has, and
			// throws most away where there are more than that.
			continue
		}
		// The switch makes some at a time: what it has no room for is lost.
		for range min(flows-have+100, 500) {
			binary.BigEndian.PutUint32(frame[2:], next)
			next++
			if err := raw.Send(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	return have
}
