// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

func TestServeDNS(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	asker := l.Node.AddGuest(lab.Guest{Name: "asker", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24", "fd00::11/64")})
	server := l.Node.AddGuest(lab.Guest{Name: "server", MAC: "02:00:00:00:00:12", Addrs: lab.Prefixes("10.0.0.12/24", "fd00::12/64")})
	records := []string{
		"Host.Test. 60 IN A 192.0.2.1",
		"host.test. 60 IN AAAA 2001:db8::1",
		"alias.test. 60 IN CNAME host.test.",
	}
	for i := range 100 {
		records = append(records, fmt.Sprintf("big.test. 60 IN A 192.0.2.%d", i))
	}
	v4 := server.ServeDNS("10.0.0.12:53", records...)
	v6 := server.ServeDNS("[fd00::12]:53", records...)
	up := l.Upstream(records...)
	if up2 := l.Upstream(); up2.Addr == up.Addr {
		t.Errorf("two upstreams on %s", up.Addr)
	}

	for _, tc := range []struct {
		name   string
		host   *lab.Host
		server string
		qname  string
		qtype  uint16
		want   string // status and number of answers
	}{
		{"A in other case", asker.Host, v4.Addr, "hOST.test.", dns.TypeA, "NOERROR 1"},
		{"AAAA over IPv6", asker.Host, v6.Addr, "host.test.", dns.TypeAAAA, "NOERROR 1"},
		{"ANY", asker.Host, v4.Addr, "host.test.", dns.TypeANY, "NOERROR 2"},
		{"CNAME", asker.Host, v4.Addr, "alias.test.", dns.TypeA, "NOERROR 1"},
		{"no data", asker.Host, v4.Addr, "host.test.", dns.TypeMX, "NOERROR 0"},
		{"no name", asker.Host, v4.Addr, "other.test.", dns.TypeA, "NXDOMAIN 0"},
		{"upstream of the node", l.Node.Host, up.Addr, "host.test.", dns.TypeA, "NOERROR 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _, err := tc.host.Exchange(within(t, wait), new(dns.Msg).SetQuestion(tc.qname, tc.qtype), tc.server)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(dns.RcodeToString[r.Rcode], " ", len(r.Answer)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	t.Run("truncated, then TCP", func(t *testing.T) {
		m := new(dns.Msg).SetQuestion("big.test.", dns.TypeA)
		r, _, err := asker.Exchange(within(t, wait), m, v4.Addr)
		if err != nil || !r.Truncated {
			t.Errorf("over UDP: %v, %v", r, err)
		}
		r, _, err = asker.ExchangeTCP(within(t, wait), m, v4.Addr)
		if err != nil || len(r.Answer) != 100 {
			t.Errorf("over TCP: %v, %v", r, err)
		}
		if got := asker.Dig("@10.0.0.12", "big.test"); len(got.Answer) != 100 {
			t.Errorf("dig: %s", got.Out)
		}
	})
	t.Run("dig", func(t *testing.T) {
		r := asker.Dig("@fd00::12", "host.test", "ANY")
		if want := []string{"192.0.2.1", "2001:db8::1"}; !slices.Equal(r.Values(), want) || r.Err != nil || !slices.Contains(r.Flags, "aa") {
			t.Errorf("%q %q %v", r.Values(), r.Flags, r.Err)
		}
		if r := asker.Dig("@10.0.0.12", "other.test"); r.String() != "NXDOMAIN" || len(r.Authority) != 1 {
			t.Errorf("%s %v", r, r.Authority)
		}
	})
	t.Run("as dig asks", func(t *testing.T) {
		for _, args := range []string{
			"host.test", "host.test AAAA", "+noedns host.test", "+nocookie host.test", "+norecurse host.test TXT", "+tcp host.test",
			"host.test ANY", "+notcp host.test ANY", "other.test", "big.test", "+ignore big.test", "+noedns +ignore big.test",
		} {
			words := append([]string{"@10.0.0.12"}, strings.Fields(args)...)
			var mu sync.Mutex // guards asked
			var asked [2][]string
			var got [2]string
			for i, dig := range []func(...string) *lab.DigResult{asker.DigProgram, asker.Dig} {
				v4.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
					v4.SetHandler(nil)
					mu.Lock()
					asked[i] = append(asked[i], asWritten(w, m))
					mu.Unlock()
					v4.ServeDNS(w, m)
				}))
				r := dig(words...)
				got[i] = fmt.Sprint(r, r.Flags, r.Authority)
			}
			mu.Lock()
			if !slices.Equal(asked[0], asked[1]) || got[0] != got[1] || len(asked[0]) == 0 {
				t.Errorf("%s: dig asks\n%s\nand is told %s; the lab asks\n%s\nand is told %s", args, asked[0], got[0], asked[1], got[1])
			}
			mu.Unlock()
		}
	})
	t.Run("what was asked", func(t *testing.T) {
		if got := up.Asked(); len(got) != 1 || got[0] != (dns.Question{Name: "host.test.", Qtype: dns.TypeA, Qclass: dns.ClassINET}) {
			t.Errorf("asked %v", got)
		}
		if got := v4.Count("ALIAS.test"); got != 1 {
			t.Errorf("asked %d times", got)
		}
	})
	t.Run("changes", func(t *testing.T) {
		up.Set("new.test. 1 IN A 192.0.2.9")
		if r := l.Node.Dig("-p", up.Addr[len("127.0.0.53:"):], "@127.0.0.53", "new.test"); r.String() != "NOERROR 192.0.2.9" {
			t.Errorf("got %s", r)
		}
		// Silence is what a dead upstream gives.
		asked := make(chan struct{})
		up.SetHandler(dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) { close(asked) }))
		ctx, cancel := context.WithCancel(within(t, wait))
		go func() {
			<-asked
			cancel()
		}()
		if _, _, err := l.Node.Exchange(ctx, new(dns.Msg).SetQuestion("new.test.", dns.TypeA), up.Addr); err == nil {
			t.Error("a silent server answered")
		}
		up.SetHandler(nil)
		if _, _, err := l.Node.Exchange(within(t, wait), new(dns.Msg).SetQuestion("new.test.", dns.TypeA), up.Addr); err != nil {
			t.Error(err)
		}
		up.Close()
		if r := l.Node.Dig("-p", up.Addr[len("127.0.0.53:"):], "@127.0.0.53", "new.test"); r.Err == nil || r.String() != "no reply" {
			t.Errorf("a closed server answered: %s", r)
		}
	})
}

// asWritten is a question without its random numbers, and how it came.
func asWritten(w dns.ResponseWriter, m *dns.Msg) string {
	m = m.Copy()
	m.Id = 0
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if c, ok := o.(*dns.EDNS0_COOKIE); ok {
				c.Cookie = strings.Repeat("0", len(c.Cookie))
			}
		}
	}
	return w.RemoteAddr().Network() + m.String()
}
