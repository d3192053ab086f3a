// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
)

// usage is what a process has of the things that a load takes. Of memory that is the
// heap, garbage included: what is resident has several times as much of the race
// detector's, in which nothing is bounded.
type usage struct{ goroutines, files, memory float64 }

func (s *server) usage() usage {
	s.t.Helper()
	u, err := s.usageAt(metricsAddr)
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

// usageAt is by the metrics at an address.
func (s *server) usageAt(address string) (u usage, err error) {
	text, err := s.metricsOf(address)
	if err != nil {
		return u, err
	}
	for name, v := range map[string]*float64{
		"go_goroutines": &u.goroutines, "process_open_fds": &u.files, "go_memstats_heap_inuse_bytes": &u.memory,
	} {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
		if m == nil {
			return u, fmt.Errorf("no %s among the metrics", name)
		}
		if *v, err = strconv.ParseFloat(m[1], 64); err != nil {
			return u, err
		}
	}
	return u, nil
}

// collectGarbage has the process collect its garbage, by the address of its plugin pprof. Without that a heap
// which was large for a moment may keep as much garbage for two minutes.
func (s *server) collectGarbage(pprof string) {
	s.t.Helper()
	// What a pool holds is garbage the second time.
	for range 3 {
		status, body, err := s.node.HTTPGet(within(s.t, wait), "http://"+pprof+"/debug/pprof/heap?gc=1")
		if err != nil || status != 200 {
			s.t.Fatalf("collecting garbage: %d %q, %v", status, body, err)
		}
	}
}

// most takes in a later measurement.
func (u usage) most(v usage) usage {
	return usage{max(u.goroutines, v.goroutines), max(u.files, v.files), max(u.memory, v.memory)}
}

func (u usage) String() string {
	return fmt.Sprintf("%v goroutines, %v files, %.0f MB", u.goroutines, u.files, u.memory/1e6)
}

// within tells whether u is no more than v in anything.
func (u usage) within(v usage) bool { return u.most(v) == v }

// leftover is the most that any test leaves a process with: workers that wait for the
// next query, what CoreDNS and the connections need, and some of each that come to
// their end. Garbage is collected at 64 MB at the latest.
var leftover = usage{goroutines: 64*float64(runtime.GOMAXPROCS(0)) + 150, files: 200, memory: 200e6}

var prometheusLine = regexp.MustCompile(`(?m)^\s*prometheus (\S+)`)

// settles fails unless the process comes down to that. Of one without *prometheus*
// nothing is known.
func (s *server) settles() {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	m := prometheusLine.FindSubmatch(text)
	if m == nil {
		return
	}
	s.l.Eventually(s.Name+" is left with little", func() error {
		select {
		case <-s.Done():
			return nil
		default:
		}
		u, err := s.usageAt(string(m[1]))
		if err == nil && !u.within(leftover) {
			err = errors.New(u.String())
		}
		return err
	})
}
