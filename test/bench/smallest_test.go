// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// asProgram in the environment makes the test binary the program: the suites start
// it for the peers that are programs of its own.
const asProgram = "PUNTDNS_BENCH_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Every suite still fits what it measures: each of its lines runs once, and each bar
// finds its row.
func TestSuites(t *testing.T) {
	lab.Need(t)
	if _, err := exec.LookPath("dnsperf"); err != nil {
		lab.Lack(t, "no dnsperf: %v", err)
	}
	dir := t.TempDir()
	puntdns := filepath.Join(dir, "puntdns")
	// As make build does, so that little is compiled anew.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", puntdns, module+"/cmd/puntdns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building puntdns: %v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// puntdns has the plugins that the stock CoreDNS is asked for.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	bench := exec.CommandContext(ctx, self, "-smallest", "-puntdns", puntdns, "-coredns", puntdns, "-before", puntdns, "-root", "", "-out", dir)
	// The race detector waits for a second before each end, of which there are dozens.
	bench.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=100")
	// It ends its lab at SIGTERM as at its end.
	bench.WaitDelay = 10 * time.Second
	if out, err := bench.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{bLocal, bLocal + bMetadata, bTCPOpen, bTCPNew, bCached, bCached + bMetadata, bHijack, bMillion} {
		measures := []string{bRate, bCPU, bMedian, bP99}
		switch what {
		case bTCPNew:
			measures = []string{bRate, bCPU, bMedianAlone, bP99Alone}
		case bMillion:
			measures = append(measures, bSync, bRSS, bChanged)
		}
		for _, m := range measures {
			if row := "\n| " + strings.TrimPrefix(what, besideAnother) + m + " | "; !strings.Contains(string(text), row) {
				t.Errorf("the versions were not compared by %q", what+m)
			}
		}
	}
	for _, b := range smallest.bars() {
		if !b.elsewhere && !strings.Contains(string(text), "| "+b.what+" |") {
			t.Errorf("%q was not judged", b.what)
		}
	}
}
