// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// lease measures what a beat, a probe and a renewal, costs the switch: a changed flow
// has it look at all its datapath flows again.
func (b *bench) lease() {
	for _, flows := range b.datapathFlows {
		n := b.newNetwork()
		// Flows that nobody uses stay.
		n.Node.VSCTL("set", "Open_vSwitch", ".", "other_config:max-idle=3600000", "other_config:flow-limit=200000")
		b.fillDatapath(n, flows)
		vswitchd := n.Node.Daemon("ovs-vswitchd").Pid
		watch := func() float64 {
			before := b.cpu(vswitchd)
			time.Sleep(b.leaseSpan)
			return float64((b.cpu(vswitchd) - before).Milliseconds())
		}
		without := watch()
		text := strings.Replace(n.corefile(), "ofpunt br-int {", "ofpunt br-int {\n        lease 3s", 1)
		p := b.serve(n.Node.Host, "flows are in place", b.puntdns, "-conf", n.WriteFile("Corefile", text))
		time.Sleep(b.settling) // for what the flows themselves cost, once
		with := watch()
		left := b.datapath(n, currentFlows)
		if err := p.Stop(); err != nil {
			b.t.Fatalf("%v", err)
		}
		beat := (with - without) / b.leaseSpan.Seconds()
		name := fmt.Sprintf("%d datapath flows", flows)
		b.report.table(tBeat).put(name, beat)
		b.report.table(tIdle).put(name, without/b.leaseSpan.Seconds())
		b.say("%s: the switch takes %.1f ms a second by itself, a beat %.1f ms; %d flows are left", name, without/b.leaseSpan.Seconds(), beat, left)
		b.t.End()
	}
}

// fillDatapath has the switch make so many datapath flows, one for each destination
// MAC.
func (b *bench) fillDatapath(n *network, flows int) {
	raw := n.vm.Raw()
	defer raw.Close()
	frame := append([]byte{2, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x11, 8, 0,
		0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 11, 10, 0, 0, 99, 1, 0, 1, 0, 0, 8, 0, 0}, make([]byte, 18)...)
	binary.BigEndian.PutUint16(frame[24:], ipSum(frame[14:34]))
	send := func(first, last int) {
		for i := first; i < last; i++ {
			binary.BigEndian.PutUint32(frame[2:], uint32(i))
			if err := raw.Send(frame); err != nil {
				b.t.Fatalf("%v", err)
			}
			if i%100 == 0 {
				time.Sleep(2 * time.Millisecond) // what the switch has no room for is lost
			}
		}
	}
	// The switch raises its limit by 1,000 flows at each look at the few thousand that
	// it has, and throws most away where there are more than that.
	send(0, min(flows, 5000))
	for try := 0; b.datapath(n, flowLimit) < flows*5/4 && flows > 5000; try++ {
		if try == 600 {
			b.t.Fatalf("the switch does not raise its limit:\n%s", n.Node.AppCtl("ovs-vswitchd", "upcall/show"))
		}
		time.Sleep(500 * time.Millisecond)
	}
	for range 10 {
		send(0, flows)
		time.Sleep(b.settling)
		if b.datapath(n, currentFlows) >= flows*9/10 {
			return
		}
	}
	b.t.Fatalf("the switch does not make %d datapath flows:\n%s", flows, n.Node.AppCtl("ovs-vswitchd", "upcall/show"))
}

// What the switch says of its datapath flows.
var (
	currentFlows = regexp.MustCompile(`current (\d+)`)
	flowLimit    = regexp.MustCompile(`limit (\d+)`)
)

func (b *bench) datapath(n *network, what *regexp.Regexp) int {
	show := n.Node.AppCtl("ovs-vswitchd", "upcall/show")
	m := what.FindStringSubmatch(show)
	if m == nil {
		b.t.Fatalf("no %v in\n%s", what, show)
	}
	v, err := strconv.Atoi(m[1])
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	return v
}

func ipSum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
