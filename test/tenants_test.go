// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// overlap is two tenants that are alike to the MACs and addresses of their guests
// and routers, but for what their names stand for.
type overlap struct {
	*lab.Lab
	red, blue *lab.Guest
}

func newOverlap(t *testing.T) overlap {
	t.Helper()
	l := lab.New(t, lab.Options{})
	for _, sw := range []string{"red", "blue"} {
		aclSwitch(l, sw, 1)
	}
	l.AddDNS(map[string]string{
		"db.internal":   "10.0.1.101 fd00:1::101",
		"red.internal":  "10.0.1.103",
		"left.internal": "10.0.1.50 fd00:1::50",
	}, "red")
	l.AddDNS(map[string]string{
		"db.internal":    "10.0.1.201 fd00:1::201",
		"blue.internal":  "10.0.1.203",
		"right.internal": "10.0.1.50 fd00:1::50",
	}, "blue")
	l.AddDNS(map[string]string{"both.internal": "10.0.1.9"}, "red", "blue")
	emptyPort(l, "red", "red-peer", "02:00:00:00:01:99 10.0.1.102", "peer")
	emptyPort(l, "blue", "blue-peer", "02:00:00:00:01:99 10.0.1.202", "peer")
	n := overlap{Lab: l, red: aclGuest(l, "red", 1, 1), blue: aclGuest(l, "blue", 1, 1)}
	l.Sync()
	return n
}

// sharedQuestion has the answers that either tenant gets, empty for one that has
// not the name, and what the upstream says of it.
type sharedQuestion struct {
	name                string
	qtype               uint16
	red, blue, upstream string
}

var sharedQuestions = []sharedQuestion{
	{"db.internal.", dns.TypeA, "10.0.1.101", "10.0.1.201", "192.0.2.1"},
	{"db.internal.", dns.TypeAAAA, "fd00:1::101", "fd00:1::201", "2001:db8::1"},
	{"peer.", dns.TypeA, "10.0.1.102", "10.0.1.202", "192.0.2.2"},
	{"vm1.", dns.TypeAAAA, "fd00:1::11", "fd00:1::11", "2001:db8::11"},
	{"both.internal.", dns.TypeA, "10.0.1.9", "10.0.1.9", "192.0.2.9"},
	{"red.internal.", dns.TypeA, "10.0.1.103", "", "192.0.2.3"},
	{"blue.internal.", dns.TypeA, "", "10.0.1.203", "192.0.2.4"},
	{"www.example.org.", dns.TypeA, "", "", "192.0.2.5"},
	{"50.1.0.10.in-addr.arpa.", dns.TypePTR, "left.internal.", "right.internal.", "up.example.org."},
	{"103.1.0.10.in-addr.arpa.", dns.TypePTR, "red.internal.", "", "up3.example.org."},
	{"203.1.0.10.in-addr.arpa.", dns.TypePTR, "", "blue.internal.", "up4.example.org."},
}

func (q sharedQuestion) String() string { return q.name + " " + dns.TypeToString[q.qtype] }

// want is the answer for a guest. With fall the names that it has not are the
// upstream's to answer.
func (n overlap) want(q sharedQuestion, g *lab.Guest, fall bool) string {
	own := q.red
	if g == n.blue {
		own = q.blue
	}
	switch {
	case own != "":
		return "NOERROR " + own
	case fall:
		return "NOERROR " + q.upstream
	}
	return "NXDOMAIN"
}

// dig asks every question, from either tenant and over either family.
func (n overlap) dig(t *testing.T, fall bool) {
	for _, q := range sharedQuestions {
		for _, g := range []*lab.Guest{n.red, n.blue, n.red} {
			for _, resolver := range resolvers {
				r := g.Dig("@"+resolver, q.name, dns.TypeToString[q.qtype])
				if want := n.want(q, g, fall); r.String() != want {
					t.Errorf("%s asks %s for %s: %s, want %s\n%s", g.Name, resolver, q, r, want, r.Out)
				}
			}
		}
	}
}

// interleave has either tenant ask that many times, with several queries of both
// on the way at any moment.
func (n overlap) interleave(t *testing.T, times int, fall bool) {
	const clients = 4
	ctx := within(t, 2*wait)
	var wrong mistakes
	var wg sync.WaitGroup
	for client := range clients {
		for _, g := range []*lab.Guest{n.red, n.blue} {
			wg.Go(func() {
				for i := client; i < times; i += clients {
					q := sharedQuestions[i%len(sharedQuestions)]
					resolver := resolvers[i/len(sharedQuestions)%len(resolvers)]
					got, want := "", n.want(q, g, fall)
					if r, err := exchange(ctx, g, resolver, q.name, q.qtype); err != nil {
						got = err.Error()
					} else {
						got = inShort(r)
					}
					if got != want {
						wrong.add(fmt.Sprintf("%s asks %s for %s: %s, want %s", g.Name, resolver, q, got, want))
					}
				}
			})
		}
	}
	wg.Wait()
	wrong.report(t)
}

// mistakes counts what is wrong on several goroutines.
type mistakes struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *mistakes) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what]++
}

func (c *mistakes) report(t *testing.T) {
	t.Helper()
	for what, n := range c.n {
		t.Errorf("%d times: %s", n, what)
	}
}

// sameFrames has both tenants send the same bytes at the same time, down to the
// ports and the DNS ID.
func (n overlap) sameFrames(t *testing.T) {
	const times = 200
	flows := []udpFrame{
		{src: "10.0.1.11:4000", dst: "169.254.169.254:53"},
		{src: "[fd00:1::11]:4000", dst: "[fd00::254]:53"},
	}
	ctx := within(t, wait)
	var wrong mistakes
	var wg sync.WaitGroup
	for g, want := range map[*lab.Guest]string{n.red: "NOERROR 10.0.1.101", n.blue: "NOERROR 10.0.1.201"} {
		raw := g.Raw()
		t.Cleanup(func() { raw.Close() })
		var queries [][]byte
		for id := range times {
			f := flows[id%len(flows)]
			f.srcMAC, f.dstMAC, f.ttl = "02:00:00:00:01:11", "02:00:00:00:01:01", 64
			m := new(dns.Msg).SetQuestion("db.internal.", dns.TypeA)
			m.Id = uint16(id)
			f.payload = pack(t, m)
			queries = append(queries, f.build(t))
		}
		wg.Go(func() {
			for id, query := range queries {
				got, err := rawExchange(ctx, raw, query, flows[id%len(flows)].dst)
				if err != nil {
					wrong.add(fmt.Sprintf("%s: query %d: %v", g.Name, id, err))
					return
				}
				r := new(dns.Msg)
				if err := r.Unpack(udpPayload(got)); err != nil || int(r.Id) != id || inShort(r) != want {
					wrong.add(fmt.Sprintf("%s: query %d: %v, want %s: %v", g.Name, id, r, want, err))
				}
			}
		})
	}
	wg.Wait()
	wrong.report(t)
}

// rawExchange sends a frame and returns the next one of the server's address that
// is for the frame's sender.
func rawExchange(ctx context.Context, raw *lab.Raw, query []byte, server string) ([]byte, error) {
	if err := raw.Send(query); err != nil {
		return nil, err
	}
	from := sentBy(server)
	return raw.RecvMatch(ctx, func(f []byte) bool { return from(f) && bytes.Equal(f[:6], query[6:12]) })
}

func TestTenants(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	var records []string
	for _, q := range sharedQuestions {
		records = append(records, fmt.Sprintf("%s 60 IN %s %s", q.name, dns.TypeToString[q.qtype], q.upstream))
	}
	up := n.Upstream(records...)

	if a, b := n.red, n.blue; a.MAC != b.MAC || a.MAC != "02:00:00:00:01:11" || a.Addrs[0] != b.Addrs[0] || a.Addrs[0] != netip.MustParsePrefix("10.0.1.11/24") {
		t.Fatalf("the guests are not alike: %s %s, %s %s", a.MAC, a.Addrs, b.MAC, b.Addrs)
	}

	t.Run("without fallthrough", func(t *testing.T) {
		s := serve(t, n.Lab, pipelineCorefile("", "", "forward . "+up.Addr))
		t.Run("dig", func(t *testing.T) { n.dig(t, false) })
		t.Run("interleaved", func(t *testing.T) { n.interleave(t, 1000, false) })
		t.Run("same frames", func(t *testing.T) { n.sameFrames(t) })
		if asked := up.Asked(); len(asked) > 0 {
			t.Errorf("the upstream was asked %d times, first %v", len(asked), asked[0])
		}
		s.endWell()
	})
	for _, tc := range []struct {
		name, behind string
		cache        bool
	}{
		{"fallthrough", "", false},
		{"fallthrough with cache", "cache 30", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, n.Lab, pipelineCorefile("", "fallthrough", tc.behind+"\n    forward . "+up.Addr))
			before := len(up.Asked())
			t.Run("dig", func(t *testing.T) { n.dig(t, true) })
			t.Run("interleaved", func(t *testing.T) { n.interleave(t, 1000, true) })
			t.Run("same frames", func(t *testing.T) { n.sameFrames(t) })

			passed := 0 // queries that go to the upstream, at least
			for _, q := range sharedQuestions {
				for _, own := range []string{q.red, q.blue} {
					if own == "" {
						passed += 1000 / len(sharedQuestions)
					}
				}
				if times := up.Count(q.name); q.red != "" && q.blue != "" && times > 0 {
					t.Errorf("both tenants have %s, and the upstream was asked for it %d times", q.name, times)
				}
			}
			if asked := len(up.Asked()) - before; (asked < passed) != tc.cache {
				t.Errorf("of at least %d queries that nobody here can answer %d have reached the upstream", passed, asked)
			}
			s.endWell()
		})
	}
}
