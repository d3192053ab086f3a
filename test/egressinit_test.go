// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// closedNet is a switch without ACLs: a guest to close, a peer, and a server that has the resolver addresses. puntdns
// does not run.
type closedNet struct {
	*lab.Lab
	t                *testing.T
	vm, peer, server *lab.Guest
	// datagrams of the guests, for each family
	fromVM, fromServer, toPeer []datagramBox
}

const closedMAC = "02:00:00:00:01:11" // of vm

func newClosedNet(t *testing.T) *closedNet {
	t.Helper()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	v4 := l.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24", `options={lease_time="3600",server_id="10.0.1.1",server_mac="02:00:00:00:01:01"}`)
	v6 := l.NBCTL("create", "DHCP_Options", `cidr="fd00:1::/64"`, `options={server_id="02:00:00:00:01:01"}`)
	guest := func(name string, number int, spec lab.Guest) *lab.Guest {
		spec.Name, spec.Switch, spec.MAC = name, "red", fmt.Sprintf("02:00:00:00:01:%d", number)
		spec.Addrs = append(lab.Prefixes(fmt.Sprintf("10.0.1.%d/24", number), fmt.Sprintf("fd00:1::%d/64", number)), spec.Addrs...)
		return l.Node.AddGuest(spec)
	}
	n := &closedNet{Lab: l, t: t,
		vm: guest("vm", 11, lab.Guest{PortSecurity: true, Settings: []string{"dhcpv4_options=" + v4, "dhcpv6_options=" + v6},
			Routes: []string{resolver4 + " dev " + lab.Iface, resolver6 + " dev " + lab.Iface}}),
		peer:   guest("peer", 12, lab.Guest{}),
		server: guest("server", 53, lab.Guest{Addrs: lab.Prefixes(resolver4+"/32", resolver6+"/128")}),
	}
	for _, addr := range []string{resolver4, resolver6, "10.0.1.53"} {
		n.server.ServeDNS(net.JoinHostPort(addr, "53"), "www.example.org. 60 IN A 192.0.2.5")
	}
	for i := range n.peer.Addrs[:2] {
		box := func(g *lab.Guest) datagramBox {
			return datagrams(t, g, netip.AddrPortFrom(g.Addrs[i].Addr(), 7000).String())
		}
		n.fromVM, n.fromServer, n.toPeer = append(n.fromVM, box(n.vm)), append(n.fromServer, box(n.server)), append(n.toPeer, box(n.peer))
		metadataService(t, n.vm.Host, n.vm.Addrs[i].Addr().String())
		metadataService(t, n.peer.Host, n.peer.Addrs[i].Addr().String())
	}
	metadataService(t, n.server.Host, resolver4)
	l.Sync()
	return n
}

// sh runs commands with the lab's Northbound database, and waits until the switch follows them.
func (n *closedNet) sh(commands string) (string, error) {
	n.t.Helper()
	out, err := n.Node.Exec(within(n.t, wait), "env", "OVN_NB_DB="+n.NB, "sh", "-euc", commands)
	n.Settle()
	return out, err
}

// init returns the output of puntctl egress init, and a function that runs the command in a comment of it.
func (n *closedNet) init(args ...string) (script string, do func(command string)) {
	n.t.Helper()
	o := &operator{n.t, n.Lab, filepath.Join(n.Dir, "none.sock")}
	script, errs, status := o.run(append([]string{"egress", "init"}, args...)...)
	if status != 0 {
		n.t.Fatalf("exit status %d: %s", status, errs)
	}
	return script, func(command string) {
		n.t.Helper()
		m := regexp.MustCompile(`(?m)^# +(ovn-nbctl ` + command + ` .*)$`).FindStringSubmatch(script)
		if m == nil {
			n.t.Fatalf("no command %s in\n%s", command, script)
		}
		if out, err := n.sh(strings.ReplaceAll(m[1], " PORT ", " vm ")); err != nil {
			n.t.Fatalf("%s: %v%s", m[1], err, out)
		}
	}
}

// rows are the rows of Northbound that the commands make.
func (n *closedNet) rows() string {
	n.t.Helper()
	return n.NBCTL("list", "Port_Group") + n.NBCTL("list", "ACL") + n.NBCTL("list", "Meter") + n.NBCTL("list", "Meter_Band")
}

// gets checks which families of datagrams from the guest its peer gets. If a family is closed, the peer gets a later
// datagram of the server alone. The server sends it after an answer to the guest, so the switch has handled the guest's
// datagram before.
func (n *closedNet) gets(t *testing.T, what string, open ...bool) {
	t.Helper()
	for i, open := range open {
		to := n.toPeer[i].LocalAddr().String()
		n.fromVM[i].send(t, what, to)
		if open {
			n.toPeer[i].want(t, what, n.fromVM[i].LocalAddr().String())
			continue
		}
		n.resolves(t, resolver4)
		n.fromServer[i].send(t, "later", to)
		n.toPeer[i].want(t, "later", n.fromServer[i].LocalAddr().String())
	}
}

// resolves has the guest ask a server over UDP and TCP.
func (n *closedNet) resolves(t *testing.T, server string) {
	t.Helper()
	const name, want = "www.example.org.", "NOERROR 192.0.2.5"
	if r, err := exchange(within(t, wait), n.vm, server, name, dns.TypeA); err != nil || inShort(r) != want {
		t.Errorf("over UDP %s: %v, %v", server, r, err)
	}
	if r, _, err := n.vm.ExchangeTCP(within(t, wait), new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(server, "53")); err != nil || inShort(r) != want {
		t.Errorf("over TCP %s: %v, %v", server, r, err)
	}
}

// answered has the guest reply to connections of its peer.
func (n *closedNet) answered(t *testing.T) {
	t.Helper()
	for _, a := range n.vm.Addrs {
		if got := metadata(t, n.peer, a.Addr().String()); got != "metadata" {
			t.Errorf("the peer connects to %s: %s", a, got)
		}
	}
}

// leases has the guest ask for addresses, DHCPDISCOVER (RFC 2131) and SOLICIT (RFC 8415).
func (n *closedNet) leases(t *testing.T) {
	t.Helper()
	mac, err := net.ParseMAC(closedMAC)
	if err != nil {
		t.Fatal(err)
	}
	raw := n.vm.Raw()
	defer raw.Close()

	discover := make([]byte, 240)
	copy(discover, []byte{1, 1, 6, 0, 0xca, 0xfe, 0, 1}) // request, Ethernet, length, hops, xid
	copy(discover[28:], mac)
	binary.BigEndian.PutUint32(discover[236:], 0x63825363)
	discover = append(discover, 53, 1, 1, 255)                                     // message type DISCOVER
	solicit := append([]byte{1, 0xca, 0xfe, 1, 0, 1, 0, 10, 0, 3, 0, 1}, mac...)   // client identifier, a DUID-LL
	solicit = append(append(solicit, 0, 3, 0, 12, 0, 0, 0, 1), make([]byte, 8)...) // IA_NA with IAID 1

	for _, tt := range []struct {
		name    string
		frame   udpFrame
		port    uint16 // of the server
		payload func([]byte) bool
	}{
		{"DHCPv4", udpFrame{dstMAC: "ff:ff:ff:ff:ff:ff", src: "0.0.0.0:68", dst: "255.255.255.255:67", payload: discover}, 67,
			func(p []byte) bool {
				return len(p) > 240 && p[0] == 2 && bytes.Equal(p[16:20], n.vm.Addrs[0].Addr().AsSlice())
			}},
		{"DHCPv6", udpFrame{dstMAC: "33:33:00:01:00:02", src: "[fe80::ff:fe00:111]:546", dst: "[ff02::1:2]:547", payload: solicit}, 547,
			func(p []byte) bool {
				return len(p) > 4 && p[0] == 2 && bytes.Contains(p, n.vm.Addrs[1].Addr().AsSlice())
			}},
	} {
		tt.frame.srcMAC, tt.frame.ttl = closedMAC, 64
		if err := raw.Send(tt.frame.build(t)); err != nil {
			t.Fatal(err)
		}
		_, err := raw.RecvMatch(within(t, wait), func(f []byte) bool {
			header := 14 + 20
			if f[12] == 0x86 {
				header = 14 + 40
			}
			return len(f) > header+8 && binary.BigEndian.Uint16(f[header:]) == tt.port && tt.payload(udpPayload(f))
		})
		if err != nil {
			t.Errorf("%s: no offer: %v", tt.name, err)
		}
	}
}

// keepsDHCP has the guest send DHCP messages to the MAC address of its peer. A router would forward them.
func (n *closedNet) keepsDHCP(t *testing.T) {
	t.Helper()
	raw, peer := n.vm.Raw(), n.peer.Raw()
	defer raw.Close()
	defer peer.Close()
	routed, later := []byte("to be routed"), []byte("later")
	for _, f := range []udpFrame{{src: "0.0.0.0:68", dst: "255.255.255.255:67"}, {src: "[fe80::ff:fe00:111]:546", dst: "[ff02::1:2]:547"}} {
		f.srcMAC, f.dstMAC, f.ttl, f.payload = closedMAC, n.peer.MAC, 64, routed
		if err := raw.Send(f.build(t)); err != nil {
			t.Fatal(err)
		}
	}
	n.resolves(t, resolver4)
	n.fromServer[0].send(t, string(later), n.toPeer[0].LocalAddr().String())
	got, err := peer.RecvMatch(within(t, wait), func(f []byte) bool { return bytes.Contains(f, routed) || bytes.Contains(f, later) })
	if err != nil || bytes.Contains(got, routed) {
		t.Errorf("the peer gets a DHCP message for its own MAC address: %x, %v", got, err)
	}
	n.toPeer[0].want(t, string(later), n.fromServer[0].LocalAddr().String())
}

// mark sets a bit of pkt_mark in the guest's packets to an address, as puntdns does, and returns a function that ends it.
func (n *closedNet) mark(t *testing.T, bit int, match string) (end func()) {
	t.Helper()
	table := n.Node.Stage("ls_in_pre_acl")
	match = fmt.Sprintf("table=%d,%s,pkt_mark=0/%#x,%s", table, (&routed{Lab: n.Lab, t: t}).portMatch("vm"), 1<<bit, match)
	n.Node.OFCTL("add-flow", lab.Bridge, fmt.Sprintf("priority=65000,%s,actions=load:1->NXM_NX_PKT_MARK[%d],resubmit(,%d)", match, bit, table))
	n.Settle()
	return func() {
		n.Node.OFCTL("--strict", "del-flows", lab.Bridge, "priority=65000,"+match)
		n.Settle()
	}
}

// The commands that puntctl egress init prints close a guest: it resolves names and gets addresses by DHCP, and sends
// nothing else unless its packets have a mark.
func TestEgressInit(t *testing.T) {
	t.Parallel()
	n := newClosedNet(t)
	before := n.rows()
	n.gets(t, "before", true, true)

	script, do := n.init("sandboxes")
	if out, err := n.sh(script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n.gets(t, "without a port", true, true)
	made := n.rows()
	if _, err := n.sh(script); err == nil || n.rows() != made {
		t.Errorf("a second time: %v", err)
	}
	do("add Port_Group")

	t.Run("closed", func(t *testing.T) {
		n.leases(t)
		n.resolves(t, resolver4)
		n.resolves(t, resolver6)
		if _, err := n.vm.Exec(within(t, wait), "ip", "-6", "neighbour", "flush", "dev", lab.Iface); err != nil {
			t.Fatal(err)
		}
		n.fromVM[1].send(t, "discover", n.toPeer[1].LocalAddr().String())
		n.Eventually("the guest has the MAC address of its peer", func() error {
			out, err := n.vm.Exec(within(t, wait), "ip", "-6", "neighbour", "show", "fd00:1::12")
			return errorUnless(err == nil && strings.Contains(out, n.peer.MAC), "%s%v", out, err)
		})
		n.gets(t, "closed", false, false)
		n.answered(t)
		// The ports of DHCP do not open another server.
		dhcp, server := datagrams(t, n.vm, "10.0.1.11:68"), datagrams(t, n.peer, "10.0.1.12:67")
		dhcp.send(t, "unicast", "10.0.1.12:67")
		n.resolves(t, resolver4)
		n.fromServer[0].send(t, "later", "10.0.1.12:67")
		server.want(t, "later", n.fromServer[0].LocalAddr().String())
		n.keepsDHCP(t)
	})
	t.Run("marked", func(t *testing.T) {
		end := n.mark(t, 31, "ip,nw_dst=10.0.1.12")
		n.gets(t, "marked", true, false)
		end()
		n.gets(t, "not marked again", false, false)
	})
	do("remove Port_Group")
	n.gets(t, "removed", true, true)
	do("add Port_Group")
	n.gets(t, "added again", false, false)
	do("pg-del")
	n.gets(t, "undone", true, true)
	if after := n.rows(); after != before {
		t.Errorf("undo leaves\n%s", after)
	}

	t.Run("existing group", func(t *testing.T) {
		n.NBCTL("pg-add", "watched", "vm")
		before := n.rows()
		script, do := n.init("watched", "--existing", "--log", "info")
		if out, err := n.sh(script); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		n.gets(t, "closed", false, false)
		made := n.rows()
		if _, err := n.sh(script); err == nil || n.rows() != made {
			t.Errorf("a second time: %v", err)
		}
		// Without --log there is no meter, which ovn-nbctl would refuse to add again.
		plain, _ := n.init("watched", "--existing")
		if out, err := n.sh(plain); err != nil || n.rows() != made {
			t.Errorf("with all ACLs: %v\n%s", err, out)
		}
		n.NBCTL("--type=port-group", "acl-del", "watched", "from-lport", "32766", "inport == @watched && ip4 && pkt.mark[31] == 0")
		n.Sync()
		n.gets(t, "without an ACL", true, false)
		if out, err := n.sh(plain); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		n.gets(t, "repaired", false, false)
		do("meter-del")
		n.gets(t, "undone", true, true)
		if after := n.rows(); after != before {
			t.Errorf("undo leaves\n%s", after)
		}
		n.NBCTL("pg-del", "watched")
	})

	t.Run("options", func(t *testing.T) {
		const bit = 29
		script, do := n.init("boxes", "--resolver", "10.0.1.53", "--reject", "--metadata", "--log", "warning", "--bit", fmt.Sprint(bit))
		if out, err := n.sh(script); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		do("add Port_Group")
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EHOSTUNREACH) {
				t.Errorf("%s: %v, want a refusal", what, err)
			}
		}
		n.resolves(t, "10.0.1.53")
		_, err := exchange(within(t, wait), n.vm, resolver4, "www.example.org.", dns.TypeA)
		refused("another resolver", err)
		if got := metadata(t, n.vm, metadata4); got != "metadata" {
			t.Errorf("the metadata service: %s", got)
		}
		dial := func(a netip.Prefix) error {
			conn, err := n.vm.Dial(within(t, wait), "tcp", netip.AddrPortFrom(a.Addr(), 80).String())
			if err == nil {
				conn.Close()
			}
			return err
		}
		for _, a := range n.peer.Addrs {
			refused(a.String(), dial(a))
		}
		n.refusesEcho(t)
		end := n.mark(t, bit, "ipv6,ipv6_dst=fd00:1::12")
		if err := dial(n.peer.Addrs[1]); err != nil {
			t.Errorf("marked: %v", err)
		}
		refused("the other family", dial(n.peer.Addrs[0]))
		end()
		n.Eventually("ovn-controller logs a refused packet", func() error {
			log := readFile(t, filepath.Join(n.Node.Dir, "ovn-controller.log"))
			return errorUnless(strings.Contains(log, `name="boxes", verdict=reject, severity=warning`), "%s", log)
		})
		do("pg-del")
		if after := n.rows(); after != before {
			t.Errorf("undo leaves\n%s", after)
		}
	})
}

// refusesEcho pings the peer over IPv6 (RFC 4443).
func (n *closedNet) refusesEcho(t *testing.T) {
	t.Helper()
	const unreachable, request, reply = 1, 128, 129
	conn, err := n.vm.ListenPacket("ip6:ipv6-icmp", "fd00:1::11")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.WriteTo([]byte{request, 0, 0, 0, 0, 1, 0, 1}, &net.IPAddr{IP: net.ParseIP("fd00:1::12")}); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 1500); ; {
		if _, _, err := conn.ReadFrom(b); err != nil {
			t.Fatalf("neither a reply nor an error: %v", err)
		}
		if b[0] == reply || b[0] == unreachable {
			if b[0] == reply {
				t.Error("the peer has answered a ping")
			}
			return
		}
	}
}
