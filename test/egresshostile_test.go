// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// Plugins above egress change questions and answers. egress judges the name that it gets, and the answer that it gives to rpz.
func TestEgressBelowOtherPlugins(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	zone := filepath.Join(t.TempDir(), "local.rpz")
	rules := "$ORIGIN local.rpz.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\n" +
		"n2.example A 192.0.2.12\n" +
		"32.3.2.0.192.rpz-ip A 192.0.2.13\n" +
		"32.4.2.0.192.rpz-ip CNAME .\n" +
		"32.5.2.0.192.rpz-ip CNAME rpz-passthru.\n" +
		"32.6.2.0.192.rpz-ip CNAME rpz-tcp-only.\n"
	if err := os.WriteFile(zone, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	text := n.corefileText("", "policy ofpunt/switch red {\n allow *.example\n}")
	text = strings.Replace(text, "    errors\n", "    errors\n    dns64 {\n        allow_ipv4\n    }\n    rewrite name n1.test n1.example\n    rewrite name n9.example n9.test\n    rewrite cname exact n21.test. n22.test.\n    rpz {\n        zone local.rpz file "+zone+"\n    }\n", 1)
	s := serve(t, n.Lab, corefile(n.Lab, text))
	var all []string
	for _, tt := range []struct {
		what, name string
		qtype      uint16
		answer     string
		opens      []string
	}{
		{"rewrite writes an allowed name", "n1.test.", dns.TypeA, "NOERROR 192.0.2.1", []string{"192.0.2.1 [n1.example.]"}},
		{"rewrite writes another name", "n9.example.", dns.TypeA, "NOERROR 192.0.2.9", nil},
		{"rpz answers", "n2.example.", dns.TypeA, "NOERROR 192.0.2.12", nil},
		{"rpz replaces an address", "n3.example.", dns.TypeA, "NOERROR 192.0.2.13", nil},
		{"rpz denies an address", "n4.example.", dns.TypeA, "NXDOMAIN", nil},
		{"rpz lets an address pass", "n5.example.", dns.TypeA, "NOERROR 192.0.2.5", []string{"192.0.2.5 [n5.example.]"}},
		{"rpz wants TCP", "n6.example.", dns.TypeA, "NOERROR", nil},
		{"rewrite gives an alias another target", "a21.example.", dns.TypeA, "NOERROR n22.test. 192.0.2.22", []string{"192.0.2.21 [a21.example.]"}},
		{"dns64 makes an address of an open one", "m7.example.", dns.TypeAAAA, "NOERROR 64:ff9b::3c00:7", []string{"60.0.0.7 [m7.example.]"}},
	} {
		r, err := exchange(within(t, wait), n.vm, resolver4, tt.name, tt.qtype)
		if err != nil {
			t.Fatalf("%s: %v", tt.what, err)
		}
		if got := inShort(r); got != tt.answer {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.answer)
		}
		opens := slices.DeleteFunc(n.openings(s), func(text string) bool { return slices.Contains(all, text) })
		if !slices.Equal(opens, tt.opens) {
			t.Errorf("%s: opens %q, want %q", tt.what, opens, tt.opens)
		}
		all = append(all, opens...)
	}
	s.reaches(5, "coredns_rpz_matches_total") // of n2 to n6, once
	s.endWell()
}

// A guest asks over UDP and TCP with one id, and then for more names than it may have addresses. Its neighbour opens addresses as before.
func TestEgressHostile(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	n.manyAddresses()
	s := serve(t, n.Lab, n.corefileOf("", "max_addresses 100\n policy ofpunt/switch red {\n allow *.example\n}"))
	exchanges := []func(context.Context, *dns.Msg, string) (*dns.Msg, time.Duration, error){n.vm.Exchange, n.vm.ExchangeTCP}
	var all sync.WaitGroup
	for round := range 10 {
		for i, exchange := range exchanges {
			all.Go(func() {
				k := 2*round + i + 1
				q := new(dns.Msg).SetQuestion(fmt.Sprintf("m%d.example.", k), dns.TypeA)
				q.Id = uint16(round)
				r, _, err := exchange(within(t, wait), q, net.JoinHostPort(resolver4, "53"))
				if err != nil {
					t.Error(err)
				} else if got, want := inShort(r), "NOERROR "+manyAddress(k).String(); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
	all.Wait()
	s.reaches(20, "coredns_ofpunt_open_destinations")

	var mu sync.Mutex
	answers := map[string]int{}
	for worker := range 8 {
		all.Go(func() {
			for k := 1000 + worker; k < 2000; k += 8 {
				answer, err := n.answer(fmt.Sprintf("m%d.example.", k))
				for err == nil && answer == "SERVFAIL 14" { // a busy machine has not confirmed within a second
					answer, err = n.answer(fmt.Sprintf("m%d.example.", k))
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if want := map[string]int{"NOERROR": 80, "SERVFAIL 18": 920}; !maps.Equal(answers, want) {
		t.Errorf("%v, want %v", answers, want)
	}
	if _, err := n.resolve(n.peer, "m3.example.", dns.TypeA); err != nil {
		t.Error(err)
	} else if c, _, err := connect(within(t, wait), n.peer, net.JoinHostPort(manyAddress(3).String(), "443")); err != nil {
		t.Errorf("the neighbour does not reach what it has resolved: %v", err)
	} else {
		c.Close()
	}
	for name, want := range map[string]string{"m1999.example": "SERVFAIL " + api.CodeEgressFailed, "m1.example": "NOERROR"} {
		var e api.Explanation
		s.operator().ask(&e, "explain", "red-vm", name, "--vswitchd", n.Node.AppCtlTarget("ovs-vswitchd"))
		got := e.Rcode
		for _, p := range e.Findings {
			got += " " + p.Code
		}
		if got != want {
			t.Errorf("puntctl explain has %s for %s, want %s: %+v", got, name, want, e)
		}
	}
	s.reaches(101, "coredns_ofpunt_open_destinations")
	s.endWell()
}

var droppedFragments = regexp.MustCompile(`n_packets=(\d+), .*nw_frag=.* actions=drop`)

// Fragments reach open addresses. Others end before connection tracking, which may keep them and send them later with
// another packet.
func TestEgressFragments(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	s := serve(t, n.Lab, n.corefile("allow *.example"))
	dropped := func() (packets int) {
		n.Node.Revalidate()
		for _, m := range droppedFragments.FindAllStringSubmatch(n.Node.OFCTL("dump-flows", lab.Bridge, ourCookie), -1) {
			k, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			packets += k
		}
		return packets
	}
	datagram := make([]byte, 4000) // three fragments
	for _, tt := range []struct {
		qtype        uint16
		open, closed string
	}{{dns.TypeA, "192.0.2.1", "192.0.2.2"}, {dns.TypeAAAA, "2001:db8::1", "2001:db8::2"}} {
		send := func(to string) (answered func(time.Duration) error) {
			t.Helper()
			server, err := n.outside.ListenPacket("udp", net.JoinHostPort(to, "9"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Close() })
			c, err := n.vm.Dial(within(t, wait), "udp", net.JoinHostPort(to, "9"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if _, err := c.Write(datagram); err != nil {
				t.Fatal(err)
			}
			return func(limit time.Duration) error {
				if err := server.SetReadDeadline(time.Now().Add(limit)); err != nil {
					return err
				}
				k, _, err := server.ReadFrom(make([]byte, 2*len(datagram)))
				return errors.Join(err, errorUnless(err != nil || k == len(datagram), "%d octets", k))
			}
		}
		before := dropped()
		arrives := send(tt.closed)
		n.Eventually("three fragments are dropped", func() error {
			got := dropped() - before
			return errorUnless(got == 3, "%s: %d", tt.closed, got)
		})
		if err := arrives(closedFor); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a datagram in fragments comes to %s: %v", tt.closed, err)
		}
		if _, err := n.resolve(n.vm, "n1.example.", tt.qtype); err != nil {
			t.Fatal(err)
		}
		if err := send(tt.open)(wait); err != nil {
			t.Errorf("a datagram in fragments does not come to %s: %v", tt.open, err)
		}
	}
	s.endWell()
}

// answer asks with EDNS, and returns the rcode and the Extended DNS Error.
func (n *outsideNet) answer(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	q := new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false)
	r, _, err := n.vm.Exchange(ctx, q, net.JoinHostPort(resolver4, "53"))
	if err != nil {
		return "", err
	}
	text := dns.RcodeToString[r.Rcode]
	if o := r.IsEdns0(); o != nil {
		for _, option := range o.Option {
			if e, ok := option.(*dns.EDNS0_EDE); ok {
				text += fmt.Sprint(" ", e.InfoCode)
			}
		}
	}
	return text, nil
}

// Servers that a tenant names choose the addresses of their answers, so these open nothing.
func TestEgressForward(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	host, port, err := net.SplitHostPort(n.upstream)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(n.corefileText("northbound $NB", "policy ofpunt/switch red {\n allow *.example\n}"), "    forward . ", "    ovnforward {\n        allow "+host+"\n        ports "+port+"\n    }\n    cache\n    forward . ", 1)
	s := serve(t, n.Lab, corefile(n.Lab, text))
	opens := func(name string, want ...string) {
		t.Helper()
		if _, err := n.resolve(n.vm, name, dns.TypeA); err != nil {
			t.Fatal(err)
		}
		if got := n.openings(s); !slices.Equal(got, want) {
			t.Errorf("open are %q after %s, want %q", got, name, want)
		}
	}
	notOpened := func(want bool) {
		t.Helper()
		n.Eventually("puntctl explain has seen the change", func() error {
			var e api.Explanation
			s.operator().ask(&e, "explain", "red-vm", "n1.tenant.example")
			got := slices.ContainsFunc(e.Findings, func(p api.Problem) bool { return p.Code == api.CodeNotOpened })
			return errorUnless(got == want && e.Rcode == "NOERROR", "%s, %+v", e.Rcode, e.Findings)
		})
	}
	n.NBCTL("set", "Logical_Switch", "red", `external_ids:dns-forward="tenant.example=`+n.upstream+`"`)
	notOpened(true)
	opens("n1.tenant.example.")
	opens("n2.example.", "192.0.2.2 [n2.example.]")
	n.NBCTL("remove", "Logical_Switch", "red", "external_ids", "dns-forward")
	notOpened(false)
	opens("n1.tenant.example.", "192.0.2.1 [n1.tenant.example.]", "192.0.2.2 [n2.example.]")
	s.endWell()
}

// openings are the addresses that red-vm may send to, each with its names.
func (n *outsideNet) openings(s *server) (all []string) {
	n.t.Helper()
	var listed api.Egress
	s.operator().ask(&listed, "egress", "list", "red-vm")
	for _, o := range listed.Openings {
		all = append(all, fmt.Sprint(o.Address, " ", o.Names))
	}
	return all
}
