// SPDX-License-Identifier: Apache-2.0

// Bench measures puntdns and what it is compared with, side by side on one lab, in
// turn, and writes a table and pictures.
package main

import (
	"cmp"
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
	// cloudParts are those of the suite cloud that are run.
	cloudParts string
	extent
	smallest bool
	report   report
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
	{"peers", (*bench).peersElsewhere},
	{"flood", (*bench).flood},
	{"change", (*bench).change},
	{"guests", (*bench).guestChanges},
	{"connections", (*bench).connections},
	{"lease", (*bench).lease},
	{"scale", (*bench).scale},
	{"watch", (*bench).watch},
	{"cloud", (*bench).cloud},
	{"before", (*bench).before},
}

// programs are what this one starts of itself, to have processes of their own.
var programs = map[string]func(args []string) error{"ceiling": ceiling, "forwarding-ceiling": forwardingCeiling, "flood": flooder, "ask": asker, "connect": connector, "generate": generateMain, "timed": timed, "puntctl": operator, "cloudnodes": nodesProgram, "cloudcontrollers": controllersProgram, "cloudnode": oneNodeProgram}

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
	flag.StringVar(&b.root, "root", "sid", "`code name` of a newer Debian for the suite peers, or a folder that test/root.sh has made of it; empty leaves the suite out")
	flag.BoolVar(&b.elsewhere, "elsewhere", false, "this runs in such a root: what is measured is printed, nothing is written")
	flag.StringVar(&out, "out", "", "`folder` for benchmarks.md and its pictures, which is made if need be (default docs, with -only bin/bench)")
	flag.StringVar(&only, "only", "", "comma-separated `suites`: code, local, tcp, forward, peers, flood, change, guests, connections, lease, scale, watch, cloud, before")
	flag.StringVar(&b.cloudParts, "parts", "requests,server,relays,cluster", "comma-separated `parts` of the suite cloud; bars is of server what the bars need, and migrations are those of server, for a great number of nodes; with newest among them, also with the ovsdb-server of -root")
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
	out = cmp.Or(out, defaultFolder(only))
	if err := os.MkdirAll(out, 0o755); err != nil {
		b.t.Fatalf("bench: %v", err)
	}
	began := time.Now()
	for _, s := range suites {
		if only == "" || strings.Contains(","+only+",", ","+s.name+",") {
			s.run(b)
			b.t.End()
			if b.elsewhere {
				continue
			}
			// What comes after may fail.
			b.report.took = time.Since(began)
			if err := b.report.write(out, b); err != nil {
				b.t.Fatalf("bench: %v", err)
			}
		}
	}
	if b.elsewhere {
		if err := b.report.print(b); err != nil {
			b.t.Fatalf("bench: %v", err)
		}
		return
	}
	b.say("%s is written", filepath.Join(out, "benchmarks.md"))
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// defaultFolder is where the result is written. That of some suites is not to take the place of that
// of all.
func defaultFolder(only string) string {
	if only == "" {
		return "docs"
	}
	return filepath.Join("bin", "bench")
}
