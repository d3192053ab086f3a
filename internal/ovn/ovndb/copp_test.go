// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
)

// TestCoPP: the meter of DNS packets that northd gives a switch is known, and follows
// each change of it. Policies, meters and bands of others are not read.
func TestCoPP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.build(twoTenants)
	// bare has no DNS rows, so northd has no flow there that could have a meter.
	r.nbctl("meter-add fast drop 500 pktps 70 -- meter-add slow drop 20 pktps -- meter-add other drop 9 pktps" +
		" -- copp-add shared dns fast -- copp-add shared arp other -- copp-add own dns slow -- copp-add arp arp other")
	none, fast, slow := ovn.Meter{}, ovn.Meter{Rate: 500, Burst: 70}, ovn.Meter{Rate: 20}
	steps := []struct {
		name, command string
		blue, red     ovn.Meter
		bad           int // values that are reported, so far
	}{
		{"a policy without DNS", "ls-copp-add arp blue", none, none, 0},
		{"one switch", "ls-copp-add own blue", slow, none, 0},
		{"another policy", "ls-copp-add shared blue", fast, none, 0},
		{"two switches that share it", "ls-copp-add shared red", fast, fast, 0},
		{"a third one", "ls-copp-add shared bare -- add Logical_Switch bare dns_records " + r.nbctl("--bare --columns=dns_records list Logical_Switch red"), fast, fast, 0},
		{"another rate", `set Meter_Band ` + r.nbctl("--bare --columns=bands list Meter fast") + ` rate=600 burst_size=0`, ovn.Meter{Rate: 600}, ovn.Meter{Rate: 600}, 0},
		{"the stricter of two bands", `--id=@b create Meter_Band action=drop rate=50 burst_size=5 -- add Meter fast bands @b`, ovn.Meter{Rate: 50, Burst: 5}, ovn.Meter{Rate: 50, Burst: 5}, 0},
		{"not in packets", "set Meter fast unit=kbps", none, none, 1},
		{"in packets again", "set Meter fast unit=pktps", ovn.Meter{Rate: 50, Burst: 5}, ovn.Meter{Rate: 50, Burst: 5}, 1},
		{"another meter of the policy", "copp-add shared dns slow", slow, slow, 1},
		{"one each", "ls-copp-add own red -- copp-add own dns other", slow, ovn.Meter{Rate: 9}, 1},
		{"no DNS in it", "copp-del own dns", slow, none, 1},
		{"no policy", "clear Logical_Switch blue copp -- clear Logical_Switch bare copp", none, none, 1},
	}
	type reader struct {
		name string
		s    *Source
	}
	var readers []reader
	for _, m := range []Monitor{Local, All} {
		c := r.config(true, false)
		c.Monitor = m
		s := r.acquire(c)
		s.nameChassis("hv1")
		readers = append(readers, reader{fmt.Sprint("monitor ", m), s})
	}
	// red has its guest on another chassis.
	readers[0].s.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})
	is := func(name string, blue, red ovn.Meter, bad int, all []reader) {
		t.Helper()
		for _, of := range all {
			eventually(t, of.s, func(s *ovn.Snapshot) string {
				b, r := s.NetworkByName("blue"), s.NetworkByName("red")
				if b == nil || r == nil || b.DNSMeter != blue || r.DNSMeter != red || s.Stats.BadValues != uint64(bad) {
					return fmt.Sprintf("%s, %s: blue %+v, red %+v, %d bad values; want %v, %v, %d", name, of.name, b, r, s.Stats.BadValues, blue, red, bad)
				}
				return ""
			})
		}
	}
	is("no policy so far", none, none, 0, readers)
	for _, step := range steps {
		r.nbctl(step.command)
		is(step.name, step.blue, step.red, step.bad, readers)
		// In packets again, the meter is none that can't be used.
		present := 0
		if step.name == "not in packets" {
			present = 1
		}
		for _, of := range readers {
			if got := of.s.BadValues(); got.Count != present {
				t.Errorf("%s, %s: the bad values are %+v, want %d", step.name, of.name, got, present)
			}
		}
		// One that reads only now has the same when it is settled.
		late := r.acquire(Config{Southbound: []string{r.server.Endpoint, "unix:/nonexistent/" + strings.ReplaceAll(step.name, " ", "-")}, Monitor: Local})
		late.nameChassis("hv1")
		late.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})
		snapshot := eventually(t, late, func(s *ovn.Snapshot) string {
			if !s.Settled || s.NetworkByName("red") == nil {
				return "not settled"
			}
			return ""
		})
		if m := snapshot.NetworkByName("blue").DNSMeter; m != step.blue {
			t.Errorf("%s: the first settled snapshot has %v for blue, want %v", step.name, m, step.blue)
		}
	}
	for _, of := range readers {
		narrow(of.s)
		testkit.Eventually(r.t, "no row is kept that nothing refers to", func() bool {
			of.s.mu.Lock()
			defer of.s.mu.Unlock()
			c := &of.s.sb.CoPP
			return c.Meters.Len()+c.Bands.Len()+c.Groups.Len() == 0
		})
	}
}

// TestCoPPOutage: what changes in an outage counts when the database is back.
func TestCoPPOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.build(twoTenants)
	r.nbctl("meter-add slow drop 20 pktps -- copp-add own dns slow -- ls-copp-add own blue -- ls-copp-add own red")
	r.nbctl("--wait=sb sync")
	c := r.config(true, false)
	s := r.acquire(c)
	s.nameChassis("hv1")
	limited := func(want ovn.Meter) func(*ovn.Snapshot) string {
		return func(s *ovn.Snapshot) string {
			if n := s.NetworkByName("blue"); n == nil || n.DNSMeter != want {
				return fmt.Sprintf("%+v, want a meter %v", n, want)
			}
			return ""
		}
	}
	eventually(t, s, limited(ovn.Meter{Rate: 20}))
	r.inOutage(s, nbFile, `["OVN_Northbound",{"op":"update","table":"Meter_Band","where":[],"row":{"rate":30}}]`)
	eventually(t, s, limited(ovn.Meter{Rate: 30}))
	r.keepsWhatIsThere(s, c, func(s *Source) { s.nameChassis("hv1") })
}
