// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/test/lab"
)

// dnsPort is where answers come from.
const dnsPort = 53

// unguarded adds a guest to the switch red that may send what it likes, as it has
// no port security.
func (n *routed) unguarded(name string, number int) *lab.Guest {
	n.t.Helper()
	return n.Node.AddGuest(lab.Guest{
		Name: name, Switch: "red", MAC: fmt.Sprintf("02:00:00:00:00:%02d", number),
		Addrs:    lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", number), fmt.Sprintf("fd00:10::%d/64", number)),
		Gateway4: lab.Addr("10.0.0.1"), Gateway6: lab.Addr("fd00:10::1"),
	})
}

// witness sees every frame that reaches a guest.
type witness struct {
	g   *lab.Guest
	raw *lab.Raw
}

func watch(t *testing.T, guests ...*lab.Guest) (all []witness) {
	t.Helper()
	for _, g := range guests {
		w := witness{g, g.Raw()}
		t.Cleanup(func() { w.raw.Close() })
		all = append(all, w)
	}
	return all
}

// answers are the datagrams from port 53 that have reached the guest.
func (w witness) answers(t *testing.T) (all []frame.UDP) {
	t.Helper()
	w.hears(t, func(f []byte) {
		var u frame.UDP
		if u.Decode(f) == nil && u.Src.Port() == dnsPort {
			all = append(all, u)
		}
	})
	return all
}

// segments are those of TCP from port 53 that have reached the guest.
func (w witness) segments(t *testing.T) (all []frame.TCP) {
	t.Helper()
	w.hears(t, func(f []byte) {
		var s frame.TCP
		if s.Decode(f) == nil && s.Src.Port() == dnsPort {
			all = append(all, s)
		}
	})
	return all
}

// hears calls each with the frames that have reached the guest. It asks something
// itself, some times over, since one answer may overtake another: what has not come by
// the last of those will not.
func (w witness) hears(t *testing.T, each func(f []byte)) {
	t.Helper()
	ctx := within(t, wait)
	for port := range uint16(3) {
		me := netip.AddrPortFrom(w.g.Addrs[0].Addr(), 60000+port)
		q := udpFrame{
			srcMAC: w.g.MAC, dstMAC: redGateway, src: me.String(), dst: resolver4 + ":53", ttl: 64,
			payload: pack(t, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)),
		}
		if err := w.raw.Send(q.build(t)); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			f, err := w.raw.Recv(ctx)
			if err != nil {
				t.Fatalf("%s has no answer: %v", w.g.Name, err)
			}
			var u frame.UDP
			if done = u.Decode(f) == nil && u.Src.Port() == dnsPort && u.Dst == me; !done {
				each(f)
			}
		}
	}
}

// nobodyHears fails if an answer has reached one of them.
func nobodyHears(t *testing.T, all []witness) {
	t.Helper()
	for _, w := range all {
		for _, u := range w.answers(t) {
			t.Errorf("%s has received an answer from %s to %s (%x)", w.g.Name, u.Src, u.Dst, u.DstMAC)
		}
	}
}

// inPayload is the answer in a datagram.
func inPayload(payload []byte) string {
	r := new(dns.Msg)
	if err := r.Unpack(payload); err != nil {
		return err.Error()
	}
	return withTTL(r)
}

// A guest can neither take part in what a neighbour asks nor have the answers to
// its own frames go to the neighbour, whatever it writes into them.
func TestHostileSource(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	mallory := n.unguarded("red-mallory", 66)
	n.AddDNS(map[string]string{"forged.internal": "10.0.0.66"}, "red")
	n.Sync()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := serve(t, n.Lab, pipelineCorefile(mode.properties, mode.fall, mode.behind))
			n.Node.Revalidate()
			t.Run("with port security", func(t *testing.T) {
				raw := n.vm.Raw()
				defer raw.Close()
				n.punts(t, s, 0, func() {
					for _, f := range []udpFrame{
						{srcMAC: n.peer.MAC, src: "10.0.0.11:4000"},
						{srcMAC: n.vm.MAC, src: "10.0.0.12:4000"},
						{srcMAC: n.peer.MAC, src: "10.0.0.12:4000"},
						{srcMAC: n.vm.MAC, src: "10.0.1.21:4000"},
						{srcMAC: n.vm.MAC, src: resolver4 + ":4000"},
						{srcMAC: n.peer.MAC, src: "[fd00:10::11]:4000"},
						{srcMAC: n.vm.MAC, src: "[fd00:10::12]:4000"},
						{srcMAC: n.peer.MAC, src: "[fd00:10::12]:4000"},
						{srcMAC: n.vm.MAC, src: "[" + resolver6 + "]:4000"},
					} {
						f.dst = resolver4 + ":53"
						if !netip.MustParseAddrPort(f.src).Addr().Is4() {
							f.dst = "[" + resolver6 + "]:53"
						}
						f.dstMAC, f.ttl, f.payload = redGateway, 64, pack(t, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA))
						if err := raw.Send(f.build(t)); err != nil {
							t.Fatal(err)
						}
					}
				})
				// Nor can it answer in the place of a resolver address.
				witnesses := watch(t, n.peer, mallory)
				for _, f := range []udpFrame{
					{src: resolver4 + ":53", dst: "10.0.0.12:4000"},
					{src: "[" + resolver6 + "]:53", dst: "[fd00:10::12]:4000"},
				} {
					f.srcMAC, f.dstMAC, f.ttl = n.vm.MAC, n.peer.MAC, 64
					f.payload = pack(t, new(dns.Msg).SetReply(new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)))
					if err := raw.Send(f.build(t)); err != nil {
						t.Fatal(err)
					}
				}
				nobodyHears(t, witnesses)
			})
			t.Run("without", func(t *testing.T) { testSameTuple(t, n, mallory) })
			s.endWell()
		})
	}
}

// testSameTuple has a guest send what its neighbour sends, down to the DNS ID, but
// with another question.
func testSameTuple(t *testing.T, n *routed, mallory *lab.Guest) {
	const times = 200
	his, hers := mallory.Raw(), n.peer.Raw()
	defer his.Close()
	defer hers.Close()
	ctx := within(t, wait)
	// next is the next answer, as long as it is one to that question.
	next := func(raw *lab.Raw, i int, name, want string) {
		t.Helper()
		for {
			f, err := raw.Recv(ctx)
			if err != nil {
				t.Fatalf("query %d for %s: %v", i, name, err)
			}
			var u frame.UDP
			if u.Decode(f) != nil || u.Src.Port() != dnsPort {
				continue
			}
			r := new(dns.Msg)
			if err := r.Unpack(u.Payload); err != nil || len(r.Question) != 1 || r.Question[0].Name != name || int(r.Id) != i || inShort(r) != want {
				t.Fatalf("who sends query %d for %s receives\n%v, want %s: %v", i, name, r, want, err)
			}
			return
		}
	}
	for i := range times {
		f := udpFrame{srcMAC: n.peer.MAC, dstMAC: redGateway, src: "10.0.0.12:4000", dst: resolver4 + ":53", ttl: 64}
		if i%2 == 1 {
			f.src, f.dst = "[fd00:10::12]:4000", "["+resolver6+"]:53"
		}
		build := func(name string) []byte {
			m := new(dns.Msg).SetQuestion(name, dns.TypeA)
			m.Id = uint16(i)
			f.payload = pack(t, m)
			return f.build(t)
		}
		forged, right := build("forged.internal."), build("db.internal.")
		if err := errors.Join(his.Send(forged), hers.Send(right), his.Send(forged)); err != nil {
			t.Fatal(err)
		}
		next(hers, i, "db.internal.", "NOERROR 10.0.0.9")
		next(his, i, "forged.internal.", "NOERROR 10.0.0.66")
		next(his, i, "forged.internal.", "NOERROR 10.0.0.66")
	}
	// None is left over.
	nobodyHears(t, []witness{{n.peer, hers}, {mallory, his}})
}

// hostileFrame is what a guest without port security sends, and what it has of it.
type hostileFrame struct {
	name string
	f    udpFrame
	// service and hijack are the answers in the two modes, empty for none.
	service, hijack string
	// reason is why puntdns does not take it, empty if it does, or if it never
	// comes to it.
	reason string
}

// Whatever the addresses in a frame, an answer to it leaves by the port that it
// has come from.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	mallory := n.unguarded("red-mallory", 66)
	n.Sync()
	const (
		own     = "02:00:00:00:00:66"
		us4     = resolver4 + ":53"
		us6     = "[" + resolver6 + "]:53"
		self4   = "10.0.0.66:4000"
		self6   = "[fd00:10::66]:4000"
		ours    = fromPuntdns
		theirs  = fromOVN // it looks at neither addresses nor ports
		nothing = ""
	)
	frames := []hostileFrame{
		{"own", udpFrame{src: self4, dst: us4}, ours, ours, ""},
		{"own, IPv6", udpFrame{src: self6, dst: us6}, ours, ours, ""},
		{"of a neighbour", udpFrame{srcMAC: n.peer.MAC, src: "10.0.0.12:4000", dst: us4}, ours, ours, ""},
		{"of a neighbour, IPv6", udpFrame{srcMAC: n.peer.MAC, src: "[fd00:10::12]:4000", dst: us6}, ours, ours, ""},
		{"of another switch", udpFrame{srcMAC: n.far.MAC, src: "10.0.1.21:4000", dst: us4}, ours, ours, ""},
		{"of the router", udpFrame{srcMAC: redGateway, src: "10.0.0.1:4000", dst: us4}, ours, ours, ""},
		{"of a server", udpFrame{src: "10.0.0.66:53", dst: us4}, ours, ours, ""},
		{"of the resolver", udpFrame{src: resolver4 + ":4000", dst: us4}, ours, ours, ""},
		{"of the resolver, IPv6", udpFrame{src: "[" + resolver6 + "]:4000", dst: us6}, ours, ours, ""},
		{"broadcast", udpFrame{src: "255.255.255.255:4000", dst: us4}, nothing, theirs, "source-address"},
		{"broadcast of the network", udpFrame{src: "10.0.0.255:4000", dst: us4}, ours, ours, ""},
		{"multicast", udpFrame{src: "224.0.0.1:4000", dst: us4}, nothing, theirs, "source-address"},
		{"multicast, IPv6", udpFrame{src: "[ff02::1]:4000", dst: us6}, nothing, theirs, "source-address"},
		{"unspecified", udpFrame{src: "0.0.0.0:4000", dst: us4}, nothing, theirs, "source-address"},
		{"unspecified, IPv6", udpFrame{src: "[::]:4000", dst: us6}, nothing, theirs, "source-address"},
		{"loopback", udpFrame{src: "127.0.0.1:4000", dst: us4}, nothing, theirs, "source-address"},
		{"loopback, IPv6", udpFrame{src: "[::1]:4000", dst: us6}, nothing, theirs, "source-address"},
		// The switch itself takes no port 0, and OVN no group address as a source.
		{"port 0", udpFrame{src: "10.0.0.66:0", dst: us4}, nothing, nothing, ""},
		{"broadcast MAC", udpFrame{srcMAC: "ff:ff:ff:ff:ff:ff", src: self4, dst: us4}, nothing, nothing, ""},
		{"multicast MAC", udpFrame{srcMAC: "01:00:5e:00:00:01", src: self4, dst: us4}, nothing, nothing, ""},
		{"no MAC", udpFrame{srcMAC: "00:00:00:00:00:00", src: self4, dst: us4}, ours, ours, ""},
		{"to a neighbour's MAC", udpFrame{dstMAC: n.peer.MAC, src: self4, dst: us4}, ours, ours, ""},
		{"to its own MAC", udpFrame{dstMAC: own, src: self4, dst: us4}, ours, ours, ""},
		{"to the MAC of another switch's guest", udpFrame{dstMAC: n.far.MAC, src: self4, dst: us4}, ours, ours, ""},
		{"to the broadcast MAC", udpFrame{dstMAC: "ff:ff:ff:ff:ff:ff", src: self4, dst: us4}, nothing, theirs, "destination-mac"},
		{"to a multicast MAC", udpFrame{dstMAC: "01:00:5e:00:00:fb", src: self4, dst: us4}, nothing, theirs, "destination-mac"},
	}
	// Only hijack mode looks at what goes to others.
	others := []hostileFrame{
		{"to a neighbour, as another", udpFrame{srcMAC: n.vm.MAC, dstMAC: n.peer.MAC, src: "10.0.0.11:4000", dst: "10.0.0.12:53"}, "", ours, ""},
		{"to a neighbour, as the neighbour", udpFrame{srcMAC: n.peer.MAC, dstMAC: n.peer.MAC, src: "10.0.0.12:4000", dst: "10.0.0.12:53"}, "", ours, ""},
		{"to another switch's guest", udpFrame{src: self4, dst: "10.0.1.21:53"}, "", ours, ""},
		{"to nobody, as the resolver", udpFrame{src: us4, dst: public4 + ":53"}, "", ours, ""},
		{"to the loopback address", udpFrame{src: self4, dst: "127.0.0.1:53"}, "", theirs, "destination-address"},
		{"to everybody", udpFrame{dstMAC: "ff:ff:ff:ff:ff:ff", src: "10.0.0.12:4000", dst: "255.255.255.255:53"}, "", theirs, "destination-mac"},
		{"to a group, IPv6", udpFrame{dstMAC: "33:33:00:00:00:fb", src: "[fd00:10::12]:4000", dst: "[ff02::fb]:53"}, "", theirs, "destination-mac"},
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := serve(t, n.Lab, pipelineCorefile(mode.properties, mode.fall, mode.behind))
			n.Node.Revalidate()
			// Before mallory, so that they see all that it does.
			witnesses := watch(t, n.vm, n.peer, n.far)
			me := watch(t, mallory)[0]
			all := slices.Clone(frames)
			result := "dropped"
			if mode.name == "hijack" {
				all, result = append(all, others...), "resumed"
			}
			for _, tc := range all {
				f, want := tc.f, tc.service
				if mode.name == "hijack" {
					want = tc.hijack
				}
				if f.srcMAC == "" {
					f.srcMAC = own
				}
				if f.dstMAC == "" {
					f.dstMAC = redGateway
				}
				f.ttl, f.payload = 64, pack(t, new(dns.Msg).SetQuestion("db.internal.", dns.TypeA))
				refused := s.punted(result, tc.reason)
				if err := me.raw.Send(f.build(t)); err != nil {
					t.Fatal(err)
				}
				if tc.reason != "" {
					s.reaches(float64(refused+1), "coredns_ofpunt_packet_ins_total", "bridge", lab.Bridge, "result", result, "reason", tc.reason)
				}
				if want == nothing {
					if got := me.answers(t); len(got) > 0 {
						t.Errorf("%s: an answer to %s", tc.name, got[0].Dst)
					}
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				got, err := me.raw.RecvMatch(ctx, sentBy(f.dst))
				cancel()
				if err != nil {
					t.Errorf("%s: %v", tc.name, err)
					continue
				}
				if short := inPayload(udpPayload(got)); short != want || net.HardwareAddr(got[:6]).String() != f.srcMAC {
					t.Errorf("%s: %s to %x, want %s", tc.name, short, got[:6], want)
				}
			}
			nobodyHears(t, witnesses)
			s.endWell()
		})
	}
}

// Who asks is what the switch says, not the tags and addresses in a frame.
func TestHostileOrigin(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	for _, sw := range []string{"red", "blue", "trunk"} {
		aclSwitch(l, sw, 1)
	}
	l.NBCTL("set", "Logical_Switch", "trunk", "other_config:vlan-passthru=true")
	l.AddDNS(map[string]string{"db.internal": "10.0.1.101"}, "red")
	l.AddDNS(map[string]string{"db.internal": "10.0.1.102", "blue.internal": "10.0.1.202"}, "blue")
	l.AddDNS(map[string]string{"db.internal": "10.0.1.103"}, "trunk")
	unguarded := func(sw string, number int) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: sw + "-mallory", Switch: sw, MAC: fmt.Sprintf("02:00:00:00:00:%02d", number),
			Addrs: lab.Prefixes(fmt.Sprintf("10.0.1.%d/24", number)), Gateway4: lab.Addr("10.0.1.1"),
		})
	}
	mallory, trunk := unguarded("red", 66), unguarded("trunk", 88)
	parent := aclGuest(l, "red", 1, 1)
	// Another tenant's, with the same addresses as parent.
	blue := aclGuest(l, "blue", 1, 1)
	const ctrMAC, ctr, tag = "02:00:00:00:00:77", "10.0.1.77", 42
	l.NBCTL("lsp-add", "blue", "blue-ctr", parent.Port, fmt.Sprint(tag),
		"--", "lsp-set-addresses", "blue-ctr", ctrMAC+" "+ctr, "--", "lsp-set-port-security", "blue-ctr", ctrMAC+" "+ctr)
	l.Sync()
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    log . "asked by {/ofpunt/port} on {/ofpunt/switch}"
    ovnhosts {
        southbound $SB
    }
    ready `+readyAddr+` {
        monitor continuously
    }
}`)
	const red, trunks = "NOERROR 30 10.0.1.101", "NOERROR 30 10.0.1.103"
	const nothing = ""
	qTag := func(vlan uint16) []byte { return []byte{0x81, 0, byte(vlan >> 8), byte(vlan)} }
	sTag := []byte{0x88, 0xa8, 0, tag}
	for _, tc := range []struct {
		name     string
		from     *lab.Guest
		tags     []byte
		mac, src string
		db       string // what there is for db.internal
	}{
		{"own", mallory, nil, mallory.MAC, "10.0.1.66", red},
		{"as another tenant's guest", mallory, nil, blue.MAC, "10.0.1.11", red},
		{"as a container", mallory, nil, ctrMAC, ctr, red},
		{"as a container, with its tag", mallory, qTag(tag), ctrMAC, ctr, nothing},
		{"as itself, with the tag of a container", mallory, qTag(tag), mallory.MAC, "10.0.1.66", nothing},
		{"with a tag of priority", mallory, qTag(0), ctrMAC, ctr, nothing},
		{"with two tags", mallory, slices.Concat(qTag(tag), qTag(tag)), ctrMAC, ctr, nothing},
		{"with a service tag", mallory, sTag, ctrMAC, ctr, nothing},
		{"where tags pass, with that of a container", trunk, qTag(tag), ctrMAC, ctr, trunks},
		{"where tags pass, with two", trunk, slices.Concat(qTag(tag), qTag(tag)), ctrMAC, ctr, nothing},
		{"where tags pass, with a service tag", trunk, slices.Concat(sTag, qTag(tag)), ctrMAC, ctr, nothing},
		{"the VM of a container, with another tag", parent, qTag(43), ctrMAC, ctr, nothing},
		{"the VM of a container, as that without its tag", parent, nil, ctrMAC, ctr, nothing},
		{"the VM of a container, as itself with its tag", parent, qTag(tag), parent.MAC, "10.0.1.11", nothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := watch(t, tc.from)[0]
			for name, want := range map[string]string{"db.internal.": tc.db, "blue.internal.": "NXDOMAIN"} {
				q := udpFrame{srcMAC: tc.mac, dstMAC: redGateway, src: tc.src + ":4000", dst: resolver4 + ":53", ttl: 64,
					payload: pack(t, new(dns.Msg).SetQuestion(name, dns.TypeA))}.build(t)
				if err := w.raw.Send(slices.Concat(q[:12], tc.tags, q[12:])); err != nil {
					t.Fatal(err)
				}
				if tc.db == nothing {
					for _, g := range w.answers(t) {
						t.Errorf("%s: %s, want no answer", name, inPayload(g.Payload))
					}
					continue
				}
				var g frame.UDP
				if _, err := w.raw.RecvMatch(within(t, wait), func(f []byte) bool {
					return g.Decode(f) == nil && g.Src.Port() == dnsPort
				}); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if got := inPayload(g.Payload); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
				if g.Tagged != (tc.tags != nil) || g.Tagged && g.VLAN != tag || net.HardwareAddr(g.DstMAC[:]).String() != tc.mac {
					t.Errorf("%s: the answer has the tag %+v and goes to %x", name, g.Tag, g.DstMAC)
				}
			}
		})
	}
	if log := s.Log(); strings.Contains(log, "on blue") || !strings.Contains(log, "asked by trunk-mallory on trunk") {
		t.Errorf("none of them is on blue:\n%s", log)
	}
}

// A process tells by probes through the switch whether it is alive. A guest that
// sends the like keeps no punt from expiring, and none reaches the process.
func TestHostileProbe(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	mallory := n.unguarded("red-mallory", 66)
	n.Sync()
	s := serve(t, n.Lab, pipelineCorefile("lease $LEASE", "", ""))
	raw := mallory.Raw()
	defer raw.Close()
	own, err := net.ParseMAC(mallory.MAC)
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := net.ParseMAC(redGateway)
	if err != nil {
		t.Fatal(err)
	}
	// One as the process sends it, and one that passes for the guest's own.
	probes := func(token uint64) [][]byte {
		genuine := frame.AppendProbe(nil, token)
		return [][]byte{genuine, slices.Concat(gateway, own, genuine[12:])}
	}
	beats := func() int { return int(s.metric("coredns_ofpunt_probe_duration_seconds")) }

	n.punts(t, s, 0, func() {
		began, before := time.Now(), beats()
		for token := range uint64(200) {
			for _, f := range probes(token) {
				if err := raw.Send(f); err != nil {
					t.Fatal(err)
				}
			}
		}
		n.Eventually("two beats", func() error {
			if beats()-before < 2 {
				return errors.New("not yet")
			}
			return nil
		})
		if got, most := beats()-before, int(time.Since(began)/(shortLease/3))+1; got > most {
			t.Errorf("%d probes came back, at most %d were sent", got, most)
		}
	})

	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		sent <- pace(ctx, 100, func(i int) error {
			for _, f := range probes(uint64(i)) {
				if err := raw.Send(f); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	n.leased(t)
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n.untilAnswer(t, fromOVN)
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	n.untilAnswer(t, fromPuntdns)
	cancel()
	if err := <-sent; err != nil {
		t.Error(err)
	}
	s.endWell()
}

// hostileQuery is what a guest sends to have much come back.
type hostileQuery struct {
	name    string
	payload []byte
	rcode   int // of the answer, -1 for none
	most    int // bytes of the answer
	cut     bool
}

// A datagram of a guest is worth one datagram at most, and that has at most 1,232
// bytes; an error is no longer than what it is about.
func TestHostileAmplification(t *testing.T) {
	t.Parallel()
	n := newRouted(t)
	mallory := n.unguarded("red-mallory", 66)
	n.AddDNS(map[string]string{"huge.internal": addresses(100)}, "red")
	n.Sync()
	var big []string
	for i := range 100 {
		big = append(big,
			fmt.Sprintf("big.example. 60 IN A 192.0.2.%d", i),
			fmt.Sprintf("big.example. 60 IN TXT \"%0200d\"", i))
	}
	up := n.Upstream(big...)
	s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", "cache\n forward . "+up.Addr))

	query := func(name string, qtype uint16, room int, change ...func(*dns.Msg)) []byte {
		m := new(dns.Msg).SetQuestion(name, qtype)
		if room > 0 {
			m.SetEdns0(uint16(room), true)
		}
		for _, f := range change {
			f(m)
		}
		return pack(t, m)
	}
	plain := query("huge.internal.", dns.TypeA, 0)
	counts := slices.Clone(plain)
	counts[4], counts[5] = 0xff, 0xff
	const none = -1
	queries := []hostileQuery{
		{name: "response", payload: query("huge.internal.", dns.TypeA, 0, func(m *dns.Msg) { m.Response = true }), rcode: none},
		{name: "half a header", payload: plain[:7], rcode: none},
		{name: "header alone", payload: plain[:12], rcode: dns.RcodeFormatError},
		{name: "half a question", payload: plain[:20], rcode: dns.RcodeFormatError},
		{name: "a name that points to itself", payload: slices.Concat(plain[:12], []byte{0xc0, 12, 0, 1, 0, 1}), rcode: dns.RcodeFormatError},
		{name: "65,535 questions", payload: counts, rcode: dns.RcodeFormatError},
		{name: "update", payload: query("huge.internal.", dns.TypeSOA, 0, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), rcode: dns.RcodeNotImplemented},
		{name: "no such opcode", payload: query("huge.internal.", dns.TypeA, 0, func(m *dns.Msg) { m.Opcode = 15 }), rcode: dns.RcodeNotImplemented},
		{name: "EDNS of another version", payload: query("huge.internal.", dns.TypeA, 4096, func(m *dns.Msg) { m.IsEdns0().SetVersion(7) }), rcode: dns.RcodeBadVers},
	}
	for i := range queries {
		queries[i].most = len(queries[i].payload)
	}
	for room, most := range map[int]int{0: 512, 1: 512, 512: 512, 1232: 1232, 4096: 1232, 65535: 1232} {
		for _, q := range []struct {
			name  string
			qtype uint16
		}{
			{"huge.internal.", dns.TypeA}, {"huge.internal.", dns.TypeANY},
			{"big.example.", dns.TypeA}, {"big.example.", dns.TypeTXT}, {"big.example.", dns.TypeANY},
		} {
			queries = append(queries, hostileQuery{
				fmt.Sprintf("%s %s with room for %d", q.name, dns.TypeToString[q.qtype], room),
				query(q.name, q.qtype, room), dns.RcodeSuccess, most, true,
			})
		}
	}

	w := watch(t, mallory)[0]
	for _, ends := range [][2]string{{"10.0.0.66:4000", resolver4 + ":53"}, {"[fd00:10::66]:4000", "[" + resolver6 + "]:53"}} {
		for _, q := range queries {
			f := udpFrame{srcMAC: mallory.MAC, dstMAC: redGateway, src: ends[0], dst: ends[1], ttl: 64, payload: q.payload}
			if err := w.raw.Send(f.build(t)); err != nil {
				t.Fatal(err)
			}
			if q.rcode != none {
				got, err := w.raw.RecvMatch(within(t, wait), sentBy(f.dst))
				if err != nil {
					t.Fatalf("%s: %v", q.name, err)
				}
				payload, r := udpPayload(got), new(dns.Msg)
				if err := r.Unpack(payload); err != nil || r.Rcode != q.rcode || r.Truncated != q.cut || len(payload) > q.most {
					t.Errorf("%s: %d bytes, want at most %d, with rcode %d: %v %v", q.name, len(payload), q.most, q.rcode, r, err)
				}
			}
			for _, u := range w.answers(t) {
				t.Errorf("%s: one more answer, %s", q.name, inPayload(u.Payload))
			}
		}
	}
	s.endWell()
}
