// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/label"
)

// FuzzCacheEqualsNone: each asker gets its answer without cache, whichever labels the program reads.
func FuzzCacheEqualsNone(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, []byte{0, 1, 2, 3, 0, 1, 2, 3})
	f.Add([]byte("public or not, by what is read"), []byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 255, 128, 64})
	text := ". {\n $OFPUNT\n $CLOSE\n metadata\n log . {/ofpunt/switch}{/ofpunt/port}{/ofpunt/router}{/ofpunt/external-id/k}{/ofpunt/vlan}\n cache\n}\n"
	rig := startCache(f, text)
	read := []string{"ofpunt/switch", "ofpunt/port", "ofpunt/router", "ofpunt/external-id/k", "ofpunt/vlan", "other/label"}
	askers := []asker{red1, red2, blue1, socketAsker, guest(1, 2, "10.0.0.5"), guest(2, 1, "10.0.0.7")}
	var runs atomic.Int64
	f.Fuzz(func(t *testing.T, program, queries []byte) {
		if len(program) > 64 || len(queries) > 64 {
			t.Skip()
		}
		// Each value that run reads chooses the next step, as in a template.
		run := func(value func(label string) string, qname string) (text string, rcode int) {
			at := len(qname)
			for steps := 0; steps < 8 && len(program) > 0; steps++ {
				op := program[at%len(program)]
				switch {
				case op < 40:
					return text, dns.RcodeSuccess
				case op < 50:
					return text, dns.RcodeNameError
				case op < 60:
					return text, dns.RcodeServerFailure
				case op < 200:
					v := value(read[int(op)%len(read)])
					text += v + ";"
					for _, b := range []byte(v) {
						at += int(b)
					}
				}
				at += int(op) + 1
			}
			return text, dns.RcodeSuccess
		}
		id := fmt.Sprintf(".run%d.test.", runs.Add(1)) // others have left entries
		rig.upstream = func(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			text, rcode := run(func(label string) string {
				if f := metadata.ValueFunc(ctx, label); f != nil {
					return f()
				}
				return ""
			}, r.Question[0].Name)
			if rcode == dns.RcodeServerFailure {
				return rcode, errFailed
			}
			m := new(dns.Msg).SetReply(r)
			m.Rcode = rcode
			if rcode == dns.RcodeSuccess {
				m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 600}, Txt: []string{text}}}
			} else {
				soa, _ := dns.NewRR("test. 600 IN SOA a. b. 1 2 3 4 5")
				m.Ns = []dns.RR{soa}
			}
			return 0, w.WriteMsg(m)
		}
		for range 2 {
			for _, b := range queries {
				who, qname := askers[int(b)%len(askers)], strings.Repeat("n", 1+int(b>>4)%3)+id
				text, rcode := run(func(name string) string {
					if who.origin == nil {
						return ""
					}
					for _, l := range append(label.All(), label.OfKey("k")) {
						if l.Name == name {
							return l.Value(who.origin)
						}
					}
					return ""
				}, qname)
				want := dns.RcodeToString[rcode]
				if rcode == dns.RcodeSuccess {
					want += " " + text
				}
				if got := rig.lookup(who, qname, dns.TypeTXT); got != want {
					t.Fatalf("%s asks for %s: %q, want %q", who.addr, qname, got, want)
				}
			}
		}
	})
}
