// SPDX-License-Identifier: Apache-2.0

// Bench measures puntdns and what it is compared with, side by side on one lab, in
// turn, and writes a table and pictures.
package main

import (
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
	extent
	report report
}

// suites in the order in which they run.
var suites = []struct {
	name string
	run  func(*bench)
}{
	{"code", (*bench).code},
	{"local", (*bench).local},
	{"tcp", (*bench).tcp},
	{"forward", (*bench).forward},
	{"flood", (*bench).flood},
	{"change", (*bench).change},
	{"guests", (*bench).guestChanges},
	{"connections", (*bench).connections},
	{"lease", (*bench).lease},
	{"scale", (*bench).scale},
	{"watch", (*bench).watch},
	{"before", (*bench).before},
}

// programs are what this one starts of itself, to have processes of their own.
var programs = map[string]func(args []string) error{"ceiling": ceiling, "flood": flooder, "ask": asker, "connect": connector, "puntctl": operator}

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
	var only, out string
	small := flag.Bool("smallest", false, "run each line of the suites once: -rounds, -length and the figures mean nothing")
	flag.StringVar(&b.puntdns, "puntdns", "bin/puntdns", "`path` of the binary to measure")
	flag.StringVar(&b.coredns, "coredns", "bin/coredns", "`path` of a stock CoreDNS")
	flag.StringVar(&b.earlier, "before", "", "`path` of another version of puntdns, to be measured beside it in the suite before")
	flag.StringVar(&out, "out", "docs", "`folder` for benchmarks.md and its pictures")
	flag.StringVar(&only, "only", "", "comma-separated `suites`: code, local, tcp, forward, flood, change, guests, connections, lease, scale, watch, before")
	flag.IntVar(&b.rounds, "rounds", full.rounds, "how often each is measured; the medians count")
	flag.DurationVar(&b.length, "length", full.length, "how long each measurement takes")
	flag.Parse()
	if *small {
		b.extent = smallest
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
	began := time.Now()
	for _, s := range suites {
		if only == "" || strings.Contains(","+only+",", ","+s.name+",") {
			s.run(b)
			b.t.End()
			// What comes after may fail.
			b.report.took = time.Since(began)
			if err := b.report.write(out, b); err != nil {
				b.t.Fatalf("bench: %v", err)
			}
		}
	}
	b.say("%s is written", filepath.Join(out, "benchmarks.md"))
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}
