// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// portSetup makes ports of many kinds on the switch red. northd chooses addresses
// from 10.0.1.200 on, and of IPv6 by the MAC.
var portSetup = []string{
	"set Logical_Switch red other_config:subnet=10.0.1.0/24 other_config:exclude_ips=10.0.1.1..10.0.1.199 other_config:ipv6_prefix=fd00:1::",
	"lsp-add red red-two -- lsp-set-addresses red-two 02:00:00:00:01:62~10.0.1.62~fd00:1::62 02:00:00:00:01:63~10.0.1.63",
	"lsp-add red red-some -- lsp-set-addresses red-some 02:00:00:00:01:64~10.0.1.64 02:00:00:00:01:65~dynamic",
	"lsp-add red red-bare",
	"lsp-add red red-mac -- lsp-set-addresses red-mac 02:00:00:00:01:66",
	"lsp-add red red-known -- lsp-set-addresses red-known unknown 02:00:00:00:01:67~10.0.1.67",
	"lsp-add red red-local -- lsp-set-type red-local localport -- lsp-set-addresses red-local 02:00:00:00:01:68~10.0.1.68",
	"lsp-add red red-net -- lsp-set-type red-net localnet -- lsp-set-addresses red-net unknown 02:00:00:00:01:69~10.0.1.69 -- set Logical_Switch_Port red-net options:network_name=physical",
	"lsp-add red red-vip -- lsp-set-type red-vip virtual -- lsp-set-addresses red-vip 02:00:00:00:01:88~10.0.1.88" +
		" -- set Logical_Switch_Port red-vip options:virtual-ip=10.0.1.88 options:virtual-parents=red-p1,red-p2",
}

// portQuestions have the answers with both databases read, and those with
// Southbound alone where that knows less.
var portQuestions = []struct{ name, qname, qtype, want, southbound string }{
	{"address of IPAM", "ipam.", "A", "NOERROR 10.0.1.201", nxdomain},
	{"IPv6 address of IPAM", "ipam.cloud.internal.", "AAAA", "NOERROR fd00:1::ff:fe00:171", nxdomain},
	{"back from an address of IPAM", reverseName("10.0.1.201"), "PTR", "NOERROR ipam.cloud.internal.", nxdomain},
	{"fixed address and one of IPAM", "some.", "A", "NOERROR 10.0.1.64 10.0.1.200", "NOERROR 10.0.1.64"},
	{"addresses of two MACs", "two.", "A", "NOERROR 10.0.1.62 10.0.1.63", ""},
	{"of two MACs, in the other family", "two.", "AAAA", "NOERROR fd00:1::62", ""},
	{"back from the second MAC's", reverseName("10.0.1.63"), "PTR", "NOERROR two.cloud.internal.", ""},
	{"no addresses", "bare.", "A", nxdomain, ""},
	{"MAC alone", "mac.cloud.internal.", "A", nxdomain, ""},
	{"unknown", "wild.", "A", nxdomain, ""},
	{"unknown beside an address", "known.", "A", "NOERROR 10.0.1.67", ""},
	{"virtual, without a parent", "vip.", "A", "NOERROR 10.0.1.88", ""},
	{"virtual, with the domain", "vip.cloud.internal.", "A", "NOERROR 10.0.1.88", ""},
	{"back from a virtual one's", reverseName("10.0.1.88"), "PTR", "NOERROR vip.cloud.internal.", ""},
	{"switched off", "off.", "A", nxdomain, "NOERROR 10.0.1.73"},
	{"back from one switched off", reverseName("10.0.1.73"), "PTR", nxdomain, "NOERROR off.cloud.internal."},
	{"localport", "local.", "A", nxdomain, ""},
	{"back from a localport's", reverseName("10.0.1.68"), "PTR", nxdomain, ""},
	{"localnet", "net.", "A", nxdomain, ""},
	{"router", "r-red.", "A", nxdomain, ""},
	{"back from a router's", reverseName("10.0.1.1"), "PTR", nxdomain, ""},
}

// Which ports have names, and which guests may ask.
func TestPorts(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	for _, command := range portSetup {
		var args []string
		for _, word := range strings.Fields(command) {
			args = append(args, strings.ReplaceAll(word, "~", " "))
		}
		l.NBCTL(args...)
	}
	l.Sync() // so that the first address of the pool is taken
	guest := func(name, mac, address string, spec lab.Guest) *lab.Guest {
		spec.Name, spec.Switch, spec.MAC = name, "red", mac
		spec.Addrs, spec.Gateway4 = lab.Prefixes(address+"/24"), lab.Addr("10.0.1.1")
		return l.Node.AddGuest(spec)
	}
	ipam := guest("red-ipam", "02:00:00:00:01:71", "10.0.1.201", lab.Guest{Addresses: "02:00:00:00:01:71 dynamic"})
	wild := guest("red-wild", "02:00:00:00:01:72", "10.0.1.72", lab.Guest{Addresses: "unknown"})
	off := guest("red-off", "02:00:00:00:01:73", "10.0.1.73", lab.Guest{PortSecurity: true, Settings: []string{"enabled=false"}})
	for _, port := range strings.Fields(l.NBCTL("--bare", "--columns=name", "list", "Logical_Switch_Port")) {
		l.NBCTL("set", "Logical_Switch_Port", port, "options:hostname="+strings.TrimPrefix(port, "red-"))
	}
	l.Sync()

	for _, tc := range []struct{ name, northbound string }{{"both databases", "northbound $NB"}, {"Southbound alone", ""}} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, l, pipelineCorefile("", tc.northbound+"\n        domain cloud.internal", ""))
			for _, q := range portQuestions {
				want := q.want
				if tc.northbound == "" && q.southbound != "" {
					want = q.southbound
				}
				if r := wild.Dig("@"+resolver4, q.qname, q.qtype); r.String() != want {
					t.Errorf("%s: %s, want %s\n%s", q.name, r, want, r.Out)
				}
			}
			if r := ipam.Dig("@"+resolver4, "two."); r.String() != "NOERROR 10.0.1.62 10.0.1.63" {
				t.Errorf("a guest with an address of IPAM asks: %s\n%s", r, r.Out)
			}
			// Who is switched off does not get as far as a punt: the next one is the
			// only one.
			before := s.metric("coredns_ofpunt_packet_ins_total")
			if r := off.Dig("@"+resolver4, "two.", "+time=1"); r.Err == nil {
				t.Errorf("a guest that is switched off asks: %s", r)
			}
			if r := wild.Dig("@"+resolver4, "two."); r.String() != "NOERROR 10.0.1.62 10.0.1.63" {
				t.Errorf("another asks: %s\n%s", r, r.Out)
			}
			s.reaches(before+1, "coredns_ofpunt_packet_ins_total")

			l.NBCTL("--wait=hv", "lsp-set-enabled", "red-off", "enabled")
			l.Eventually("a guest that is switched on", func() error {
				if r := off.Dig("@"+resolver4, "off."); r.String() != "NOERROR 10.0.1.73" {
					return errors.New(r.String())
				}
				return nil
			})
			l.NBCTL("--wait=hv", "lsp-set-enabled", "red-off", "disabled")
			s.endWell()
		})
	}
}

// A virtual port has the name of its address, whichever of its parents holds that;
// who asks from the address is the parent.
func TestVirtualPort(t *testing.T) {
	t.Parallel()
	const vip = "10.0.1.88"
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	parents := [2]*lab.Guest{}
	for i := range parents {
		number := i + 1
		parents[i] = aclGuest(l, "red", 1, number)
		own := fmt.Sprintf("%s 10.0.1.%d fd00:1::%d", parents[i].MAC, 10+number, 10+number)
		l.NBCTL("lsp-set-port-security", parents[i].Port, own+" "+vip)
	}
	vm := aclGuest(l, "red", 1, 3)
	l.NBCTL("lsp-add", "red", "red-vip", "--", "lsp-set-type", "red-vip", "virtual",
		"--", "lsp-set-addresses", "red-vip", "02:00:00:00:01:88 "+vip,
		"--", "set", "Logical_Switch_Port", "red-vip", "options:hostname=vip", "options:virtual-ip="+vip, "options:virtual-parents=red-vm1,red-vm2")
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "domain cloud.internal", ""))
	named := func(t *testing.T) {
		t.Helper()
		for _, q := range []struct{ name, qtype, want string }{
			{"vip", "A", "NOERROR " + vip},
			{"vip.cloud.internal", "A", "NOERROR " + vip},
			{reverseName(vip), "PTR", "NOERROR vip.cloud.internal."},
		} {
			for _, g := range []*lab.Guest{vm, parents[0], parents[1]} {
				if r := g.Dig("@"+resolver4, q.name, q.qtype); r.String() != q.want {
					t.Errorf("%s asks for %s: %s, want %s", g.Name, q.name, r, q.want)
				}
			}
		}
	}
	named(t)
	for round, holder := range []*lab.Guest{parents[0], parents[1], parents[0]} {
		t.Run(fmt.Sprintf("round %d at %s", round+1, holder.Name), func(t *testing.T) {
			mac, err := net.ParseMAC(holder.MAC)
			if err != nil {
				t.Fatal(err)
			}
			raw := holder.Raw()
			defer raw.Close()
			// The gratuitous ARP of who takes over (RFC 5227, section 3).
			claim := arpFrame(1, net.HardwareAddr{255, 255, 255, 255, 255, 255}, mac, lab.Addr(vip), make(net.HardwareAddr, 6), lab.Addr(vip))
			l.Eventually("the virtual port's parent", func() error {
				if err := raw.Send(claim); err != nil {
					return err
				}
				if got := l.SBCTL("--bare", "--columns=virtual_parent", "find", "Port_Binding", "logical_port=red-vip"); got != holder.Port {
					return fmt.Errorf("it is %q, want %s", got, holder.Port)
				}
				return nil
			})
			l.Sync()
			named(t)

			// What is asked from the address is the parent's.
			raw = holder.Raw()
			defer raw.Close()
			qname := fmt.Sprintf("of-%d.vip.", round)
			for name, want := range map[string]string{"vip.": "NOERROR " + vip, qname: nxdomain} {
				m := new(dns.Msg).SetQuestion(name, dns.TypeA)
				f := udpFrame{
					srcMAC: holder.MAC, dstMAC: "02:00:00:00:01:01", ttl: 64,
					src: vip + ":4000", dst: resolver4 + ":53", payload: pack(t, m),
				}
				got, err := rawExchange(within(t, wait), raw, f.build(t), f.dst)
				if err != nil {
					t.Fatal(err)
				}
				r := new(dns.Msg)
				if err := r.Unpack(udpPayload(got)); err != nil || r.Id != m.Id || inShort(r) != want {
					t.Errorf("%s from %s: %v, want %s: %v", name, vip, r, want, err)
				}
			}
			s.log(regexp.QuoteMeta("asked "+qname+" A by "+holder.Port+" on red") + `\n`)
			if got := strings.Count(s.Log(), "asked "+qname); got != 1 {
				t.Errorf("%d queries in the log for one:\n%s", got, s.Log())
			}
		})
	}
	s.endWell()
}

// A port may go from the switch and not from its database, as when the kernel loses
// the tap of a VM that is killed. The userspace switch has it back at once.
func TestPortVanishes(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.50"}, "red")
	stays, goes := aclGuest(l, "red", 1, 1), aclGuest(l, "red", 1, 2)
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "", ""))
	const want = "NOERROR 30 10.0.1.50"
	expect(t, goes, want, "@"+resolver4, "db.internal")
	l.Node.AppCtl("ovs-vswitchd", "dpctl/del-if", l.Datapath+"@ovs-"+l.Datapath, goes.NodePort)
	l.Eventually("the port is deleted", func() error {
		log, err := os.ReadFile(filepath.Join(l.Node.Dir, "ovs-vswitchd.log"))
		if err == nil && !bytes.Contains(log, []byte("deleted interface "+goes.NodePort)) {
			err = errors.New("not so far")
		}
		return err
	})
	expect(t, stays, want, "@"+resolver4, "db.internal")
	expect(t, stays, want, "@"+resolver6, "db.internal")
	s.alive()
	l.Eventually("the port is served again", func() error {
		if got := briefly(goes.Dig("@"+resolver4, "db.internal")); got != want {
			return errors.New(got)
		}
		return nil
	})
	s.endWell()
}

// reuse is two tenants' guests, alike to their MACs and addresses, that take turns
// at one OpenFlow port and ask all the time.
type reuse struct {
	*lab.Lab
	server *server
	askers [2]*asker
	// settings are columns of table Port.
	settings [2][]string
}

// What the tenants ask for: a name of their own networks, and one that it takes the
// upstream of each a while to answer, so that there always are queries on the way.
const (
	quickName = "who.test."
	slowName  = "slow.test."
	slowness  = 300 * time.Millisecond
)

var (
	quickData = [2]string{"10.0.1.101", "10.0.1.201"}
	slowData  = [2]string{"192.0.2.101", "192.0.2.201"}
)

// asker is one of them. The first bit of its DNS IDs is its number.
type asker struct {
	*lab.Guest
	number      int
	quick, slow atomic.Int64 // right answers
	wrong       mistakes
	// unheard is set while puntdns may not have heard that the port is this asker's: until
	// there is a right answer. early counts the other's answers until then.
	unheard atomic.Bool
	early   atomic.Int64
}

// ask sends queries at a steady pace, whatever becomes of them.
func (a *asker) ask(ctx context.Context, raw *lab.Raw, frames [][]byte) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		if err := raw.Send(frames[i%len(frames)]); err != nil {
			a.wrong.add(err.Error())
			return
		}
		<-tick.C
	}
}

// frames are as many queries as there are IDs for: both families, one in four for
// the slow name.
func (a *asker) frames(t *testing.T) [][]byte {
	all := make([][]byte, 1<<15)
	for i := range all {
		name := quickName
		if i%4 == 0 {
			name = slowName
		}
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		m.Id = uint16(a.number<<15 | i)
		f := udpFrame{srcMAC: a.MAC, dstMAC: redGateway, ttl: 64, src: "10.0.1.11:4000", dst: resolver4 + ":53", payload: pack(t, m)}
		if i%3 == 0 {
			f.src, f.dst = "[fd00:1::11]:4000", "["+resolver6+"]:53"
		}
		all[i] = f.build(t)
	}
	return all
}

// listen looks at every answer that reaches the guest. Where the switch and the
// database do not agree on who is at a port there is no answer but SERVFAIL.
func (a *asker) listen(ctx context.Context, raw *lab.Raw) {
	from4, from6 := sentBy(resolver4+":53"), sentBy("["+resolver6+"]:53")
	for {
		f, err := raw.RecvMatch(ctx, func(f []byte) bool { return from4(f) || from6(f) })
		if ctx.Err() != nil {
			return
		}
		r := new(dns.Msg)
		if err == nil {
			err = r.Unpack(udpPayload(f))
		}
		if err != nil || len(r.Question) != 1 {
			a.wrong.add(fmt.Sprintf("%s: %v %v", a.Name, err, r))
			return
		}
		switch name, got := r.Question[0].Name, inShort(r); {
		case int(r.Id>>15) != a.number && a.unheard.Load():
			a.early.Add(1)
		case int(r.Id>>15) != a.number:
			a.wrong.add(fmt.Sprintf("%s gets the other's answer: %s %s", a.Name, name, got))
		case got == "SERVFAIL":
		case name == quickName && got == "NOERROR "+quickData[a.number] && !r.Authoritative:
			// By OVN itself (ovn-nb(5), DNS), as long as there is no punt.
		case name == quickName && got == "NOERROR "+quickData[a.number]:
			a.unheard.Store(false)
			a.quick.Add(1)
		case name == slowName && got == "NOERROR "+slowData[a.number]:
			a.unheard.Store(false)
			a.slow.Add(1)
		default:
			a.wrong.add(fmt.Sprintf("%s is told %s %s", a.Name, name, got))
		}
	}
}

// served waits until the guest has had more answers of both kinds.
func (n *reuse) served(a *asker) {
	quick, slow := a.quick.Load()+20, a.slow.Load()+5
	n.Eventually("answers to "+a.Name, func() error {
		if q, s := a.quick.Load(), a.slow.Load(); q < quick || s < slow {
			return fmt.Errorf("%d and %d slow ones are missing", quick-q, slow-s)
		}
		return nil
	})
}

// plug adds the port of a guest to the bridge, and returns its OpenFlow port number.
func (n *reuse) plug(a *asker, request ...string) string {
	args := append([]string{"add-port", lab.Bridge, a.NodePort, "--", "set", "Interface", a.NodePort,
		"external_ids:iface-id=" + a.Port, `external_ids:attached-mac="` + a.MAC + `"`}, request...)
	if s := n.settings[a.number]; len(s) > 0 {
		args = append(append(args, "--", "set", "Port", a.NodePort), s...)
	}
	n.Node.VSCTL(args...)
	return n.Node.VSCTL("get", "Interface", a.NodePort, "ofport")
}

func (n *reuse) unplug(a *asker) { n.Node.VSCTL("del-port", lab.Bridge, a.NodePort) }

// When a number passes on. What puntdns has not heard of by then it can't heed: an answer may
// reach the next guest (docs/threat-model.md), though none that this one has asked for.
const (
	heard   = iota // once puntdns has no guest at it
	atOnce         // as soon as the switch has it free
	stopped        // at once, and while puntdns is stopped
	ways
)

// takeTurns has the guests change places so many times.
func (n *reuse) takeTurns(t *testing.T, times int) {
	port := n.askers[0].OFPort
	n.unplug(n.askers[1])
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for _, a := range n.askers {
		frames, raw := a.frames(t), a.Raw()
		defer raw.Close()
		wg.Go(func() { a.ask(ctx, raw, frames) })
		wg.Go(func() { a.listen(ctx, raw) })
	}
	n.served(n.askers[0])
	var longest time.Duration
	for i := range times {
		goes, comes, way := n.askers[i%2], n.askers[1-i%2], i/2%ways
		if way == stopped {
			n.signal(t, syscall.SIGSTOP)
		}
		n.unplug(goes)
		left := time.Now()
		if way == heard {
			n.server.reaches(0, "coredns_ofpunt_guests")
		}
		comes.unheard.Store(way != heard)
		got := n.plug(comes, fmt.Sprintf("ofport_request=%d", port))
		if way == stopped {
			n.signal(t, syscall.SIGCONT)
		}
		longest = max(longest, time.Since(left))
		if got != fmt.Sprint(port) {
			t.Fatalf("%s is at port %s, want %d", comes.Name, got, port)
		}
		n.served(comes)
	}
	cancel()
	wg.Wait()
	t.Logf("the port was free for %s at most", longest)
	for _, a := range n.askers {
		t.Logf("%s: %d right answers, %d of them slow; %d of the other's before puntdns had heard",
			a.Name, a.quick.Load()+a.slow.Load(), a.slow.Load(), a.early.Load())
		a.wrong.report(t)
	}
	n.freshNumber(t)
}

func (n *reuse) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := n.server.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// freshNumber checks that the switch gives a number to another port only on request, as
// docs/threat-model.md has it.
func (n *reuse) freshNumber(t *testing.T) {
	t.Helper()
	for i := range 4 {
		goes, comes := n.askers[i%2], n.askers[1-i%2]
		was := n.Node.VSCTL("get", "Interface", goes.NodePort, "ofport")
		n.unplug(goes)
		if got := n.plug(comes); got == was {
			t.Errorf("%s has number %s, which %s had just before, without a request", comes.Name, got, goes.Name)
		}
	}
}

// corefile has a view for each tenant's network, with names and an upstream of its
// own. DATA in names is the tenant's.
func (n *reuse) corefile(placement, names string, networks [2]string) string {
	text := ""
	for i, network := range networks {
		up := n.Upstream()
		up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			m := new(dns.Msg).SetReply(r)
			header := dns.RR_Header{Name: slowName, Rrtype: dns.TypeA, Class: dns.ClassINET}
			m.Answer = []dns.RR{&dns.A{Hdr: header, A: net.ParseIP(slowData[i])}}
			time.AfterFunc(slowness, func() { _ = w.WriteMsg(m) })
		}))
		properties := ""
		if i == 0 {
			properties = "{\n openflow $MGMT\n ovsdb $OVSDB\n placement " + placement + "\n rate off\n }\n prometheus " + metricsAddr + "\n ready " + readyAddr + " {\n monitor continuously\n }"
		}
		text += strings.NewReplacer("PROPERTIES", properties, "NETWORK", network, "NAMES", names, "UPSTREAM", up.Addr).Replace(`. {
    ofpunt br-int PROPERTIES
    metadata
    errors
    view v` + fmt.Sprint(i) + ` {
        expr metadata('ofpunt/switch') == 'NETWORK'
    }
    NAMES
    forward . UPSTREAM
}
`)
		text = strings.ReplaceAll(text, "DATA", quickData[i])
	}
	return text
}

// A port number that passes from one tenant's guest to another's takes no answer with it, once
// puntdns has heard that the first is gone: neither one that is on its way, nor the names. Nor
// is a guest told another's names, whenever the number passes on.
func TestPortReuse(t *testing.T) {
	t.Parallel()
	const times = 4 * 2 * ways
	t.Run("ovn", func(t *testing.T) {
		n := &reuse{Lab: lab.New(t, lab.Options{})}
		networks := [2]string{"red", "blue"}
		for i, sw := range networks {
			aclSwitch(n.Lab, sw, 1)
			n.AddDNS(map[string]string{"who.test": quickData[i]}, sw)
			n.askers[i] = &asker{Guest: aclGuest(n.Lab, sw, 1, 1), number: i}
		}
		n.Sync()
		n.server = serve(t, n.Lab, n.corefile("ovn", "ovnhosts {\n southbound $SB\n fallthrough\n }", networks))
		n.takeTurns(t, times)
		n.server.endWell()
	})
	for _, placement := range []string{"neutron", "table 0 102"} {
		t.Run(placement, func(t *testing.T) {
			n := &reuse{Lab: lab.New(t, lab.Options{Plain: true})}
			// As Neutron's agent has it: table 60 and then the switching.
			n.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=resubmit(,60)")
			n.Node.OFCTL("add-flow", lab.Bridge, "table=60,priority=1,actions=NORMAL")
			networks := [2]string{"net-red", "net-blue"}
			for i, network := range networks {
				g := n.Node.AddGuest(lab.Guest{Name: network + "-vm", MAC: "02:00:00:00:01:11", Addrs: lab.Prefixes("10.0.1.11/24", "fd00:1::11/64")})
				n.settings[i] = []string{fmt.Sprintf("tag=%d", i+1), "other_config:net_uuid=" + network}
				n.Node.VSCTL(append([]string{"set", "Port", g.NodePort}, n.settings[i]...)...)
				n.askers[i] = &asker{Guest: g, number: i}
			}
			n.server = serve(t, n.Lab, n.corefile(placement, "hosts {\n DATA who.test\n fallthrough\n }", networks))
			n.takeTurns(t, times)
			n.server.endWell()
		})
	}
}
