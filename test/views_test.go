// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// Tenants who have an upstream and a cache each: the same outside name is another
// for either, and what is cached for one is never told to the other.
func TestViewsCache(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	const times = 60 // queries of a name, by each guest
	names := []string{"shared.example.", "Shared.Example.", "other.example."}
	upstreams := map[string]*lab.DNSServer{
		"red":  n.Upstream("shared.example. 60 IN A 192.0.2.1", "other.example. 60 IN A 192.0.2.11", "only.example. 60 IN A 192.0.2.21"),
		"blue": n.Upstream("shared.example. 60 IN A 192.0.2.2", "other.example. 60 IN A 192.0.2.12"),
		"":     n.Upstream("shared.example. 60 IN A 192.0.2.3", "other.example. 60 IN A 192.0.2.13"),
	}
	wants := map[string][3]string{
		"red":   {"NOERROR 192.0.2.1", "NOERROR 192.0.2.11", "NOERROR 192.0.2.21"},
		"blue":  {"NOERROR 192.0.2.2", "NOERROR 192.0.2.12", "NXDOMAIN"},
		"green": {"NOERROR 192.0.2.3", "NOERROR 192.0.2.13", "NXDOMAIN"},
	}
	aclSwitch(n.Lab, "green", 3)
	guests := map[string]*lab.Guest{"red": n.red, "blue": n.blue, "green": aclGuest(n.Lab, "green", 3, 1)}
	n.Sync()

	text := ""
	for _, tenant := range []string{"red", "blue", ""} {
		view := ""
		if tenant != "" {
			view = "view " + tenant + " {\n expr metadata('ofpunt/switch') == '" + tenant + "'\n }"
		}
		text += `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        rate off
    }
    metadata
    errors
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ` + view + `
    ovnhosts {
        southbound $SB
        fallthrough
    }
    cache
    forward . ` + upstreams[tenant].Addr + `
}
`
	}
	s := serve(t, n.Lab, text)

	var wrong mistakes
	var wg sync.WaitGroup
	ctx := within(t, 2*wait)
	for tenant, g := range guests {
		for worker := range 2 {
			wg.Go(func() {
				for i := worker; i < times; i += 2 {
					for j, name := range append(slices.Clone(names), "only.example.", "db.internal.") {
						want := ""
						switch j {
						case 0, 1:
							want = wants[tenant][0]
						case 2:
							want = wants[tenant][1]
						case 3:
							want = wants[tenant][2]
						case 4:
							// That of the tenant's own network is not for a cache.
							want = map[string]string{"red": "NOERROR 10.0.1.101", "blue": "NOERROR 10.0.1.201", "green": "NXDOMAIN"}[tenant]
						}
						r, err := exchange(ctx, g, resolvers[(i+j)%2], name, dns.TypeA)
						if err != nil || inShort(r) != want || r.Question[0].Name != name {
							wrong.add(fmt.Sprintf("%s asks for %s: %v, want %s: %v", g.Name, name, r, want, err))
						}
					}
				}
			})
		}
	}
	wg.Wait()
	wrong.report(t)

	const zone, names4 = ".", 4 // shared, other, only, db
	for _, tt := range []struct {
		view, tenant string
		// own is how many of the five names are the network's.
		own int
	}{{"red", "red", 1}, {"blue", "blue", 1}, {"", "", 0}} {
		of := func(name string) float64 {
			return s.metric(name, "server", "ofpunt://br-int", "zones", zone, "view", tt.view)
		}
		asked := len(upstreams[tt.tenant].Asked())
		requests := float64((5 - tt.own) * times)
		if got := of("coredns_cache_requests_total"); got != requests {
			t.Errorf("view %q: the cache has had %v requests, want %v", tt.view, got, requests)
		}
		// Some may be on their way to the upstream at once, and a denial lives 5 s.
		distinct := names4 - tt.own
		if asked < distinct || asked > int(requests)/4 {
			t.Errorf("view %q: the upstream was asked %d times for %d names", tt.view, asked, distinct)
		}
		if got := of("coredns_cache_hits_total"); got != requests-float64(asked) {
			t.Errorf("view %q: %v hits of %v requests, and %d queries to the upstream", tt.view, got, requests, asked)
		}
		if got := of("coredns_cache_entries"); got != float64(distinct) {
			t.Errorf("view %q: %v entries, want %d", tt.view, got, distinct)
		}
		s.reaches(5*times, "coredns_ofpunt_answer_duration_seconds", "server", "ofpunt://br-int", "view", tt.view)
		if got := s.metric("coredns_ovnhosts_answers_total", "server", "ofpunt://br-int", "view", tt.view); got != float64(tt.own*times) {
			t.Errorf("view %q: %v answers of ovnhosts, want %d", tt.view, got, tt.own*times)
		}
	}

	// What one has cached is served to it alone while the upstreams are away.
	for _, up := range upstreams {
		up.Close()
	}
	for tenant, g := range guests {
		for _, q := range []struct{ name, want string }{
			{"shared.example.", wants[tenant][0]}, {"other.example.", wants[tenant][1]}, {"new.example.", "SERVFAIL"},
		} {
			r, err := exchange(ctx, g, resolver4, q.name, dns.TypeA)
			if err != nil || inShort(r) != q.want {
				t.Errorf("%s asks for %s without an upstream: %v, want %s: %v", tenant, q.name, r, q.want, err)
			}
		}
	}
	s.endWell()
}

// Every label of the origin, as log, template, rewrite and an upstream have it.
func TestViewsMetadata(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	for _, sw := range []string{"red", "blue"} {
		aclSwitch(l, sw, 1)
		l.AddDNS(map[string]string{
			"db.internal": map[string]string{"red": "10.0.1.101", "blue": "10.0.1.201"}[sw], sw + "-vm1.me.internal": map[string]string{"red": "10.0.1.102", "blue": "10.0.1.202"}[sw],
		}, sw)
	}
	l.NBCTL("set", "Logical_Switch", "blue", "other_config:vlan-passthru=true")
	red, blue := aclGuest(l, "red", 1, 1), aclGuest(l, "blue", 1, 1)
	l.Sync()

	// The upstream says which local EDNS option came.
	const code = 0xffee
	up := l.Upstream()
	up.SetHandler(dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		said := "nothing"
		if o := r.IsEdns0(); o != nil {
			for _, option := range o.Option {
				if local, ok := option.(*dns.EDNS0_LOCAL); ok && local.Code == code {
					said = string(local.Data)
				}
			}
		}
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{said}}}
		_ = w.WriteMsg(m) // a client that has gone is no failure
	}))
	labels := []string{"bridge", "network", "switch", "port", "in-port", "vlan", "client-mac", "destination"}
	var logged, inTemplate, upstream []string
	for _, label := range labels {
		logged = append(logged, label+"={/ofpunt/"+label+"}")
		inTemplate = append(inTemplate, `\"{{ .Meta \"ofpunt/`+label+`\" }}\"`)
		upstream = append(upstream, label+`.up.example {
    ofpunt br-int
    metadata
    rewrite edns0 local set 0xffee {ofpunt/`+label+`}
    forward . `+up.Addr+`
}
`)
	}
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    errors
    log . "asked {name} `+strings.Join(logged, " ")+` answer=[{/ovnhosts/answer}] none=[{/ofpunt/none}]"
    ready `+readyAddr+` {
        monitor continuously
    }
    rewrite name regex ^me\.internal\.$ {ofpunt/port}.me.internal. metadata answer auto
    rewrite name regex ^none\.internal\.$ {ofpunt/none}.me.internal. metadata answer auto
    ovnhosts {
        southbound $SB
        fallthrough
    }
    template IN TXT all.example {
        answer "{{ .Name }} 0 IN TXT `+strings.Join(inTemplate, " ")+`"
    }
    template IN TXT answer.example {
        answer "{{ .Name }} 0 IN TXT \"[{{ .Meta \"ovnhosts/answer\" }}]\""
    }
}
`+strings.Join(upstream, ""))

	uuids := map[string]string{}
	for _, sw := range []string{"red", "blue"} {
		uuids[sw] = strings.TrimSpace(l.NBCTL("get", "Logical_Switch", sw, "_uuid"))
	}
	ctx := within(t, 2*wait)
	for _, g := range []*lab.Guest{red, blue} {
		for _, resolver := range resolvers {
			destination := resolver + ":53"
			if strings.Contains(resolver, ":") {
				destination = "[" + resolver + "]:53"
			}
			sw, _, _ := strings.Cut(g.Name, "-")
			values := map[string]string{
				"bridge": lab.Bridge, "network": uuids[sw], "switch": sw, "port": g.Port, "in-port": strconv.Itoa(g.OFPort), "vlan": "0",
				"client-mac": g.MAC, "destination": destination,
			}
			var quoted, assigned []string
			for _, label := range labels {
				quoted = append(quoted, strconv.Quote(values[label]))
				assigned = append(assigned, label+"="+values[label])
				check(ctx, t, g, resolver, label+".up.example.", dns.TypeTXT, "NOERROR "+strconv.Quote(values[label]))
			}
			check(ctx, t, g, resolver, "all.example.", dns.TypeTXT, "NOERROR "+strings.Join(quoted, " "))
			// What stands above has not answered.
			check(ctx, t, g, resolver, "answer.example.", dns.TypeTXT, `NOERROR "[]"`)

			own := map[string]string{"red": "10.0.1.102", "blue": "10.0.1.202"}[sw]
			db := map[string]string{"red": "10.0.1.101", "blue": "10.0.1.201"}[sw]
			for _, q := range []struct{ name, want, answer string }{
				{"me.internal.", "NOERROR " + own, "dns"},
				{"db.internal.", "NOERROR " + db, "dns"},
				{"vm1.", "NOERROR 10.0.1.11", "port"},
				{"none.internal.", "SERVFAIL", ""},
			} {
				check(ctx, t, g, resolver, q.name, dns.TypeA, q.want)
				line := "asked " + q.name + " " + strings.Join(assigned, " ") + " answer=[" + q.answer + "] none=[-]"
				l.Eventually("the log of "+q.name, func() error {
					if got := strings.Count(s.Log(), line+"\n"); got != 1 {
						return fmt.Errorf("%d lines are %q\n%s", got, line, s.Log())
					}
					return nil
				})
			}
		}
	}

	// A tag that the switch leaves to the guest.
	raw := blue.Raw()
	defer raw.Close()
	f := udpFrame{srcMAC: blue.MAC, dstMAC: "02:00:00:00:01:01", ttl: 64, src: "10.0.1.11:4000", dst: resolver4 + ":53",
		payload: pack(t, new(dns.Msg).SetQuestion("all.example.", dns.TypeTXT))}
	if err := raw.Send(tagFrame(f.build(t), 7)); err != nil {
		t.Fatal(err)
	}
	s.log(`asked all\.example\. bridge=br-int network=` + uuids["blue"] + ` switch=blue port=blue-vm1 in-port=` + strconv.Itoa(blue.OFPort) + ` vlan=7 client-mac=` + blue.MAC + ` destination=169\.254\.169\.254:53 `)
	s.endWell()
}

// check asks once.
func check(ctx context.Context, t *testing.T, g *lab.Guest, resolver, name string, qtype uint16, want string) {
	t.Helper()
	r, err := exchange(ctx, g, resolver, name, qtype)
	if err != nil || inShort(r) != want {
		t.Errorf("%s asks %s for %s: %v, want %s: %v", g.Name, resolver, name, r, want, err)
	}
}
