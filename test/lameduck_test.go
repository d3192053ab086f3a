// SPDX-License-Identifier: Apache-2.0

package test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// Until the lameduck of health ends everything is served as before, but that ready
// says no; then nobody is left without an answer.
func TestLameduck(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	lameduck := lab.Scaled(10 * time.Second)
	s := serve(t, n.l, strings.Replace(n.corefile("", "", 9153, 8181), "    errors", "    errors\n    health 127.0.0.1:8080 {\n        lameduck "+lameduck.String()+"\n    }", 1))
	before := standingFlows(n.l)
	stop := n.load(t) // names of the network, and those of an upstream
	began := time.Now()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.log("Going into lameduck mode for " + lameduck.String())
	if _, _, err := n.l.Node.HTTPGet(within(t, wait), "http://"+readyAddr+"/ready"); err == nil {
		t.Error("ready has an answer in the lameduck")
	}
	time.Sleep(2 * time.Second) // under load
	if asked, wrong := stop(); asked == 0 || len(wrong) > 0 {
		t.Errorf("of %d queries in the lameduck: %v", asked, wrong)
	}
	flows := standingFlows(n.l)
	for match, f := range before {
		if flows[match].cookie != f.cookie && time.Since(began) < lameduck {
			t.Errorf("the flow %s has gone in the lameduck", match)
		}
	}
	select {
	case <-s.Done():
	case <-time.After(wait):
		t.Fatalf("it has not ended\n%s", s.Log())
	}
	if took := time.Since(began); took < lameduck {
		t.Errorf("it ended after %s", took)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("it ended with %v, want exit status 0\n%s", err, s.Log())
	}
	if got := standingFlows(n.l); len(got) != 0 {
		t.Errorf("flows are left: %v", got)
	}
}
