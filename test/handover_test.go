// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
)

// One process after the other takes over and the one before ends at once, under load. Each query
// is answered, though each is asked once. With a saved snapshot the next process begins with that.
func TestHandOverUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("from the databases", func(t *testing.T) {
		t.Parallel()
		n := newSurvivor(t)
		n.handOver(t, launch(t, n.l, n.l.Node, "p0", n.corefile("", "", 9153, 8181)), "")
	})
	t.Run("from a saved snapshot", func(t *testing.T) {
		t.Parallel()
		n := newSurvivor(t)
		folder := t.TempDir()
		snapshot := "snapshot " + folder
		s := launch(t, n.l, n.l.Node, "p0", n.corefile("", snapshot, 9153, 8181))
		n.l.Eventually("a saved snapshot", func() error {
			if all, err := filepath.Glob(filepath.Join(folder, "ovn-????????????????")); err != nil || len(all) != 1 {
				return fmt.Errorf("files %q, %w", all, err)
			}
			return nil
		})
		n.handOver(t, s, snapshot)
	})
}

// handOver has other processes take over from s, one after the other.
func (n survivor) handOver(t *testing.T, s *server, ovnhosts string) {
	s.ready(200)
	// The TTL shows that no query goes to OVN's own DNS, as it would of a process without guests.
	load := asksSteadily(t, n.vm, ofSurvivor)
	for i := range 3 {
		load.more(n.l, 50)
		next := launch(t, n.l, n.l.Node, fmt.Sprintf("p%d", i+1), n.corefile("", ovnhosts, 9154+i, 8182+i))
		next.metricsAt = fmt.Sprintf("127.0.0.1:%d", 9154+i)
		next.serves()
		if ovnhosts != "" {
			next.toldTimes(t, 1, logSavedTaken)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		s = next
	}
	load.more(n.l, 50)
	load.end()
}

// The switch may go on punting to the process before the one that has the flows: its datapath is
// brought up to date some time after a change of the flows. That process answers meanwhile, also
// when it is to end.
func TestHandOverBeforeRevalidation(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	first := launch(t, n.l, n.l.Node, "first", n.corefile("", "", 9153, 8181))
	first.ready(200)
	load := asksSteadily(t, n.vm, "NOERROR 10.0.0.21")
	load.more(n.l, 50)

	n.l.Node.AppCtl("ovs-vswitchd", "revalidator/pause")
	second := launch(t, n.l, n.l.Node, "second", n.corefile("", "", 9154, 8182))
	second.metricsAt = "127.0.0.1:9154"
	second.serves()
	if err := first.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first.log(logLingers)
	load.more(n.l, 50)
	select {
	case <-first.Done():
		t.Error("the first has ended, and the switch punts to it")
	default:
	}
	n.l.Node.AppCtl("ovs-vswitchd", "revalidator/resume")
	if err := first.Wait(within(t, wait)); err != nil {
		t.Error(err)
	}
	first.toldTimes(t, 1, logLingered)
	load.more(n.l, 50)
	load.end()
}
