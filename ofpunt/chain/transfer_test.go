// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/refusals"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Only transfer answers zone transfers, of its block and zones: an upstream would give zones to the node.
func TestZoneTransfersByBlock(t *testing.T) {
	zone := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(zone, []byte("@ 60 IN SOA ns.corp.test. h.corp.test. 1 3600 600 86400 60\n@ 60 IN NS ns.corp.test.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := " file " + zone + " corp.test {\n reload 0\n }\n"
	const service, hijack = "", "\n address any"
	const tcp, resumable = true, true
	answered, refused, resumed := metric.Answered+" "+metric.ReasonChain, metric.Refused+" "+metric.ReasonTransfer, metric.Resumed+" "+metric.ReasonTransfer
	for _, tt := range []struct {
		name, mode     string
		guest, zone    string
		qtype          uint16
		tcp, resumable bool
		rcode, soas    int // rcode -1 for no answer
		outcome        string
		forwarded      int
	}{
		{"its zone", service, "red", "corp.test.", dns.TypeAXFR, tcp, false, 0, 2, answered, 0},
		{"no transfer", service, "red", "other.test.", dns.TypeA, tcp, false, 0, 0, answered, 1},
		{"another zone", service, "red", "other.test.", dns.TypeAXFR, tcp, false, dns.RcodeRefused, 0, answered, 0},
		{"another zone, IXFR", service, "red", "other.test.", dns.TypeIXFR, tcp, false, dns.RcodeRefused, 0, answered, 0},
		{"another zone, UDP", service, "red", "other.test.", dns.TypeAXFR, false, false, dns.RcodeRefused, 0, answered, 0},
		{"its zone, hijack", hijack, "red", "corp.test.", dns.TypeIXFR, false, resumable, -1, 0, resumed, 0},
		{"another zone, hijack", hijack, "red", "other.test.", dns.TypeAXFR, false, resumable, -1, 0, resumed, 0},
		{"block without", service, "blue", "corp.test.", dns.TypeAXFR, tcp, false, dns.RcodeRefused, 0, refused, 0},
		{"block without, IXFR", service, "blue", "other.test.", dns.TypeIXFR, tcp, false, dns.RcodeRefused, 0, refused, 0},
		{"block without, UDP", service, "blue", "other.test.", dns.TypeAXFR, false, false, dns.RcodeRefused, 0, refused, 0},
		{"block without, no transfer", service, "blue", "other.test.", dns.TypeA, false, false, 0, 0, answered, 1},
		{"block without, hijack", hijack, "blue", "other.test.", dns.TypeAXFR, false, resumable, -1, 0, resumed, 0},
		{"block without, hijack, not resumable", hijack, "blue", "other.test.", dns.TypeAXFR, tcp, false, dns.RcodeRefused, 0, refused, 0},
		{"no block, hijack", hijack, "green", "other.test.", dns.TypeAXFR, false, resumable, -1, 0, resumed, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			block := func(tenant, more string) string {
				return ". {\n $OFPUNT" + tt.mode + "\n $CLOSE\n metadata\n view " + tenant + " {\n expr metadata('ofpunt/port') == '" + tenant + "'\n }\n" + more + "}\n"
			}
			rig := startCache(t, block("red", " transfer {\n to *\n }\n"+file)+block("blue", ""))
			forwarded := 0 // at the end of the chain
			rig.upstream = func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
				forwarded++
				return dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(r))
			}
			var owners ports.Owners
			intake := punt.NewIntake(punt.Bridge{
				Name: rig.Options.Name, Tally: metric.NewTally(rig.Options.Name), Ports: &owners,
				Refusals: new(refusals.Ledger), Watch: new(watch.Feed), Conn: new(atomic.Pointer[openflow.Conn]), Draining: new(atomic.Bool),
			})
			defer intake.Close()
			s := punt.NewServer(rig.Config(guests.NewRules(rig.Options.Config), nil))
			v := ports.NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "tap", OFPort: 5, IfaceID: tt.guest}}}, nil)
			v.SetDrained()
			owners.Set(v)

			m := new(dns.Msg).SetQuestion(tt.zone, tt.qtype)
			if tt.qtype == dns.TypeIXFR {
				m.SetIxfr(tt.zone, 1, "ns."+tt.zone, "h."+tt.zone)
			}
			query, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			frame, err := punt.QueryFrame(netip.MustParseAddrPort("10.0.0.1:50000"), [6]byte{2, 0, 0, 0, 0, 1}, netip.MustParseAddrPort("169.254.169.254:53"), query)
			if err != nil {
				t.Fatal(err)
			}
			got := intake.Ask(s, &punt.TestQuery{
				In: openflow.PacketIn{InPort: 5, Data: frame}, TCP: tt.tcp, Resumable: tt.resumable,
				Context: rig.Context(), Answered: func() {},
			})
			<-got.Done
			rcode, soas := -1, 0
			if got.Answer != nil {
				rcode, soas = got.Answer.Rcode, strings.Count(fmt.Sprint(got.Answer.Answer), "\tSOA\t")
			}
			if outcome := got.Outcome.Result + " " + got.Outcome.Reason; rcode != tt.rcode || soas != tt.soas || outcome != tt.outcome {
				t.Errorf("rcode %d, %d SOA records, %s, want %d, %d, %s: %+v", rcode, soas, outcome, tt.rcode, tt.soas, tt.outcome, got)
			}
			if forwarded != tt.forwarded {
				t.Errorf("forward was asked %d times, want %d", forwarded, tt.forwarded)
			}
		})
	}
}
