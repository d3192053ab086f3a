// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
)

// Without the local ovsdb-server ovs-vswitchd does nothing: whoever looks is told so at once, by
// a code of its own, and guests are answered as soon as the switch is back.
func TestLocalDatabaseServerDies(t *testing.T) {
	t.Parallel()
	const outage = 2 * time.Second
	n := newSurvivor(t)
	s := serve(t, n.l, n.corefile("lease $LEASE", "", 9153, 8181))
	o := s.operator()
	o.eventually()

	ask := func() string { return isTold(n.vm, resolver4, "db.internal.") }
	load, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	defer func() { stop(); done.Wait() }()
	for range 4 {
		done.Go(func() {
			for load.Err() == nil {
				ask()
			}
		})
	}

	n.l.Node.Kill("ovsdb-server")
	killed := time.Now()
	st := o.eventually(api.CodeStalled)
	if p := st.Problems[0]; p.About != st.Bridges[0].Name || !strings.Contains(p.Text, logStalled) || st.Bridges[0].Serving {
		t.Errorf("%+v, serving %t", p, st.Bridges[0].Serving)
	}
	s.reaches(1, "coredns_ofpunt_switch_stalled", "bridge", st.Bridges[0].Name)
	s.ready(503)
	if _, body, err := s.node.HTTPGet(within(t, wait), "http://"+readyAddr+"/ready"); err != nil || !strings.Contains(body, logStalled) {
		t.Errorf("ready says %q (%v)", body, err)
	}
	time.Sleep(time.Until(killed.Add(outage)))
	n.l.Node.Revive("ovsdb-server")
	back := time.Now()

	n.l.Eventually("an answer", func() error {
		if got := ask(); got != ofSurvivor {
			return errors.New(got)
		}
		return nil
	})
	t.Logf("away for %s, answered again %s later", back.Sub(killed), time.Since(back))
	o.eventually()
	s.reaches(0, "coredns_ofpunt_switch_stalled", "bridge", st.Bridges[0].Name)
	if err := s.node.WaitHTTP(within(t, wait), "http://"+readyAddr+"/ready", 200); err != nil {
		t.Error(err)
	}
	s.log(logStallOver) // after the status has changed
	// Begin and end are logged once, and in the place of a switch that hangs.
	s.toldTimes(t, 1, logStalled)
	s.toldTimes(t, 1, logStallOver)
	s.toldTimes(t, 0, logSwitchHangs, "")
	s.endWell()
}
