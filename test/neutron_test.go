// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/test/lab"
)

// Neutron's agent without OVN: names come from upstreams, and who asks is known
// by the local database.
const neutronCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement PLACEMENT
    }
    metadata
    view red {
        expr metadata('ofpunt/switch') == 'net-red'
    }
    hosts {
        192.0.2.1 who.example
        fallthrough
    }
    forward . UPSTREAM
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    errors
}
. {
    ofpunt br-int
    metadata
    hosts {
        192.0.2.2 who.example
        fallthrough
    }
    forward . UPSTREAM
    log . "{/ofpunt/port} {name}"
}
`

// plainGuest is a guest of a bridge without OVN, on the given network of
// Neutron's.
func plainGuest(l *lab.Lab, name, net string, host, tag int) *lab.Guest {
	g := l.Node.AddGuest(lab.Guest{
		Name: name, MAC: fmt.Sprintf("02:00:00:00:00:%02x", host),
		Addrs:  lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", host), fmt.Sprintf("fd00:10::%d/64", host)),
		Routes: []string{"169.254.169.254 dev eth0", "fd00::254 dev eth0"},
	})
	if tag != 0 {
		l.Node.VSCTL("set", "Port", g.NodePort, fmt.Sprintf("tag=%d", tag), "other_config:net_uuid="+net)
	}
	return g
}

func TestNeutron(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	// What the agent and its metadata extension have in table 0, and the way on.
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=200,ip,nw_dst=169.254.169.254,actions=drop")
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=resubmit(,60)")
	l.Node.OFCTL("add-flow", lab.Bridge, "table=60,priority=1,actions=NORMAL")
	upstream := l.Upstream("www.example.org. 60 IN A 192.0.2.80")
	red := plainGuest(l, "red-vm", "net-red", 11, 1)
	blue := plainGuest(l, "blue-vm", "net-blue", 12, 2)
	dead := plainGuest(l, "dead-vm", "net-blue", 13, 4095)
	unbound := plainGuest(l, "new-vm", "", 14, 0)
	text := strings.NewReplacer("PLACEMENT", "neutron", "UPSTREAM", upstream.Addr).Replace(neutronCorefile)
	s := serve(t, l, text)

	for _, server := range []string{"@169.254.169.254", "@fd00::254"} {
		for _, tt := range []struct {
			name  string
			guest *lab.Guest
			query string
			want  string
		}{
			{"red, its view", red, "who.example", "NOERROR 192.0.2.1"},
			{"blue, the other", blue, "who.example", "NOERROR 192.0.2.2"},
			{"upstream", blue, "www.example.org", "NOERROR 192.0.2.80"},
			{"dead port", dead, "who.example", "no reply"},
			{"port that is not bound", unbound, "who.example", "no reply"},
		} {
			t.Run(tt.name+" "+server, func(t *testing.T) {
				timeout := "+time=5"
				if tt.want == "no reply" {
					timeout = "+time=1"
				}
				expect(t, tt.guest, tt.want, tt.query, server, timeout)
			})
		}
	}

	t.Run("another MAC is not served", func(t *testing.T) {
		ctx := within(t, wait)
		if _, err := blue.Exec(ctx, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"); err != nil {
			t.Fatal(err)
		}
		expect(t, blue, "no reply", "who.example", "@169.254.169.254", "+time=1")
		if _, err := blue.Exec(ctx, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:0c"); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("bound later", func(t *testing.T) {
		l.Node.VSCTL("set", "Port", unbound.NodePort, "tag=3", "other_config:net_uuid=net-red")
		expectSoon(t, l, unbound, "NOERROR 192.0.2.1", "who.example", "@169.254.169.254")
	})

	t.Run("the agent's clean-up", func(t *testing.T) {
		l.Node.OFCTL("del-flows", lab.Bridge, "table=0")
		l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=resubmit(,60)")
		expectSoon(t, l, red, "NOERROR 192.0.2.1", "who.example", "@169.254.169.254")
	})

	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if flows := l.Node.OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000"); strings.Contains(flows, "cookie=") {
		t.Errorf("flows left:\n%s", flows)
	}
}

// On a chassis of OVN placement neutron serves nobody. The log says so once, and ready says
// no; and the log says that the reload has taken the guests away.
func TestNeutronOnOVN(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	l.AddDNS(map[string]string{"db.internal": "10.0.1.50"}, "red")
	vm := aclGuest(l, "red", 1, 1)
	l.Sync()
	right := pipelineCorefile("lease $LEASE", "", "")
	s := serve(t, l, right)
	s.reaches(1, "coredns_ofpunt_guests", "bridge", lab.Bridge)
	reload := func(text string) { s.reload(corefile(l, text)) }
	reload(right) // which takes nobody away

	reload(pipelineCorefile("placement neutron\n lease $LEASE", "", ""))
	const told = "nobody is served: Neutron's Open vSwitch agent has bound none of the 1 interfaces with an iface-id; expected placement ovn with ovnhosts"
	s.ready(503)
	s.log(logGuestsGone)
	s.log(logNobodyServed, told)
	if _, text, err := l.Node.HTTPGet(within(t, wait), "http://"+readyAddr+"/ready"); err != nil || !strings.Contains(text, told) {
		t.Errorf("ready says %q, %v", text, err)
	}

	reload(right)
	s.ready(200)
	expect(t, vm, "NOERROR 30 10.0.1.50", "@"+resolver4, "db.internal")
	s.toldTimes(t, 1, logGuestsGone)
	s.toldTimes(t, 1, logNobodyServed, told)
	s.endWell()
}

// Any bridge, in hijack mode: what nobody answers comes back to the table and
// goes its way.
func TestTable(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "priority=1,actions=NORMAL")
	vm := plainGuest(l, "vm1", "", 11, 0)
	other := plainGuest(l, "vm2", "", 12, 0)
	dns := other.ServeDNS("10.0.0.12:53", "there.example. 60 IN A 192.0.2.9")
	serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement table 0 102
        address any
    }
    hosts {
        192.0.2.1 who.example
        fallthrough
    }
    passthrough
    ready `+readyAddr+` {
        monitor continuously
    }
}`)
	expect(t, vm, "NOERROR 192.0.2.1", "who.example", "@10.0.0.12", "+time=5")
	expect(t, vm, "NOERROR 192.0.2.9", "there.example", "@10.0.0.12", "+time=5")
	if n := dns.Count("there.example."); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if n := dns.Count("who.example."); n != 0 {
		t.Errorf("asked %d times for a local name", n)
	}
}

// agentBridge is a bridge as Neutron's agent sets it up: OpenFlow 1.0 and 1.3,
// its own flows with its own cookie, and two guests that it has bound.
type agentBridge struct {
	*lab.Lab
	red, blue *lab.Guest
}

// agentCookie is the cookie of the agent's flows.
const agentCookie = 0xa9e27

// agentFlows are the tables that lead to table 60, and from there to the guests.
var agentFlows = []string{
	"table=0,priority=200,ip,nw_dst=169.254.169.254,tcp,tp_dst=80,actions=drop",
	"table=0,priority=1,actions=resubmit(,60)",
	"table=60,priority=1,actions=NORMAL",
}

func newAgentBridge(t *testing.T) agentBridge {
	t.Helper()
	n := agentBridge{Lab: lab.New(t, lab.Options{Plain: true})}
	n.Node.VSCTL("set", "Bridge", lab.Bridge, "protocols=OpenFlow10,OpenFlow13", "fail_mode=secure")
	n.addFlows(agentFlows...)
	n.red, n.blue = plainGuest(n.Lab, "red-vm", "net-red", 11, 1), plainGuest(n.Lab, "blue-vm", "net-blue", 12, 2)
	for _, g := range []*lab.Guest{n.red, n.blue} {
		knows(t, g, resolver4, resolver6, "169.254.169.253", "fd00::253")
	}
	return n
}

// resolverMAC is the hardware address of the resolver addresses.
const resolverMAC = "02:00:64:6e:73:35"

// knows makes addresses neighbours of a guest that it need not ask for: a kernel
// asks again after a second only, which is the time that some tests allow.
func knows(t *testing.T, g *lab.Guest, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		for _, args := range [][]string{
			{"ip", "route", "replace", address, "dev", lab.Iface},
			{"ip", "neigh", "replace", address, "lladdr", resolverMAC, "dev", lab.Iface},
		} {
			if _, err := g.Exec(within(t, wait), args...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// addFlows adds flows of the agent.
func (n agentBridge) addFlows(flows ...string) {
	for _, f := range flows {
		n.ofctl13("add-flow", lab.Bridge, fmt.Sprintf("cookie=%#x,%s", agentCookie, f))
	}
}

// ofctl13 is lab.Node.OFCTL for a bridge that speaks OpenFlow 1.3.
func (n agentBridge) ofctl13(args ...string) string {
	out, err := n.Node.Exec(context.Background(), append([]string{"ovs-ofctl", "--protocols=OpenFlow13"}, args...)...)
	if err != nil {
		panic(err) // the lab's own tool, as in lab.Node.OFCTL
	}
	return out
}

// ours are the flows of puntdns, without counters.
func (n agentBridge) ours() []string {
	return flowLines(n.ofctl13("--no-stats", "--no-names", "dump-flows", lab.Bridge, ourCookie))
}

// private reports whether a flow of ours is in a table where nobody else has any.
func private(flow string) bool {
	return strings.Contains(flow, "table=200,") || strings.Contains(flow, "table=201,") || strings.Contains(flow, "table=202,")
}

// agent is another controller of the bridge. It counts what is handed to it.
type agent struct {
	*openflow.Conn
	done chan struct{}

	mu    sync.Mutex
	ports map[int]int // packet-ins by UDP destination port, -1 for other packets
	marks int         // of those that carry somebody's user data
}

// control takes a connection of the bridge as a controller with id 0, which is
// that of everyone who names none.
func control(t *testing.T, nc net.Conn, versions ...openflow.Version) *agent {
	t.Helper()
	c, err := openflow.NewConn(within(t, wait), nc, openflow.Options{Versions: versions})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{Conn: c, done: make(chan struct{}), ports: map[int]int{}}
	go func() {
		defer close(a.done)
		_ = c.Serve(openflow.Handler{PacketIn: a.packetIn}) // it ends by Close
	}()
	t.Cleanup(a.end)
	return a
}

func (a *agent) end() {
	a.Close()
	<-a.done
}

func (a *agent) packetIn(p *openflow.PacketIn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	port := -1
	if f := p.Data; len(f) >= 42 && f[12] == 8 && f[13] == 0 && f[23] == 17 {
		port = int(binary.BigEndian.Uint16(f[36:]))
	}
	a.ports[port]++
	if len(p.UserData) > 0 {
		a.marks++
	}
}

func (a *agent) seen() map[int]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.ports)
}

// managed dials the bridge's management socket.
func managed(t *testing.T, n *lab.Node) net.Conn {
	t.Helper()
	nc, err := net.Dial("unix", strings.TrimPrefix(n.OpenFlow, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// called has the bridge call this process, as it does Neutron's agent.
func called(t *testing.T, n *lab.Node) net.Conn {
	t.Helper()
	const addr = "127.0.0.1:6633"
	ln, err := n.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	n.VSCTL("--no-wait", "set-controller", lab.Bridge, "tcp:"+addr, "--", "set", "Controller", lab.Bridge, "connection_mode=out-of-band")
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// agentCorefile tells a guest its own port.
const agentCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement PLACEMENT
        controller_id 4711
    }
    metadata
    template IN TXT who.example {
        answer "{{ .Name }} 0 IN TXT {{ .Meta \"ofpunt/port\" }}"
    }
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    errors
}
`

func agentText(placement string) string {
	return strings.ReplaceAll(agentCorefile, "PLACEMENT", placement)
}

// askWho asks once, and ends the test unless the guest is told its own port.
func askWho(t *testing.T, g *lab.Guest, resolver string) {
	t.Helper()
	r, err := exchange(within(t, wait), g, resolver, "who.example.", dns.TypeTXT)
	if err != nil || inShort(r) != "NOERROR "+strconv.Quote(g.Port) {
		t.Fatalf("%s is told %v: %v", g.Name, r, err)
	}
}

// Two controllers beside each other: neither gets what is the other's.
func TestNeutronControllers(t *testing.T) {
	t.Parallel()
	n := newAgentBridge(t)
	const each = 40
	const byOutput, byID, byOurs = 5399, 5398, 5397
	flows := []string{
		fmt.Sprintf("table=0,priority=300,udp,tp_dst=%d,actions=CONTROLLER:65535", byOutput), // as the agent's extensions have it
		fmt.Sprintf("table=0,priority=300,udp,tp_dst=%d,actions=controller(id=0,userdata=01.02.03)", byID),
		fmt.Sprintf("table=0,priority=300,udp,tp_dst=%d,actions=controller(id=4711,userdata=01.02.03)", byOurs), // by mistake
	}
	n.addFlows(flows...)
	s := serve(t, n.Lab, agentText("neutron"))
	if _, err := n.red.Exec(within(t, wait), "ip", "neigh", "replace", "10.0.0.12", "lladdr", n.blue.MAC, "dev", lab.Iface); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name    string
		dial    func(*testing.T, *lab.Node) net.Conn
		version openflow.Version
	}{
		{"by the management socket", managed, openflow.V13},
		{"in the bridge's list", called, openflow.V13},
	} {
		t.Run(way.name, func(t *testing.T) {
			a := control(t, way.dial(t, n.Node), way.version)
			if way.name != "by the management socket" {
				// The first controller in a bridge's list flushes all flows.
				n.addFlows(flows...)
				n.addFlows(agentFlows...)
			}
			n.Eventually("flows", func() error {
				if got := len(n.ours()); got != plainPrivateFlows+2*(plainGuestFlows+rateFlows) {
					return fmt.Errorf("%d flows of ours, want %d", got, plainPrivateFlows+2*(plainGuestFlows+rateFlows))
				}
				return nil
			})
			n.Node.Revalidate()
			count := func(labels ...string) float64 {
				return s.metric("coredns_ofpunt_packet_ins_total", append(labels, "bridge", lab.Bridge)...)
			}
			answered, foreign := count("result", "answered", "reason", "chain"), count("result", "dropped", "reason", "foreign")
			all := count()
			neighbors := count("reason", "neighbor")

			box := datagrams(t, n.red, "10.0.0.11:7000")
			for range each {
				for _, port := range []int{byOutput, byID, byOurs} {
					box.send(t, "frame of the agent", fmt.Sprintf("10.0.0.12:%d", port))
				}
				askWho(t, n.red, resolver4)
				askWho(t, n.blue, resolver6)
			}
			n.Eventually("the agent's packets", func() error {
				if got, want := a.seen(), (map[int]int{byOutput: each, byID: each}); !maps.Equal(got, want) {
					return fmt.Errorf("packet-ins %v, want %v", got, want)
				}
				return nil
			})
			s.reaches(foreign+each, "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "dropped", "reason", "foreign")
			s.reaches(answered+2*each, "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "answered", "reason", "chain")
			if got, want := count()-all-(count("reason", "neighbor")-neighbors), float64(3*each); got != want {
				t.Errorf("%v packet-ins beside neighbours, want %v", got, want)
			}
			// What would have come twice has had its time: theirs is all it was.
			if err := a.Barrier(within(t, wait)); err != nil {
				t.Error(err)
			}
			if got := a.seen(); got[53] != 0 || got[-1] != 0 || a.marks != each {
				t.Errorf("the agent has %v, %d of them with user data", got, a.marks)
			}
			s.alive()
		})
	}
	s.endWell()
}

// agentTables are those that Neutron's agent cleans after its start.
var agentTables = []uint8{0, 1, 2, 23, 24, 25, 30, 31, 58, 59, 60, 61, 62, 71, 72, 73, 77, 78, 81, 82, 91, 92, 93}

// cleanUp does what the agent's does: in each of its tables it looks for cookies
// that it does not know, and deletes all flows with them, in whatever table.
func (a *agent) cleanUp(t *testing.T, inTable bool) (deleted int) {
	t.Helper()
	ctx := within(t, wait)
	for _, table := range agentTables {
		flows, err := a.FlowStats(ctx, openflow.FlowStatsRequest{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		cookies := map[uint64]bool{}
		for _, f := range flows {
			if f.Cookie != agentCookie {
				cookies[f.Cookie] = true
			}
		}
		for c := range cookies {
			from := openflow.TableAll
			if inTable {
				from = table
			}
			deleted++
			if err := a.Apply(ctx, []openflow.FlowMod{{Command: openflow.Delete, Table: from, Cookie: c, CookieMask: ^uint64(0)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return deleted
}

// After a start of the agent, and after its clean-up, the guests are served again, and what has
// happened is told once.
func TestNeutronCleanUp(t *testing.T) {
	t.Parallel()
	for _, placement := range []string{"neutron", "table 60 102"} {
		t.Run(placement, func(t *testing.T) {
			n := newAgentBridge(t)
			s := serve(t, n.Lab, agentText(placement+"\n"+rareBeats))
			askWho(t, n.red, resolver4)
			ours := n.ours()
			if len(ours) != plainPrivateFlows+2*(plainGuestFlows+rateFlows) {
				t.Fatalf("%d flows, want %d:\n%s", len(ours), plainPrivateFlows+2*(plainGuestFlows+rateFlows), strings.Join(ours, "\n"))
			}
			entries := 0
			for _, f := range ours {
				if !private(f) {
					entries++
				}
			}
			a := control(t, managed(t, n.Node), openflow.V13)
			for _, harm := range []struct {
				name string
				f    func()
				lost int
			}{
				{"clean-up", func() {
					if n := a.cleanUp(t, false); n != 1 {
						t.Errorf("the agent deleted %d times, want once", n)
					}
				}, len(ours)},
				{"clean-up again", func() { a.cleanUp(t, false) }, len(ours)},
				{"clean-up of its tables alone", func() { a.cleanUp(t, true) }, entries},
				// All flows go when the agent enters itself as the first controller.
				{"agent starts", func() {
					control(t, called(t, n.Node), openflow.V13)
					n.addFlows(agentFlows...)
				}, len(ours)},
			} {
				t.Run(harm.name, func(t *testing.T) {
					before := s.mendings()
					harm.f()
					for _, g := range []*lab.Guest{n.red, n.blue} {
						n.Eventually("served again", func() error {
							ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
							defer cancel()
							_, err := exchange(ctx, g, resolver6, "who.example.", dns.TypeTXT)
							return err
						})
					}
					n.Node.Revalidate()
					askWho(t, n.red, resolver4)
					askWho(t, n.blue, resolver6)
					n.Eventually("the flows are as before", func() error {
						if got := n.ours(); !slices.Equal(got, ours) {
							return fmt.Errorf("our flows were\n%s\nand are\n%s", strings.Join(ours, "\n"), strings.Join(got, "\n"))
						}
						return nil
					})
					s.ready(200)
					s.mended(t, before, harm.lost, harm.lost)
				})
			}
			s.endWell()
			if got := n.ours(); len(got) != 0 {
				t.Errorf("flows are left: %q", got)
			}
		})
	}
}

// osKenAgent is a controller as Neutron's agent is one, by the same library: it
// deletes what has a cookie that it does not know, in whatever table, and has its
// own packets handed to it. It says what it does.
const osKenAgent = `
from os_ken.base import app_manager
from os_ken.controller import handler, ofp_event
from os_ken.lib.packet import packet, udp
from os_ken.ofproto import ofproto_v1_3

COOKIE = 0xa9e27


class Agent(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @handler.set_ev_cls(ofp_event.EventOFPSwitchFeatures, handler.CONFIG_DISPATCHER)
    def features(self, ev):
        dp = ev.msg.datapath
        ofp, parser = dp.ofproto, dp.ofproto_parser

        def add(table, priority, actions, **match):
            dp.send_msg(parser.OFPFlowMod(
                dp, cookie=COOKIE, table_id=table, priority=priority, match=parser.OFPMatch(**match),
                instructions=[parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)]))

        add(0, 300, [parser.OFPActionOutput(ofp.OFPP_CONTROLLER, ofp.OFPCML_NO_BUFFER)],
            eth_type=0x800, ip_proto=17, udp_dst=5399)
        add(0, 1, [parser.NXActionResubmitTable(table_id=60)])
        add(60, 1, [parser.OFPActionOutput(ofp.OFPP_NORMAL)])
        for table in (0, 60):
            dp.send_msg(parser.OFPFlowStatsRequest(dp, table_id=table))
        print("agent: connected", flush=True)

    @handler.set_ev_cls(ofp_event.EventOFPFlowStatsReply, [handler.CONFIG_DISPATCHER, handler.MAIN_DISPATCHER])
    def stats(self, ev):
        dp = ev.msg.datapath
        ofp, parser = dp.ofproto, dp.ofproto_parser
        for cookie in {f.cookie for f in ev.msg.body} - {COOKIE}:
            dp.send_msg(parser.OFPFlowMod(
                dp, command=ofp.OFPFC_DELETE, cookie=cookie, cookie_mask=(1 << 64) - 1, table_id=ofp.OFPTT_ALL,
                out_port=ofp.OFPP_ANY, out_group=ofp.OFPG_ANY, match=parser.OFPMatch()))
        print("agent: cleaned", flush=True)

    @handler.set_ev_cls(ofp_event.EventOFPPacketIn, handler.MAIN_DISPATCHER)
    def packet_in(self, ev):
        u = packet.Packet(ev.msg.data).get_protocol(udp.udp)
        print("agent: packet-in", u.dst_port if u else "other", flush=True)
`

// debianPython has the modules of Debian's packages, whatever PATH says.
const debianPython = "/usr/bin/python3"

// needOSKen is lab.Need for Neutron's OpenFlow library.
func needOSKen(t *testing.T, l *lab.Lab) {
	t.Helper()
	_, err := l.Node.Exec(within(t, wait), debianPython, "-c", "import os_ken.cmd.manager")
	if err != nil {
		lab.Lack(t, "python3-os-ken is not here: %v", err)
	}
}

// With a real controller of another kind in the bridge's list.
func TestNeutronOSKen(t *testing.T) {
	t.Parallel()
	for _, placement := range []string{"neutron", "table 60 102"} {
		t.Run(placement, func(t *testing.T) {
			n := newAgentBridge(t)
			needOSKen(t, n.Lab)
			if _, err := n.red.Exec(within(t, wait), "ip", "neigh", "replace", "10.0.0.12", "lladdr", n.blue.MAC, "dev", lab.Iface); err != nil {
				t.Fatal(err)
			}
			s := serve(t, n.Lab, agentText(placement+"\n"+rareBeats))
			askWho(t, n.red, resolver4)
			ours := n.ours()
			a := n.Node.Start("os-ken", nil, debianPython, "-m", "os_ken.cmd.manager",
				"--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", "6633", n.WriteFile("agent.py", osKenAgent))
			n.Node.VSCTL("--no-wait", "set-controller", lab.Bridge, "tcp:127.0.0.1:6633", "--",
				"set", "Controller", lab.Bridge, "connection_mode=out-of-band", "max_backoff=1000")
			if err := a.WaitLog(within(t, wait), `(?s)agent: connected.*agent: cleaned.*agent: cleaned`); err != nil {
				t.Fatal(err)
			}
			for _, g := range []*lab.Guest{n.red, n.blue} {
				n.Eventually("served again", func() error {
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					defer cancel()
					_, err := exchange(ctx, g, resolver4, "who.example.", dns.TypeTXT)
					return err
				})
			}
			n.Eventually("the flows are as before", func() error {
				if got := n.ours(); !slices.Equal(got, ours) {
					return fmt.Errorf("our flows were\n%s\nand are\n%s", strings.Join(ours, "\n"), strings.Join(got, "\n"))
				}
				return nil
			})

			n.Node.Revalidate()

			const each = 30
			s.idle()
			foreign := s.metric("coredns_ofpunt_packet_ins_total", "result", "dropped")
			answered := s.metric("coredns_ofpunt_packet_ins_total", "result", "answered", "reason", "chain")
			box := datagrams(t, n.red, "10.0.0.11:7000")
			for range each {
				box.send(t, "frame of the agent", "10.0.0.12:5399")
				askWho(t, n.red, resolver4)
				askWho(t, n.blue, resolver6)
			}
			box.Close()
			packetIns := func() (own, others int) {
				own = strings.Count(a.Log(), "agent: packet-in 5399\n")
				return own, strings.Count(a.Log(), "agent: packet-in") - own
			}
			n.Eventually("the agent's packets", func() error {
				if own, others := packetIns(); own < each || others > 0 {
					return fmt.Errorf("%d packet-ins and %d of others, want %d", own, others, each)
				}
				return nil
			})
			s.reaches(answered+2*each, "coredns_ofpunt_packet_ins_total", "result", "answered", "reason", "chain")
			s.reaches(foreign, "coredns_ofpunt_packet_ins_total", "result", "dropped")
			if own, others := packetIns(); own != each || others != 0 {
				t.Errorf("the agent has %d packet-ins and %d of others, want %d", own, others, each)
			}
			s.endWell()
		})
	}
}

// A number that the switch has given to another port says nothing about who asks
// until the local database has told whose it is.
func TestNeutronPortNumber(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "priority=1,actions=NORMAL")
	old, next := plainGuest(l, "old-vm", "", 11, 0), plainGuest(l, "next-vm", "", 12, 0)
	number := old.OFPort
	s := serve(t, l, agentText("table 0 102"))
	for _, g := range []*lab.Guest{old, next} {
		askWho(t, g, resolver4)
	}
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.Node.VSCTL("del-port", lab.Bridge, old.NodePort)
	l.Node.VSCTL("set", "Interface", next.NodePort, fmt.Sprintf("ofport_request=%d", number))
	l.Eventually("the number is given again", func() error {
		if got := strings.TrimSpace(l.Node.VSCTL("get", "Interface", next.NodePort, "ofport")); got != strconv.Itoa(number) {
			return fmt.Errorf("%s has %s, want %d", next.Name, got, number)
		}
		return nil
	})
	// It asks while puntdns has heard of nothing: what waits is the port that went,
	// the query, and what the local database says.
	raw := next.Raw()
	defer raw.Close()
	f := udpFrame{
		srcMAC: next.MAC, dstMAC: "02:00:64:6e:73:35", ttl: 64, src: "10.0.0.12:4000", dst: resolver4 + ":53",
		payload: pack(t, new(dns.Msg).SetQuestion("who.example.", dns.TypeTXT)),
	}
	// punted is how many queries have come from that number.
	punted := func() (n int) {
		l.Node.Revalidate() // it adds up what cached flows have seen
		flows := l.Node.OFCTL("dump-flows", lab.Bridge, fmt.Sprintf("udp,in_port=%d,%s", number, ourCookie))
		for _, m := range entryPackets.FindAllStringSubmatch(flows, -1) {
			packets, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			n += packets
		}
		return n
	}
	before := punted()
	l.Eventually("the query is punted", func() error {
		if err := raw.Send(f.build(t)); err != nil {
			return err
		}
		if punted() == before {
			return fmt.Errorf("no packet-in after %d", before)
		}
		return nil
	})
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.src = "10.0.0.12:4001"
	for deadline := time.Now().Add(wait); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		got, err := raw.RecvMatch(ctx, sentBy(f.dst))
		cancel()
		if err == nil {
			r := new(dns.Msg)
			if err := r.Unpack(udpPayload(got)); err != nil {
				t.Fatal(err)
			}
			if said := inShort(r); said == `NOERROR "next-vm"` && binary.BigEndian.Uint16(got[36:]) == 4001 {
				break
			} else if said != `NOERROR "next-vm"` && said != "SERVFAIL" {
				t.Fatalf("%s is told %s", next.Name, said)
			}
		}
		s.alive()
		if time.Now().After(deadline) {
			t.Fatalf("not served again: %v\n%s", err, s.Log())
		}
		if err := raw.Send(f.build(t)); err != nil {
			t.Fatal(err)
		}
	}
	s.endWell()
}

// The options of Neutron's DNS forwarder, as docs/openstack.md translates them.
func TestNeutronOptions(t *testing.T) {
	t.Parallel()
	n := newAgentBridge(t)
	ctx := within(t, 2*wait)
	const record = "www.%s. 60 IN A 192.0.2.%d"
	var at4, at6 []string
	for i := range upstreamCases {
		at4 = append(at4, fmt.Sprintf(record, upstreamZone(i), 4))
		at6 = append(at6, fmt.Sprintf(record, upstreamZone(i), 6))
	}
	servers := map[string]*lab.DNSServer{
		"four": n.Upstream(at4...), "six": n.Node.ServeDNS("[::1]:5454", at6...),
		"closed4": n.Upstream(), "closed6": n.Node.ServeDNS("[::1]:5455"),
		"silent4": n.Upstream(), "silent6": n.Node.ServeDNS("[::1]:5456"),
	}
	var words []string
	for name, s := range servers {
		words = append(words, name, s.Addr)
		switch name[:len(name)-1] {
		case "closed":
			s.Close()
		case "silent":
			s.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {}))
		}
	}
	// serving runs puntdns with addresses, and a block for each case of upstreams.
	serving := func(t *testing.T, placement, addresses string) *server {
		t.Helper()
		text := `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement ` + placement + `
        address ` + addresses + `
    }
    errors
    ready ` + readyAddr + ` {
        monitor continuously
    }
}
`
		for i, tt := range upstreamCases {
			text += upstreamZone(i) + ` {
    ofpunt br-int
    errors
    forward . ` + strings.NewReplacer(words...).Replace(tt.upstreams) + ` {
        policy sequential
    }
}
`
		}
		s := serve(t, n.Lab, text)
		n.Node.Revalidate()
		return s
	}

	for _, of := range []struct {
		placement, table string
		priority         string
	}{
		{"neutron", "", "priority=210,"}, // ovs-ofctl leaves table 0 unsaid
		{"table 60 102", "table=60,", "priority=102,"},
	} {
		for _, tt := range []struct{ addresses, yes, no string }{
			{"169.254.169.254 fd00::254", "169.254.169.254:53 [fd00::254]:53", "169.254.169.254:5353 [fd00::254]:5353 169.254.169.253:53 [fd00::253]:53"},
			{"169.254.169.254:5353 [fd00::254]:5353", "169.254.169.254:5353 [fd00::254]:5353", "169.254.169.254:53 [fd00::254]:53"},
			{"169.254.169.254:5353 169.254.169.253 [fd00::253]:5354", "169.254.169.254:5353 169.254.169.253:53 [fd00::253]:5354", "169.254.169.254:53 169.254.169.253:5353 [fd00::253]:53 [fd00::254]:5354"},
		} {
			t.Run(of.placement+", address "+tt.addresses, func(t *testing.T) {
				s := serving(t, of.placement, tt.addresses)
				for want, list := range map[string]string{"NOERROR 192.0.2.4": tt.yes, "no reply": tt.no} {
					for _, at := range strings.Fields(list) {
						patience := wait
						if want == "no reply" {
							patience = 200 * time.Millisecond
						}
						one, end := context.WithTimeout(ctx, patience)
						got := "no reply"
						if r, _, err := n.red.Exchange(one, new(dns.Msg).SetQuestion("www."+upstreamZone(0)+".", dns.TypeA), at); err == nil {
							got = inShort(r)
						}
						end()
						if got != want {
							t.Errorf("%s: %s, want %s", at, got, want)
						}
					}
				}
				for _, f := range n.ours() {
					if !private(f) && (!strings.Contains(f, of.priority) || !strings.Contains(f, of.table) || of.table == "" && strings.Contains(f, "table=")) {
						t.Errorf("a flow is not at %s %s: %s", of.table, of.priority, f)
					}
				}
				s.endWell()
			})
		}
	}

	t.Run("upstreams", func(t *testing.T) {
		s := serving(t, "neutron", "169.254.169.254 fd00::254")
		var wrong mistakes
		var wg sync.WaitGroup
		for i, tt := range upstreamCases {
			for j, g := range []*lab.Guest{n.red, n.blue} {
				wg.Go(func() {
					// An answer comes 4.5 s after the query at the latest, on a busy machine later.
					const patience = 10 * time.Second
					// The second round finds upstreams that are known to be dead.
					for round := range 2 {
						asked := time.Now()
						r, err := exchange(ctx, g, resolvers[(j+round)%2], "www."+upstreamZone(i)+".", dns.TypeA)
						took := time.Since(asked)
						if err != nil || inShort(r) != tt.want || took > lab.Scaled(patience) {
							wrong.add(fmt.Sprintf("%s: round %d: %v in %s, want %s in %s: %v", tt.name, round, r, took, tt.want, patience, err))
						}
					}
				})
			}
		}
		wg.Wait()
		wrong.report(t)
		for _, name := range []string{"silent4", "silent6"} {
			if len(servers[name].Asked()) == 0 {
				t.Errorf("%s was never asked", name)
			}
		}
		s.endWell()
	})
}

// upstreamCases are lists of upstreams, by the names that TestNeutronOptions has
// for them, and what comes of a query.
var upstreamCases = []struct{ name, upstreams, want string }{
	{"in the given order", "four six", "NOERROR 192.0.2.4"},
	{"by IPv6, the other way round", "six four", "NOERROR 192.0.2.6"},
	{"first one's port is closed", "closed4 six", "NOERROR 192.0.2.6"},
	{"first one's port is closed, by IPv6", "closed6 four", "NOERROR 192.0.2.4"},
	{"first one is silent", "silent4 six", "NOERROR 192.0.2.6"},
	{"first one is silent, by IPv6", "silent6 four", "NOERROR 192.0.2.4"},
	{"closed, silent, then right", "closed4 silent6 four", "NOERROR 192.0.2.4"},
	{"silent, closed, then right", "silent4 closed6 six", "NOERROR 192.0.2.6"},
	{"all closed", "closed4 closed6", "SERVFAIL"},
	{"all silent", "silent4 silent6", "SERVFAIL"},
	{"closed and silent", "closed4 silent4", "SERVFAIL"},
}

func upstreamZone(i int) string { return fmt.Sprintf("case%d.example", i) }
