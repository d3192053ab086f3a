// SPDX-License-Identifier: Apache-2.0

// Bench measures puntdns and what it is compared with, side by side on one lab, in
// turn, and writes tables.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// bench is what all suites share.
type bench struct {
	t       *lab.Program
	puntdns string // paths of binaries
	coredns string
	earlier string // of puntdns before a change; empty for none
	// root is the code name of a newer Debian, or a root folder of it; empty for none. elsewhere is set where this program
	// runs in it.
	root      string
	elsewhere bool
	parts     map[string]bool // of suites, that are run
	extent
	smallest bool
	report   report
}

// suites in the order in which they run.
var suites = []suite{
	{name: "code", run: (*bench).code},
	{name: "local", run: (*bench).local},
	{name: "tcp", run: (*bench).tcp},
	{name: "forward", run: (*bench).forward},
	{name: "upstreams", run: (*bench).upstreams},
	{name: "egress", run: (*bench).egress},
	{name: "peers", run: (*bench).peersElsewhere},
	{name: "flood", run: (*bench).flood},
	{name: "change", run: (*bench).change},
	{name: "guests", run: (*bench).guestChanges},
	{name: "connections", run: (*bench).connections},
	{name: "lease", run: (*bench).lease},
	{name: "scale", run: (*bench).scale},
	{name: "watch", run: (*bench).watch},
	{name: "cloud", run: (*bench).cloud},
	{name: "before", parts: beforeParts},
}

// programs are what this one starts of itself, to have processes of their own.
var programs = map[string]func(args []string) error{"ceiling": ceiling, "forwarding-ceiling": forwardingCeiling, "flood": flooder, "flood-addresses": addressFlooder, "ask": asker, "connect": connector, "generate": generateMain, "timed": timed, "puntctl": operator, "cloudnodes": nodesProgram, "cloudcontrollers": controllersProgram, "cloudnode": oneNodeProgram}

func main() {
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	b := &bench{t: new(lab.Program), extent: full}
	var only, parts, out string
	small := flag.Bool("smallest", false, "run each line of the suites once: -rounds, -length and the figures mean nothing")
	flag.StringVar(&b.puntdns, "puntdns", "bin/puntdns", "`path` of the binary to measure")
	flag.StringVar(&b.coredns, "coredns", "bin/coredns", "`path` of a stock CoreDNS")
	flag.StringVar(&b.earlier, "before", "", "`path` of another version of puntdns, to be measured beside it in the suite before")
	flag.StringVar(&b.root, "root", "sid", "`code name` of a newer Debian for the suite peers, or a folder that test/root.sh has made of it; empty leaves the suite out")
	flag.BoolVar(&b.elsewhere, "elsewhere", false, "this runs in such a root: what is measured is printed, nothing is written")
	flag.StringVar(&out, "out", "", "`folder` for benchmarks.md, which is made if need be (default test/bench/results, with -only bin/bench)")
	flag.StringVar(&only, "only", "", "comma-separated `suites`: "+strings.Join(suiteNames(suites), ", "))
	flag.StringVar(&parts, "parts", "", "comma-separated `parts` of the suites cloud (requests, server, relays and cluster by default; bars is of server what the bars need, and migrations are those of server, for a great number of nodes; with newest among them, also with the ovsdb-server of -root) and before (udp, tcp, cached, hijack and million by default)")
	controller := flag.String("controller", "newest", "`release` of OVN whose ovn-controller the suite cloud has clients in the shape of: newest or 23.03")
	nodes := flag.String("nodes", "", "comma-separated `numbers` of nodes of the suite cloud, instead of those of its extent")
	flag.IntVar(&b.rounds, "rounds", full.rounds, "how often each is measured; the medians count")
	flag.DurationVar(&b.length, "length", full.length, "how long each measurement takes")
	flag.Parse()
	if *small {
		b.extent, b.smallest = smallest, true
	}
	if err := b.setNodes(*nodes); err != nil {
		b.t.Fatalf("bench: -nodes: %v", err)
	}
	if err := b.setController(*controller); err != nil {
		b.t.Fatalf("bench: -controller: %v", err)
	}
	chosen, err := chooseSuites(only)
	if err != nil {
		b.t.Fatalf("bench: -only: %v", err)
	}
	if b.parts, err = chooseParts(parts); err != nil {
		b.t.Fatalf("bench: -parts: %v", err)
	}
	for _, p := range []*string{&b.puntdns, &b.coredns, &b.earlier} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			b.t.Fatalf("bench: %v", err)
		}
		*p = abs
	}
	if b.earlier != "" {
		b.report.earlier = firstLine(b, b.earlier, "-version")
	}
	if b.elsewhere {
		err = errors.Join(b.runSuites(chosen, func() error { return nil }), b.report.print(b))
	} else {
		err = b.runInto(cmp.Or(out, defaultFolder(only)), chosen)
	}
	if err != nil {
		b.t.Fatalf("bench: %v", err)
	}
	if len(b.report.failed) > 0 {
		b.t.Fatalf("bench: failed: %s", strings.Join(b.report.failed, "; "))
	}
}

// runInto runs suites and writes the result into a folder, after each suite: the next one may take long.
func (b *bench) runInto(out string, chosen []suite) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	began := time.Now()
	err := b.runSuites(chosen, func() error {
		b.report.took = time.Since(began)
		return b.report.write(out, b)
	})
	if err == nil {
		b.say("%s is written", filepath.Join(out, "benchmarks.md"))
	}
	return err
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// defaultFolder is where the result is written. That of some suites is not to take the place of that
// of all.
func defaultFolder(only string) string {
	if only == "" {
		return filepath.Join("test", "bench", "results")
	}
	return filepath.Join("bin", "bench")
}
