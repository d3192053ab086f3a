// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"net"
	"os"
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
				expect(t, g, q.want, "@"+resolver4, q.name, q.qtype)
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
// reach the next guest (docs/security.md), though none that this one has asked for.
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
// docs/security.md has it.
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
