// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// soakSpan is how long TestSoak goes on: a look in the suite, and what SOAK says in
// make soak.
func soakSpan(t *testing.T) time.Duration {
	text := os.Getenv("SOAK")
	if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	return d
}

// Ports, records, connections and Corefiles come and go while guests ask: no answer
// is lost or wrong, and what the process needs stays level.
func TestSoak(t *testing.T) {
	span := soakSpan(t)
	n := newSurvivor(t)
	// The conntrack of Open vSwitch 3.1.0 ends its process after a minute or two of
	// this by an assertion of its own.
	n.l.NBCTL("acl-del", "red")
	n.l.Sync()
	row := n.l.AddDNS(map[string]string{"changing.internal": "10.0.0.1"}, "red")
	text := func(round int) string {
		properties := "lease 3s\n rate 100000"
		if round%2 == 1 {
			properties = fmt.Sprintf("lease 4s\n controller_id %d", 2000+round%1000)
		}
		return strings.Replace(n.corefile(properties, "", 9153, 8181), "errors\n", "errors\n pprof "+wireProfile+"\n", 1)
	}
	s := start(t, n.l, text(0))
	s.ready(200)
	stop := n.load(t)

	// One round is a change of each kind.
	round := func(i int) {
		t.Helper()
		guest := aclGuest(n.l, "red", 0, 20+i%100)
		address := fmt.Sprintf("10.1.%d.%d", i>>8&255, i&255)
		n.l.SetDNS(row, map[string]string{"changing.internal": address})
		n.l.Eventually("the change is answered to the new guest", func() error {
			r, err := exchange(within(t, wait), guest, resolver4, "changing.internal.", dns.TypeA)
			if err == nil && inShort(r) != "NOERROR "+address {
				err = fmt.Errorf("%s", inShort(r))
			}
			return err
		})
		guest.Remove()

		s.reload(corefile(n.l, text(i)))
		s.ready(200)
		if i%5 == 4 {
			n.l.Restart("sb")
			n.l.Sync()
		}
	}
	rounds := 0
	until := func(end time.Time) {
		t.Helper()
		for time.Now().Before(end) && !t.Failed() {
			round(rounds)
			rounds++
		}
	}
	began := time.Now()
	until(began.Add(span / 3))
	level := s.collected(t)
	until(began.Add(span))
	now := s.collected(t)
	asked, wrong := stop()
	if len(wrong) > 0 {
		t.Errorf("of %d queries: %v\n%s", asked, wrong, s.Log())
	}
	t.Logf("%d rounds, %d queries; after a third %+v, at the end %+v", rounds, asked, level, now)
	const heap, goroutines, resident = 4 << 20, 64, 48 << 20
	if now.heap > level.heap+heap || now.goroutines > level.goroutines+goroutines {
		t.Errorf("after a third %+v, at the end %+v", level, now)
	}
	// What the runtime and the race detector hold beyond the heap finds its level only
	// after minutes.
	if span >= 5*time.Minute && now.resident > level.resident+resident {
		t.Errorf("resident memory: after a third %.0f bytes, at the end %.0f", level.resident, now.resident)
	}
}
