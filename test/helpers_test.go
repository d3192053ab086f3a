// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// resolvers are the resolver addresses, one of each family.
var resolvers = []string{resolver4, resolver6}

// unlimited adds `rate off` to properties of ofpunt that say nothing of it. By default
// a guest may ask less than most tests do.
func unlimited(properties string) string {
	if strings.Contains(properties, "rate ") {
		return properties
	}
	return properties + "\n        rate off"
}

// exchange asks a resolver over UDP; it may run on any goroutine.
func exchange(ctx context.Context, g *lab.Guest, resolver, name string, qtype uint16) (*dns.Msg, error) {
	r, _, err := g.Exchange(ctx, new(dns.Msg).SetQuestion(name, qtype), net.JoinHostPort(resolver, "53"))
	return r, err
}

// inShort is the status and the data of an answer.
func inShort(r *dns.Msg) string {
	words := []string{dns.RcodeToString[r.Rcode]}
	for _, rr := range r.Answer {
		words = append(words, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(words, " ")
}

// follows commits a change to a database and asks until the answer is what it
// should bring.
func follows(t *testing.T, g *lab.Guest, name string, qtype uint16, want string, commit func()) {
	t.Helper()
	if r, err := exchange(within(t, wait), g, resolver4, name, qtype); err != nil || inShort(r) == want {
		t.Fatalf("%s %s before the change: %v, want anything but %s: %v", name, dns.TypeToString[qtype], r, want, err)
	}
	commit()
	committed := time.Now()
	ctx := within(t, wait)
	for i := 0; ; i++ {
		r, err := exchange(ctx, g, resolvers[i%len(resolvers)], name, qtype)
		took := time.Since(committed)
		switch {
		case err != nil:
			t.Fatalf("%s %s: %v", name, dns.TypeToString[qtype], err)
		case inShort(r) == want:
			t.Logf("%s %s: %s, %s after the commit", name, dns.TypeToString[qtype], want, took)
			return
		case took > wait/2:
			t.Fatalf("%s %s: %s, want %s", name, dns.TypeToString[qtype], inShort(r), want)
		}
	}
}

// mendings are the flows that a process has installed, as it counts them, and what
// its log tells of the switch.
type mendings struct {
	installed, lost float64
	told            []string // how many flows were lost, for each line that tells of it
	connects, ended int      // connections
}

func (s *server) mendings() (m mendings) {
	s.t.Helper()
	m.installed = s.metric("coredns_ofpunt_flow_installs_total")
	m.lost = s.metric("coredns_ofpunt_flow_installs_total", "reason", "lost")
	m.told, m.connects, m.ended = s.lost(), s.told(logSwitchUp, ""), s.told(logSwitchEnded)
	return m
}

// mended checks that since before so many flows were installed, and so many of them
// because somebody else had taken or changed them: each is counted once, and one line
// tells of them.
func (s *server) mended(t *testing.T, before mendings, installed, lost int) {
	t.Helper()
	var now mendings
	// A flow is counted when the switch has said that it has it.
	s.l.Eventually("flows are counted", func() error {
		if now = s.mendings(); now.installed-before.installed < float64(installed) {
			return fmt.Errorf("%+v, then %+v, want %d installed", before, now, installed)
		}
		return nil
	})
	if got := now.lost - before.lost; got != float64(lost) {
		t.Errorf("%v flows are counted as lost and put back, want %d", got, lost)
	}
	if got := now.installed - before.installed; got != float64(installed) {
		t.Errorf("%v flows were installed, want %d", got, installed)
	}
	var told []string
	if lost > 0 {
		told = []string{strconv.Itoa(lost)}
	}
	if got := now.told[len(before.told):]; !slices.Equal(got, told) {
		t.Errorf("the log tells of lost flows by the lines %q, want %q\n%s", got, told, s.Log())
	}
}

// emptyPort adds a logical port that no guest is bound to.
func emptyPort(l *lab.Lab, sw, port, addresses, hostname string, settings ...string) {
	args := []string{"lsp-add", sw, port, "--", "lsp-set-addresses", port, addresses}
	if !strings.Contains(addresses, "dynamic") {
		args = append(args, "--", "lsp-set-port-security", port, addresses)
	}
	args = append(args, "--", "set", "Logical_Switch_Port", port, "options:hostname="+hostname)
	l.NBCTL(append(args, settings...)...)
}

// neighborQuery asks who has target: an ARP request (RFC 826) or a neighbour
// solicitation (RFC 4861, section 4.3).
type neighborQuery struct {
	mac            net.HardwareAddr // of who asks
	known          net.HardwareAddr // of the target, for unicast and for answer
	sender, target netip.Addr
	unicast        bool
}

// Types of ICMPv6 (RFC 4861).
const (
	solicitation  = 135
	advertisement = 136
)

func (q neighborQuery) build() []byte {
	if q.sender.Is4() {
		to := net.HardwareAddr{255, 255, 255, 255, 255, 255}
		if q.unicast {
			to = q.known
		}
		return arpFrame(1, to, q.mac, q.sender, make(net.HardwareAddr, 6), q.target)
	}
	// The solicited-node address (RFC 4291, section 2.7.1) and its MAC.
	target, group := q.target.As16(), lab.Addr("ff02::1:ff00:0").As16()
	copy(group[13:], target[13:])
	to, mac := netip.AddrFrom16(group), slices.Concat(net.HardwareAddr{0x33, 0x33}, group[12:])
	if q.unicast {
		to, mac = q.target, q.known
	}
	const sourceLinkLayer = 1
	return neighborFrame(solicitation, 0, mac, q.mac, q.sender, to, q.target, sourceLinkLayer)
}

// answer is the frame that has to come back.
func (q neighborQuery) answer() []byte {
	if q.sender.Is4() {
		return arpFrame(2, q.mac, q.known, q.target, q.mac, q.sender)
	}
	const solicited, override, targetLinkLayer = 0x40, 0x20, 2
	return neighborFrame(advertisement, solicited|override, q.mac, q.known, q.target, q.sender, q.target, targetLinkLayer)
}

// neighborTold is the address that an ARP reply or an advertisement tells of.
func neighborTold(f []byte) (a netip.Addr) {
	switch {
	case len(f) >= 42 && f[12] == 0x08 && f[13] == 0x06 && f[21] == 2:
		a, _ = netip.AddrFromSlice(f[28:32])
	case len(f) >= 78 && f[12] == 0x86 && f[13] == 0xdd && f[20] == 58 && f[54] == advertisement:
		a, _ = netip.AddrFromSlice(f[62:78])
	}
	return a
}

func arpFrame(op byte, to, from net.HardwareAddr, sender netip.Addr, targetMAC net.HardwareAddr, target netip.Addr) []byte {
	return slices.Concat(to, from, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, op}, from, sender.AsSlice(), targetMAC, target.AsSlice())
}

// neighborFrame has one option, the link-layer address of who sends it; there is
// none from the unspecified address.
func neighborFrame(icmpType, flags byte, to, from net.HardwareAddr, src, dst, target netip.Addr, option byte) []byte {
	m := slices.Concat([]byte{icmpType, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice())
	if !src.IsUnspecified() {
		m = slices.Concat(m, []byte{option, 1}, from)
	}
	pseudo := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, 0, 0, byte(len(m)), 0, 0, 0, 58}, m)
	binary.BigEndian.PutUint16(m[2:], internetSum(pseudo))
	header := []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(m)), 58, 255}
	return slices.Concat(to, from, header, src.AsSlice(), dst.AsSlice(), m)
}
