// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/test/lab"
)

// estate is what two tenants have in the Northbound database: the same, however
// it is read.
type estate struct {
	*lab.Lab
	guests map[string]*lab.Guest // by switch
	row    string                // of red, in the table DNS
}

// Numbers of the estate.
const (
	estateMAC       = "02:00:00:00:01:11" // of the guest of either tenant
	estateCtrMAC    = "02:00:00:00:01:77"
	estateCtrTag    = 42
	estateRedLocal  = 1 // VLANs on the node, as Neutron's agent gives them
	estateBlueLocal = 2
)

// estateMACOf is estateMAC and estateCtrMAC in bytes.
var estateMACOf = map[string][6]byte{"vm": {2, 0, 0, 0, 1, 0x11}, "ctr": {2, 0, 0, 0, 1, 0x77}}

// newEstate has a lab with OVN, or one without on whose bridge the ports are
// bound as Neutron's agent does it.
func newEstate(t *testing.T, plain bool) estate {
	t.Helper()
	l := lab.New(t, lab.Options{Plain: plain})
	n := estate{Lab: l, guests: map[string]*lab.Guest{}}
	for _, sw := range []string{"red", "blue"} {
		l.AddSwitch(sw)
		l.AddRouter("r-"+sw, lab.RouterPort{Switch: sw, MAC: "02:00:00:00:01:01", Networks: []string{"10.0.1.1/24", "fd00:1::1/64"}})
	}
	n.row = l.AddDNS(map[string]string{
		"db.internal": "10.0.1.101 fd00:1::101", "red.internal": "10.0.1.103", "*.apps.internal": "10.0.1.104",
		"60.1.0.10.in-addr.arpa": "explicit.example.org",
	}, "red")
	l.AddDNS(map[string]string{"db.internal": "10.0.1.201,fd00:1::201", "blue.internal": "10.0.1.203"}, "blue")
	l.AddDNS(map[string]string{"both.internal": "10.0.1.9"}, "red", "blue")
	l.NBCTL("set", "Logical_Switch", "blue", "other_config:dns_domain=blue.example")

	dhcp := l.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24",
		`options={domain_name="\"dhcp.internal\"",lease_time="3600",router="10.0.1.1",server_id="10.0.1.1",server_mac="02:00:00:00:01:01"}`)
	emptyPort(l, "red", "red-leased", "02:00:00:00:01:91 10.0.1.91", "leased", "dhcpv4_options="+dhcp)
	emptyPort(l, "red", "red-off", "02:00:00:00:01:92 10.0.1.92", "off", "enabled=false")
	emptyPort(l, "red", "red-vip", "02:00:00:00:01:93 10.0.1.93", "vip", "type=virtual", "options:virtual-ip=10.0.1.93", "options:virtual-parents=red-vm")
	l.NBCTL("set", "Logical_Switch", "red", "other_config:subnet=10.0.1.0/24", `other_config:exclude_ips="10.0.1.1..10.0.1.199"`)
	emptyPort(l, "red", "red-ipam", "02:00:00:00:01:94 dynamic", "chosen")
	if plain {
		// What northd would choose.
		l.NBCTL("set", "Logical_Switch_Port", "red-ipam", `dynamic_addresses="02:00:00:00:01:94 10.0.1.200"`)
	}
	for sw, tag := range map[string]int{"red": estateRedLocal, "blue": estateBlueLocal} {
		g := n.guest(sw+"-vm", sw, "vm1", 0x11)
		n.guests[sw] = g
		if plain {
			l.Node.VSCTL("set", "Port", g.NodePort, fmt.Sprintf("tag=%d", tag), "other_config:net_uuid=net-"+sw)
		}
	}
	// The container is of the other tenant.
	l.NBCTL("lsp-add", "blue", "blue-ctr", "red-vm", fmt.Sprint(estateCtrTag),
		"--", "lsp-set-addresses", "blue-ctr", estateCtrMAC+" 10.0.1.77 fd00:1::77", "--", "lsp-set-options", "blue-ctr", "hostname=ctr")
	if plain {
		l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=resubmit(,60)")
		l.Node.OFCTL("add-flow", lab.Bridge, "table=60,priority=1,actions=NORMAL")
	} else {
		l.Sync()
	}
	return n
}

// guest has the number in its MAC and addresses, in hexadecimal digits; without
// a switch it gets no logical port.
func (n estate) guest(name, sw, hostname string, number int) *lab.Guest {
	return n.Node.AddGuest(lab.Guest{
		Name: name, Switch: sw, MAC: fmt.Sprintf("02:00:00:00:01:%02x", number),
		Addrs:  lab.Prefixes(fmt.Sprintf("10.0.1.%x/24", number), fmt.Sprintf("fd00:1::%x/64", number)),
		Routes: []string{resolver4 + " dev " + lab.Iface, resolver6 + " dev " + lab.Iface}, Hostname: hostname,
	})
}

// flowsOf is how many flows of ours a guest has.
func (n estate) flowsOf(g *lab.Guest) int {
	return len(flowLines(n.Node.OFCTL("--no-names", "dump-flows", lab.Bridge, fmt.Sprintf("in_port=%d,%s", g.OFPort, ourCookie))))
}

// estateCorefile has a placement, more properties of ofpunt, and databases.
func estateCorefile(placement, databases, behind string) string {
	return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement ` + placement + `
        control $CONTROL
        rate off
    }
    metadata
    errors
    log . "asked {name} {type} by {/ofpunt/port} on {/ofpunt/switch}"
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ovnhosts {
        ` + databases + `
        domain cloud.internal
        ` + behind + `
}
`
}

// estateQuestion has the answer by Southbound alone, and by Northbound where that
// is another.
type estateQuestion struct {
	sw, name, qtype string
	southbound      string
	northbound      string
}

func (q estateQuestion) String() string { return q.sw + " asks for " + q.name + " " + q.qtype }

var estateQuestions = []estateQuestion{
	// DNS rows are the same everywhere.
	{"red", "db.internal.", "A", "NOERROR 10.0.1.101", ""},
	{"red", "db.internal.", "ANY", "NOERROR 10.0.1.101 fd00:1::101", ""},
	{"red", "DB.Internal.", "AAAA", "NOERROR fd00:1::101", ""},
	{"red", "db.internal.", "TXT", nodata, ""},
	{"blue", "db.internal.", "A", "NOERROR 10.0.1.201", ""},
	{"blue", "db.internal.", "AAAA", "NOERROR fd00:1::201", ""},
	{"red", "both.internal.", "A", "NOERROR 10.0.1.9", ""},
	{"blue", "both.internal.", "A", "NOERROR 10.0.1.9", ""},
	{"red", "red.internal.", "A", "NOERROR 10.0.1.103", ""},
	{"blue", "red.internal.", "A", nxdomain, ""},
	{"red", "blue.internal.", "A", nxdomain, ""},
	{"red", "www.apps.internal.", "A", "NOERROR 10.0.1.104", ""},
	{"red", "internal.", "A", nodata, ""},
	{"red", "missing.internal.", "A", nxdomain, ""},
	{"red", reverseName("10.0.1.60"), "PTR", "NOERROR explicit.example.org.", ""},
	{"red", reverseName("10.0.1.101"), "PTR", "NOERROR db.internal.", ""},
	{"blue", reverseName("10.0.1.101"), "PTR", nxdomain, ""},

	// So are hostnames of ports with fixed addresses.
	{"red", "vm1.", "A", "NOERROR 10.0.1.11", ""},
	{"red", "vm1.cloud.internal.", "AAAA", "NOERROR fd00:1::11", ""},
	{"red", reverseName("10.0.1.11"), "PTR", "NOERROR vm1.cloud.internal.", ""},
	{"red", "missing.cloud.internal.", "A", nxdomain, ""},
	{"blue", "vm1.", "A", "NOERROR 10.0.1.11", ""},
	{"red", "vip.", "A", "NOERROR 10.0.1.93", ""},
	{"blue", "vip.", "A", nxdomain, ""},
	{"blue", "ctr.", "AAAA", "NOERROR fd00:1::77", ""},
	{"red", "ctr.", "A", nxdomain, ""},
	{"red", "leased.", "A", "NOERROR 10.0.1.91", ""},

	// Southbound says "dynamic" where northd has chosen, and nothing of domains
	// and of ports that are switched off.
	{"red", "chosen.", "A", nxdomain, "NOERROR 10.0.1.200"},
	{"red", reverseName("10.0.1.200"), "PTR", nxdomain, "NOERROR chosen.cloud.internal."},
	{"red", "leased.dhcp.internal.", "A", nxdomain, "NOERROR 10.0.1.91"},
	{"red", "leased.cloud.internal.", "A", "NOERROR 10.0.1.91", nxdomain},
	{"red", reverseName("10.0.1.91"), "PTR", "NOERROR leased.cloud.internal.", "NOERROR leased.dhcp.internal."},
	{"blue", "vm1.blue.example.", "A", nxdomain, "NOERROR 10.0.1.11"},
	{"blue", "vm1.cloud.internal.", "A", "NOERROR 10.0.1.11", nxdomain},
	{"blue", reverseName("10.0.1.11"), "PTR", "NOERROR vm1.cloud.internal.", "NOERROR vm1.blue.example."},
	{"blue", "missing.blue.example.", "A", nxdomain, nxdomain},
	{"red", "off.", "A", "NOERROR 10.0.1.92", nxdomain},
}

// ask returns the whole answers to the questions, but for the serial of an SOA
// record, and compares them with what they should be in short.
func (n estate) ask(t *testing.T, northbound bool) map[estateQuestion]string {
	t.Helper()
	all := map[estateQuestion]string{}
	for i, q := range estateQuestions {
		want := q.southbound
		if northbound && q.northbound != "" {
			want = q.northbound
		}
		r, err := exchange(within(t, wait), n.guests[q.sw], resolvers[i%len(resolvers)], q.name, dns.StringToType[q.qtype])
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		if got := inShort(r); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
		for _, rr := range r.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
		}
		r.Id = 0
		all[q] = r.String()
	}
	return all
}

// The same tenants by Southbound, by Northbound, and by both: the answers are the
// same to the bit where the data is.
func TestNorthboundAnswers(t *testing.T) {
	t.Parallel()
	told := map[string]map[estateQuestion]string{}
	for _, of := range []struct {
		name      string
		plain     bool
		placement string
		databases string
	}{
		{"southbound", false, "ovn", "southbound $SB"},
		{"southbound and northbound", false, "ovn", "southbound $SB\n northbound $NB"},
		{"northbound, placement neutron", true, "neutron", "northbound $NB"},
		{"northbound, placement table 0 102", true, "table 0 102", "northbound $NB"},
		{"northbound, placement table 60", true, "table 60", "northbound $NB\n monitor all"},
	} {
		t.Run(of.name, func(t *testing.T) {
			n := newEstate(t, of.plain)
			s := serve(t, n.Lab, estateCorefile(of.placement, of.databases, "}"))
			told[of.name] = n.ask(t, of.name != "southbound")
			s.log(`asked ctr\. AAAA by blue-vm on blue`)
			s.reaches(float64(len(estateQuestions)), "coredns_ofpunt_packet_ins_total", "result", "answered", "reason", "chain")
			s.endWell()
		})
	}
	const like = "southbound and northbound"
	for way, answers := range told {
		for _, q := range estateQuestions {
			if way == "southbound" && q.northbound != "" {
				if answers[q] == told[like][q] {
					t.Errorf("%s: the same by %s and by %s, though it is said to differ", q, way, like)
				}
				continue
			}
			if answers[q] != told[like][q] {
				t.Errorf("%s: by %s\n%s\nby %s\n%s", q, way, answers[q], like, told[like][q])
			}
		}
	}
}

// taggedQuery is a query in a frame with a tag, or without for 0, from a MAC of
// estateMACOf.
func taggedQuery(t *testing.T, who string, vlan uint16, port uint16, server, name string) []byte {
	t.Helper()
	ends := [2]netip.AddrPort{netip.AddrPortFrom(lab.Addr("10.0.1.11"), port), netip.MustParseAddrPort(server)}
	if ends[1].Addr().Is6() {
		ends[0] = netip.AddrPortFrom(lab.Addr("fd00:1::11"), port)
	}
	turned := frame.UDP{Ends: frame.Ends{
		SrcMAC: [6]byte{2, 0, 0, 0, 1, 1}, DstMAC: estateMACOf[who],
		Tag: frame.Tag{Tagged: vlan != 0, VLAN: vlan}, Src: ends[1], Dst: ends[0],
	}}
	// It is the answer to one the other way round.
	f, err := turned.AppendDatagram(nil, pack(t, new(dns.Msg).SetQuestion(name, dns.TypeA)), true)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tagFrame puts a tag into a frame without one.
func tagFrame(f []byte, vlan uint16) []byte {
	return slices.Concat(f[:12], []byte{0x81, 0, byte(vlan >> 8), byte(vlan)}, f[12:])
}

// With Northbound alone the tag of a frame says nothing that somebody has checked:
// a container is refused, and never taken for the VM that it is in.
func TestNorthboundContainer(t *testing.T) {
	t.Parallel()
	askers := []struct {
		name, mac string
		vlan      uint16
	}{
		{"the container", "ctr", estateCtrTag},
		{"another tag", "vm", estateCtrTag + 1},
		{"the VM's MAC with the container's tag", "vm", estateCtrTag},
	}
	n := newEstate(t, true)
	red := n.guests["red"]
	for _, placement := range []string{"neutron", "table 0 102"} {
		t.Run(placement, func(t *testing.T) {
			s := serve(t, n.Lab, estateCorefile(placement, "northbound $NB", "}"))
			n.Node.Revalidate()
			count := func(result, reason string) float64 {
				return s.metric("coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", result, "reason", reason)
			}
			raw := red.Raw()
			defer raw.Close()
			port := uint16(4000)
			for _, asker := range askers {
				// The agent's placement takes no other MAC than that of the port.
				punted := placement != "neutron" || asker.mac == "vm"
				for _, server := range []string{resolver4 + ":53", "[" + resolver6 + "]:53"} {
					t.Run(asker.name+" asks "+server, func(t *testing.T) {
						port++
						refused := count("refused", "origin")
						if err := raw.Send(taggedQuery(t, asker.mac, asker.vlan, port, server, "db.internal.")); err != nil {
							t.Fatal(err)
						}
						// The VM's own answer is on the way beside it.
						own := port + 1000
						if err := raw.Send(taggedQuery(t, "vm", 0, own, server, "red.internal.")); err != nil {
							t.Fatal(err)
						}
						var told []string
						answered := false
						_, err := raw.RecvMatch(within(t, wait), func(f []byte) bool {
							var u frame.UDP
							if u.Decode(f) != nil || u.Src != netip.MustParseAddrPort(server) {
								return false
							}
							r := new(dns.Msg)
							if err := r.Unpack(u.Payload); err != nil {
								t.Errorf("%x: %v", u.Payload, err)
							}
							if u.Dst.Port() != own {
								told = append(told, fmt.Sprintf("%s, VLAN %d", inShort(r), u.VLAN))
							} else if answered = true; inShort(r) != "NOERROR 10.0.1.103" || u.Tagged {
								t.Errorf("the VM is told %s with tag %v", inShort(r), u.Tag)
							}
							return answered && (!punted || len(told) > 0)
						})
						if err != nil {
							t.Fatalf("%v; got %q\n%s", err, told, s.Log())
						}
						var want []string
						if punted {
							want = []string{fmt.Sprintf("SERVFAIL, VLAN %d", asker.vlan)}
							refused++
						}
						if !slices.Equal(told, want) {
							t.Errorf("told %q, want %q", told, want)
						}
						s.reaches(refused, "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "refused", "reason", "origin")
					})
				}
			}
			t.Run("neighbours", func(t *testing.T) {
				mac, err := net.ParseMAC(estateMAC)
				if err != nil {
					t.Fatal(err)
				}
				for _, q := range []neighborQuery{
					{mac: mac, sender: lab.Addr("10.0.1.11"), target: lab.Addr(resolver4)},
					{mac: mac, sender: lab.Addr("fd00:1::11"), target: lab.Addr(resolver6)},
				} {
					dropped := count("dropped", "origin")
					if err := raw.Send(tagFrame(q.build(), estateCtrTag)); err != nil {
						t.Fatal(err)
					}
					if err := raw.Send(q.build()); err != nil {
						t.Fatal(err)
					}
					f, err := raw.RecvMatch(within(t, wait), func(f []byte) bool {
						if len(f) > 18 && f[12] == 0x81 {
							f = slices.Concat(f[:12], f[16:])
							if neighborTold(f) == q.target {
								t.Errorf("a tagged frame is told of %s", q.target)
							}
							return false
						}
						return neighborTold(f) == q.target
					})
					if err != nil {
						t.Fatalf("%v after %x", err, f)
					}
					s.reaches(dropped+1, "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "dropped", "reason", "origin")
				}
			})
			s.endWell()
		})
	}

	// In hijack mode somebody else may know the container: its query goes on, tag
	// and all.
	t.Run("hijack", func(t *testing.T) {
		s := serve(t, n.Lab, estateCorefile("table 0 102\n address any", "northbound $NB", "fallthrough\n}\n passthrough"))
		// A trunk, as that of the VM: the bridge passes the tag.
		n.Node.VSCTL("clear", "Port", red.NodePort, "tag")
		far := n.guest("far", "", "", 0x12)
		n.Node.Revalidate()
		raw, there := red.Raw(), far.Raw()
		defer raw.Close()
		defer there.Close()
		sent := taggedQuery(t, "ctr", estateCtrTag, 4000, "10.0.1.99:53", "db.internal.")
		if err := raw.Send(sent); err != nil {
			t.Fatal(err)
		}
		got, err := there.RecvMatch(within(t, wait), sentByTagged("10.0.1.11:4000"))
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Log())
		}
		if !slices.Equal(got, sent) {
			t.Errorf("arrived\n%x, sent\n%x", got, sent)
		}
		s.reaches(1, "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "resumed", "reason", "origin")
		s.reaches(0, "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", "answered")
		s.endWell()
	})
}

// sentByTagged is sentBy for frames with a tag.
func sentByTagged(src string) func([]byte) bool {
	plain := sentBy(src)
	return func(f []byte) bool {
		return len(f) > 18 && f[12] == 0x81 && plain(slices.Concat(f[:12], f[16:]))
	}
}

// Who a port is follows the local database and Northbound: what no logical port
// stands for is told no tenant's names, and nothing of the one that it stood for.
func TestNorthboundFollow(t *testing.T) {
	t.Parallel()
	for _, placement := range []string{"neutron", "table 0 102"} {
		t.Run(placement, func(t *testing.T) {
			n := newEstate(t, true)
			text := estateCorefile(placement+"\n"+rareBeats, "northbound $NB", "fallthrough\n}\n hosts {\n 192.0.2.1 who.example\n fallthrough\n}")
			s := serve(t, n.Lab, text)
			red := n.guests["red"]
			knows(t, red, resolvers...)
			stranger := n.guest("stranger", "", "", 0x12)
			knows(t, stranger, resolvers...)
			n.Node.VSCTL("set", "Port", stranger.NodePort, "tag=1", "other_config:net_uuid=net-red")
			// served asks once, without patience.
			served := func(g *lab.Guest, name, want string) error {
				ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				defer cancel()
				got := "no reply"
				if r, err := exchange(ctx, g, resolver4, name, dns.TypeA); err == nil {
					got = inShort(r)
				}
				if got != want {
					return fmt.Errorf("%s is told %s of %s, want %s", g.Name, got, name, want)
				}
				return nil
			}
			becomes := func(what string, g *lab.Guest, name, want string) {
				t.Helper()
				n.Eventually(what, func() error { return served(g, name, want) })
			}

			// Something else that is new to the bridge has been seen by then.
			probe := n.guest("probe", "blue", "probe", 0x13)
			knows(t, probe, resolvers...)
			n.Node.VSCTL("set", "Port", probe.NodePort, "tag=2")
			becomes("a guest that came", probe, "probe.", "NOERROR 10.0.1.13")
			for _, name := range []string{"db.internal.", "who.example."} {
				if err := served(stranger, name, "no reply"); err != nil {
					t.Error(err)
				}
			}
			if left := n.flowsOf(stranger); left != 0 {
				t.Errorf("the guest without a logical port has %d flows", left)
			}

			n.NBCTL("lsp-add", "blue", "stranger", "--", "lsp-set-addresses", "stranger", stranger.MAC+" 10.0.1.12")
			becomes("its logical port came", stranger, "db.internal.", "NOERROR 10.0.1.201")
			becomes("all of the chain", stranger, "who.example.", "NOERROR 192.0.2.1")
			n.NBCTL("lsp-del", "stranger")
			becomes("its logical port went", stranger, "db.internal.", "no reply")
			n.Eventually("its flows go", func() error {
				if left := n.flowsOf(stranger); left != 0 {
					return fmt.Errorf("%d are left", left)
				}
				return nil
			})

			n.Node.VSCTL("set", "Interface", stranger.NodePort, "external_ids:iface-id=red-leased")
			becomes("it stands for another logical port", stranger, "db.internal.", "NOERROR 10.0.1.101")
			n.Node.VSCTL("set", "Interface", stranger.NodePort, "external_ids:iface-id=blue-ctr")
			becomes("and for another tenant's", stranger, "db.internal.", "NOERROR 10.0.1.201")
			n.Node.VSCTL("remove", "Interface", stranger.NodePort, "external_ids", "iface-id")
			becomes("and for none", stranger, "db.internal.", "no reply")
			becomes("a port of its own is not touched", red, "db.internal.", "NOERROR 10.0.1.101")

			follows(t, red, "db.internal.", dns.TypeA, "NOERROR 10.0.1.111", func() {
				n.NBCTL("set", "DNS", n.row, `records:db.internal="10.0.1.111"`)
			})
			follows(t, red, "chosen.", dns.TypeA, "NOERROR 10.0.1.211", func() {
				n.NBCTL("set", "Logical_Switch_Port", "red-ipam", `dynamic_addresses="02:00:00:00:01:94 10.0.1.211"`)
			})
			follows(t, red, "vm1.red.example.", dns.TypeA, "NOERROR 10.0.1.11", func() {
				n.NBCTL("set", "Logical_Switch", "red", "other_config:dns_domain=red.example")
			})

			// What was known serves while Northbound is away.
			n.Kill("nb")
			s.reaches(0, "coredns_ovnhosts_database_up")
			s.ready(503)
			for range 5 {
				becomes("in an outage", red, "db.internal.", "NOERROR 10.0.1.111")
			}
			n.Revive("nb")
			s.reaches(1, "coredns_ovnhosts_database_up")
			s.ready(200)
			follows(t, red, "db.internal.", dns.TypeA, "NOERROR 10.0.1.112", func() {
				n.NBCTL("set", "DNS", n.row, `records:db.internal="10.0.1.112"`)
			})
			s.endWell()
			if got := standingFlows(n.Lab); len(got) != 0 {
				t.Errorf("flows are left: %v", got)
			}
		})
	}
}

// What is deleted from Northbound while it cannot be reached is gone when it can be
// again: single names, and a whole tenant. Until then all is answered.
func TestNorthboundOutage(t *testing.T) {
	t.Parallel()
	n := newEstate(t, true)
	red, blue := n.guests["red"], n.guests["blue"]
	gate := n.Gate("unix:" + n.Dir + "/gate.sock")
	gate.Open(n.NB)
	s := serve(t, n.Lab, estateCorefile("table 0 102", "northbound "+gate.Endpoint, "}"))
	before := func() {
		t.Helper()
		answers(t, red, "red.internal.", "NOERROR 10.0.1.103")
		answers(t, red, "both.internal.", "NOERROR 10.0.1.9")
		answers(t, red, "leased.dhcp.internal.", "NOERROR 10.0.1.91")
		answers(t, blue, "vm1.blue.example.", "NOERROR 10.0.1.11")
		answers(t, blue, "both.internal.", "NOERROR 10.0.1.9")
	}
	before()

	gate.Close()
	s.reaches(0, "coredns_ovnhosts_database_up")
	s.ready(503)
	n.NBCTL("destroy", "DNS", n.row, "--", "lsp-del", "red-leased", "--", "ls-del", "blue")
	came := len(gate.Came())
	n.Eventually("it tries again and again", func() error {
		if again := len(gate.Came()); again < came+3 {
			return fmt.Errorf("%d connections", again-came)
		}
		return nil
	})
	before()
	if n.flowsOf(blue) == 0 {
		t.Error("the tenant's flows are gone in an outage")
	}

	gate.Open(n.NB)
	s.reaches(1, "coredns_ovnhosts_database_up")
	s.ready(200)
	answers(t, red, "red.internal.", nxdomain)
	answers(t, red, "leased.dhcp.internal.", nxdomain)
	answers(t, red, "both.internal.", "NOERROR 10.0.1.9")
	n.Eventually("the flows of the tenant that went are gone", func() error {
		if left := n.flowsOf(blue); left != 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if r, err := exchange(ctx, blue, resolver4, "both.internal.", dns.TypeA); err == nil {
		t.Errorf("the tenant that went is told %s", inShort(r))
	}
	s.endWell()
}

// Northbound knows no chassis: before the local database has told who is here,
// nothing is in place, and nothing is taken from a process that serves.
func TestNorthboundStart(t *testing.T) {
	t.Parallel()
	n := newEstate(t, true)
	red := n.guests["red"]
	text := estateCorefile("table 0 102", "northbound $NB", "}")
	for _, monitor := range []string{"local", "all"} {
		t.Run("local database last, monitor "+monitor, func(t *testing.T) {
			late := filepath.Join(t.TempDir(), "db.sock")
			s := launch(t, n.Lab, n.Node, "late-"+monitor, strings.NewReplacer("$OVSDB", "unix:"+late, "northbound $NB", "northbound $NB\n monitor "+monitor).Replace(text))
			s.ready(503)
			s.reaches(1, "coredns_ovnhosts_database_up")
			s.reaches(1, "coredns_ofpunt_connected")
			s.log(logWaiting)
			if got := s.metric("coredns_ofpunt_flow_installs_total"); got != 0 {
				t.Errorf("%v flows are installed, and no guest is known", got)
			}
			appear(t, n.Node.OVSDB, late)
			s.ready(200)
			// No try is lost from then on.
			expect(t, red, "NOERROR 10.0.1.101", "db.internal", "@"+resolver4)
			s.endWell()
		})
	}
	t.Run("hand-over", func(t *testing.T) {
		first := launch(t, n.Lab, n.Node, "first", text)
		first.ready(200)
		const both = "NOERROR 10.0.1.101 fd00:1::101"
		stop := keepAsking(t, wait,
			standing{red, resolver4, "db.internal.", dns.TypeANY, both}, standing{red, resolver6, "db.internal.", dns.TypeANY, both})
		for i := range 5 {
			next := launch(t, n.Lab, n.Node, fmt.Sprintf("next%d", i),
				strings.NewReplacer(metricsAddr, fmt.Sprintf("127.0.0.1:%d", 9200+i), readyAddr, fmt.Sprintf("127.0.0.1:%d", 8200+i), "$CONTROL", fmt.Sprint("$CONTROL.", i)).Replace(text))
			next.metricsAt = fmt.Sprintf("127.0.0.1:%d", 9200+i)
			next.serves()
			first.yields()
			if err := first.Stop(); err != nil {
				t.Error(err)
			}
			first = next
		}
		if asked, other := stop(); len(other) > 0 {
			t.Errorf("of %d queries: %v", asked, other)
		}
		first.endWell()
	})
}
