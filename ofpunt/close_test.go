// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"testing"

	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/chain"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// An instance that is stopped again releases its databases once: others may share them.
func TestStopTwice(t *testing.T) {
	s, released := closedServer(t)
	in := &instance{servers: []*server{s}}
	for range 2 {
		if err := in.stop(); err != nil {
			t.Error(err)
		}
	}
	released()
}

// An instance whose start has failed after its takeOver is shut down once, after the instance before has rolled
// back.
func TestStopAfterRollBack(t *testing.T) {
	s, released := closedServer(t)
	failed, before := &instance{servers: []*server{s}}, &instance{}
	running.Lock()
	running.serving = failed
	running.Unlock()
	for _, f := range []func() error{before.rollBack, failed.stop, before.stop} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	released()
}

// A start that fails leaves no series of coredns_plugin_enabled, also if it was the first start.
func TestFailedStartEnablesNothing(t *testing.T) {
	s, released := closedServer(t)
	of := prometheus.Labels{"server": "ofpunt://br-closed"}
	vars.PluginEnabled.WithLabelValues("ofpunt://br-closed", ".", "", name).Set(1)
	in := &instance{servers: []*server{s}}
	running.Lock()
	running.serving = in
	running.Unlock()
	if err := in.stop(); err != nil {
		t.Error(err)
	}
	if left := vars.PluginEnabled.DeletePartialMatch(of); left > 0 {
		t.Errorf("%d series of coredns_plugin_enabled are left", left)
	}
	released()
}

// closedServer returns a server that reads databases, which another bridge reads too. released checks that the
// server has released them, once: then the other bridge has them still.
func closedServer(t *testing.T) (s *server, released func()) {
	database := ovndb.Config{Southbound: []string{"unix:" + t.TempDir() + "/sb"}}
	open := func(name string) *bridge.Server {
		s := bridge.NewServer(bridge.Config{Options: config.Default(name), HasDatabase: true, Database: database})
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s = &server{open("br-closed"), &chain.Server{Options: config.Default("br-closed")}}
	s.Answer(s.chains, punt.NewServer(punt.Config{}))
	other := open("br-other")
	return s, func() {
		t.Helper()
		third := open("br-third")
		if !third.Names().Shares(other.Names()) {
			t.Error("the databases were released more than once")
		}
		third.Close()
		other.Close()
		again := open("br-again")
		defer again.Close()
		if again.Names().Shares(other.Names()) {
			t.Error("the databases were not released")
		}
	}
}
