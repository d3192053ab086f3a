// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/test/lab"
)

// A way is one that packets take from a guest to many addresses behind another guest.
type way struct {
	name     string
	from, to *lab.Guest
	next     string // MAC of the next hop
	secured  bool   // by port security
	prefixes [2]netip.Prefix
}

// hosts is how many addresses of each family are behind a way. For moreFlows of them the
// datapath may have another flow by chance: what the guests' kernels send counts too.
const (
	hosts     = 60
	moreFlows = 6
)

// destination returns one of those addresses: they differ in many bits, or a match on a
// short prefix would do for all of them.
func (w *way) destination(i int, v6 bool) netip.Addr {
	if v6 {
		a := w.prefixes[1].Addr().As16()
		binary.BigEndian.PutUint32(a[12:], uint32(i+1)*2654435761) // Knuth's multiplicative hash
		return netip.AddrFrom16(a)
	}
	a := w.prefixes[0].Addr().As4()
	binary.BigEndian.PutUint16(a[2:], uint16((i+1)*40503))
	return netip.AddrFrom4(a)
}

// traffic is a kind of packets that a guest sends.
type traffic struct {
	name string
	v6   bool
	// spoofed is set if OVN's port security drops it.
	spoofed bool
	// frame is the packet to an address; the MAC of the next hop is put into it.
	frame func(t *testing.T, w *way, to netip.AddrPort) []byte
}

// allTraffic has no neighbour solicitations: their MAC and IPv6 addresses change with the
// target, and a switch that learns needs a flow for each anyway.
var allTraffic = []traffic{
	{"TCP over IPv4", false, false, tcpTo},
	{"TCP over IPv6", true, false, tcpTo},
	{"UDP over IPv4", false, false, udpTo},
	{"UDP over IPv6", true, false, udpTo},
	{"echo requests over IPv6", true, false, func(t *testing.T, w *way, to netip.AddrPort) []byte {
		return neighborFrame(echoRequest, 0, parseMAC(t, w.next), parseMAC(t, w.from.MAC), w.source(true).Addr(), to.Addr(), to.Addr(), 1)
	}},
	{"advertisements of neighbours", true, true, func(t *testing.T, w *way, to netip.AddrPort) []byte {
		return neighborFrame(advertisement, 0, parseMAC(t, w.next), parseMAC(t, w.from.MAC), w.source(true).Addr(), w.to.Addrs[1].Addr(), to.Addr(), 2)
	}},
}

const echoRequest = 128 // type of ICMPv6 (RFC 4443)

func tcpTo(t *testing.T, w *way, to netip.AddrPort) []byte {
	return synFrame(t, w.from.MAC, frame.Tag{}, w.source(to.Addr().Is6()), to)
}

func udpTo(t *testing.T, w *way, to netip.AddrPort) []byte {
	return udpFrame{srcMAC: w.from.MAC, dstMAC: w.next, ttl: 64, src: w.source(to.Addr().Is6()).String(), dst: to.String()}.build(t)
}

// source is where the packets come from.
func (w *way) source(v6 bool) netip.AddrPort {
	i := 0
	if v6 {
		i = 1
	}
	return netip.AddrPortFrom(w.from.Addrs[i].Addr(), 40000)
}

// datapathFlows sends a packet to each address, one after the other as they arrive, and
// returns how many flows the datapath has for them then.
func (w *way) datapathFlows(t *testing.T, n *lab.Node, of traffic) int {
	t.Helper()
	out, in := w.from.Raw(), w.to.Raw()
	defer out.Close()
	defer in.Close()
	n.AppCtl("ovs-vswitchd", "revalidator/purge")
	next := parseMAC(t, w.next)
	for i := range hosts {
		to := netip.AddrPortFrom(w.destination(i, of.v6), 9999)
		f := of.frame(t, w, to)
		copy(f, next)
		if err := out.Send(f); err != nil {
			t.Fatal(err)
		}
		if _, err := in.RecvMatch(within(t, wait), func(f []byte) bool { return bytes.Contains(f, to.Addr().AsSlice()) }); err != nil {
			t.Fatalf("%s to %s: %v", w.name, to, err)
		}
	}
	family := "eth_type(0x0800)"
	if of.v6 {
		family = "eth_type(0x86dd)"
	}
	return strings.Count(n.AppCtl("ovs-vswitchd", "dpctl/dump-flows", "netdev@ovs-netdev"), family)
}

func parseMAC(t *testing.T, text string) net.HardwareAddr {
	t.Helper()
	mac, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}

// countDatapathFlows returns the datapath flows by way and kind of traffic.
func countDatapathFlows(t *testing.T, n *lab.Node, ways []way) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for i := range ways {
		for _, of := range allTraffic {
			if !of.spoofed || !ways[i].secured {
				counts[ways[i].name+", "+of.name] = ways[i].datapathFlows(t, n, of)
			}
		}
	}
	return counts
}

// usePrefixTries has the tables match prefixes of addresses of both families, as Open
// vSwitch does by default from 3.5 on, and ovn-controller has it do from 24.03.6, 24.09.3
// and 25.03.0 on. Before, it does so for IPv4 only.
func usePrefixTries(n *lab.Node) {
	args := []string{"--id=@tries", "create", "Flow_Table", "prefixes=ip_dst,ipv6_src,ipv6_dst", "--", "set", "Bridge", lab.Bridge}
	for table := range 254 {
		args = append(args, fmt.Sprintf("flow_tables:%d=@tries", table))
	}
	n.VSCTL(args...)
}

// The datapath needs no more flows for what guests send to others than without us. The
// pipeline of OVN has one for each IPv6 address by itself, unless there are tries.
func TestDatapathFlows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, placement, block string
		tries                  bool
	}{
		{"OVN", "ovn", "ovnhosts {\n southbound $SB\n }", false},
		{"OVN with tries for IPv6", "ovn", "ovnhosts {\n southbound $SB\n }", true},
		{"Neutron", "neutron", "whoami", false},
		{"a table", "table 0 102", "whoami", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var ways []way
			var l *lab.Lab
			if tt.placement == "ovn" {
				l, ways = waysOfOVN(t)
			} else {
				l, ways = wayOfSwitch(t)
			}
			// What has been idle for long would be removed while the rest is sent.
			l.Node.VSCTL("set", "Open_vSwitch", ".", "other_config:max-idle=600000")
			if tt.tries {
				usePrefixTries(l.Node)
			}
			before := countDatapathFlows(t, l.Node, ways)
			s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement `+tt.placement+`
    }
    prometheus `+metricsAddr+`
    ready `+readyAddr+` {
        monitor continuously
    }
    `+tt.block+`
}`)
			if got := s.metric("coredns_ofpunt_guests", "bridge", lab.Bridge); got == 0 {
				t.Fatal("no guests are served")
			}
			for name, got := range countDatapathFlows(t, l.Node, ways) {
				t.Logf("%s: %d datapath flows, %d without puntdns", name, got, before[name])
				if got > before[name]+moreFlows {
					t.Errorf("%s: %d datapath flows for %d addresses, %d without puntdns", name, got, hosts, before[name])
				}
			}
			s.endWell()
		})
	}
}

// waysOfOVN are one within a switch and one through a router.
func waysOfOVN(t *testing.T) (*lab.Lab, []way) {
	t.Helper()
	n := newRouted(t)
	// Port security would keep from the receivers what is not for their own addresses.
	n.NBCTL("lsp-set-port-security", "red-peer", "--", "lsp-set-port-security", "green-far")
	n.NBCTL("lr-route-add", "r", "172.20.0.0/16", "10.0.1.21", "--", "lr-route-add", "r", "fd99::/64", "fd00:11::21")
	for _, direction := range []string{"from-lport", "to-lport"} {
		n.NBCTL("acl-del", "red", direction, "--", "acl-del", "green", direction)
	}
	n.Sync()
	prefixes := [2]netip.Prefix{netip.MustParsePrefix("172.20.0.0/16"), netip.MustParsePrefix("fd99::/64")}
	return n.Lab, []way{
		{"on-link", n.vm, n.peer, n.peer.MAC, true, prefixes},
		{"routed", n.vm, n.far, redGateway, true, prefixes},
	}
}

// wayOfSwitch is one through a switch that learns addresses.
func wayOfSwitch(t *testing.T) (*lab.Lab, []way) {
	t.Helper()
	l := lab.New(t, lab.Options{Plain: true})
	var guests [2]*lab.Guest
	for i := range guests {
		g := l.Node.AddGuest(lab.Guest{
			Name: fmt.Sprintf("vm%d", i), MAC: fmt.Sprintf("02:00:00:00:00:%d", 11+i),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", 11+i), fmt.Sprintf("fd00:10::%d/64", 11+i)),
		})
		l.Node.VSCTL("set", "Port", g.NodePort, "tag=1", "other_config:net_uuid=net")
		guests[i] = g
	}
	return l, []way{{"on-link", guests[0], guests[1], guests[1].MAC, false, [2]netip.Prefix{netip.MustParsePrefix("172.20.0.0/16"), netip.MustParsePrefix("fd99::/64")}}}
}
