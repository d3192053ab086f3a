// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/puntdns/puntdns/ofpunt/flows"
)

func TestLinger(t *testing.T) {
	takenOver := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		name string
		// since the takeover; arrived is the last packet's, negative for none
		now, arrived time.Duration
		over         bool
	}{
		{"at once", 0, -1, false},
		{"before the datapath is up to date", revalidation - 1, -1, false},
		{"long after that", time.Hour, -1, true},
		{"as soon as it should be up to date", revalidation, -1, true},
		{"just after a packet", revalidation, revalidation - quiet + 1, false},
		{"without packets for a while", revalidation, revalidation - quiet, true},
		{"a late packet", time.Hour, time.Hour - quiet + 1, false},
	} {
		l := linger{takenOver: takenOver}
		if tt.arrived >= 0 {
			l.arrived = takenOver.Add(tt.arrived)
		}
		if got := l.over(takenOver.Add(tt.now)); got != tt.over {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.over)
		}
	}
}

func TestLingerAwait(t *testing.T) {
	for _, tt := range []struct {
		name string
		// A packet comes every interval until last.
		every, last time.Duration
		want        time.Duration
		late        uint64
		quiet       bool
	}{
		{"no packet", time.Hour, 0, revalidation, 0, true},
		{"packets for a moment", 100 * time.Millisecond, time.Second, revalidation, 10, true},
		{"packets for longer", 100 * time.Millisecond, 3 * time.Second, 3*time.Second + quiet, 30, true},
		{"packets without end", 100 * time.Millisecond, time.Hour, lingerTimeout, 79, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				arrived := func() uint64 { return 7 + uint64(min(time.Since(began), tt.last)/tt.every) }
				late, quiet := linger{takenOver: began}.await(arrived)
				took := time.Since(began)
				if took < tt.want || took > tt.want+2*lingerStep || late < tt.late || late > tt.late+1 || quiet != tt.quiet {
					t.Errorf("%d packets in %s, quiet: %v; want %d in %s, %v", late, took, quiet, tt.late, tt.want, tt.quiet)
				}
			})
		})
	}
}

func TestSuccessor(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reports []flows.Report
		want    bool
	}{
		{"nobody else", []flows.Report{flows.Withdrawn{}}, false},
		{"seen before the end", []flows.Report{flows.Yielded{}, flows.Withdrawn{Replaced: true}}, true},
		{"seen, and gone with the switch's flows", []flows.Report{flows.Yielded{}, flows.Serving{}, flows.Withdrawn{}}, false},
		{"seen at the end", []flows.Report{flows.Withdrawn{Replaced: true}}, true},
		{"gone again", []flows.Report{flows.Yielded{}, flows.TookOver{}, flows.Withdrawn{}}, false},
	} {
		b := &Bridge{name: "br-successor", accepted: new(acceptedConns)}
		r := reporter{name: b.name, readiness: &b.readiness, successor: &b.successor}
		for _, report := range tt.reports {
			r.report(report)
		}
		if got := b.successor.since.Load() != nil; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
