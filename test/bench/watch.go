// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

// operator is puntctl as a program of its own.
func operator(args []string) error {
	if status := puntctl.Run("bench", args, os.Stdout, os.Stderr); status != 0 {
		return fmt.Errorf("exit status %d", status)
	}
	return nil
}

// watchRounds is how many rounds of watch there are for each of the others: the bar is close, and a
// measurement needs no process of its own.
const watchRounds = 4

// lookingOn is one who looks on while local names are asked for: a command of puntctl, with the text that
// it shows once it is told of queries.
type lookingOn struct {
	name string
	args []string // none for nobody
	// begun is what its output has from then on.
	begun string
	// told returns how many queries it knows of by its output, and how many of them were lost.
	told func(output string) (all, lost float64)
}

var (
	notShown = regexp.MustCompile(`(?m)^-- not shown: (?:(\d+) over --rate)?(?:, )?(?:(\d+) that puntctl)?`)
	shown    = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d+ `)
)

// toldByWatch reads the table of watch.
func toldByWatch(output string) (all, lost float64) {
	all = float64(len(shown.FindAllString(output, -1)))
	for _, m := range notShown.FindAllStringSubmatch(output, -1) {
		over, _ := strconv.ParseFloat(m[1], 64) // 0 where it is not said
		n, _ := strconv.ParseFloat(m[2], 64)
		all, lost = all+over+n, lost+n
	}
	return all, lost
}

// toldByTop reads the lines of JSON of top.
func toldByTop(output string) (all, lost float64) {
	for line := range strings.Lines(output) {
		var top api.Top
		if json.Unmarshal([]byte(line), &top) == nil { // the last line may not be whole yet
			all, lost = all+float64(top.All.Queries+top.Missed), lost+float64(top.Missed)
		}
	}
	return all, lost
}

// watchLoad is the load that must go on as if nobody looked on, in queries/s.
const watchLoad = 50_000

// watch measures what it costs that somebody looks on: local names at watchLoad and at the highest load,
// with nobody, with watch and with top, in turn and of one process.
func (b *bench) watch() {
	n := b.newNetwork()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatalf("%v", err)
	}
	socket := filepath.Join(n.Dir, "control.sock")
	config := n.WriteFile("Corefile", strings.Replace(n.corefile(), "rate off", "rate off\n        control unix:"+socket, 1))
	each := []lookingOn{
		{name: pUnwatched},
		{pWatch, []string{"watch"}, "TIME ", toldByWatch},
		{pTop, []string{"top", "-o", "json", "--interval", "1"}, `"seconds":`, toldByTop},
	}
	loaded, lost := b.report.table(tWatchLoad), b.report.table(tWatchLost)
	throughput, cost := b.report.table(tWatch), b.report.table(tWatchCPU)
	p := peer{name: pPuntdns, asker: n.vm.Host, server: resolver, start: func() *lab.Process {
		return b.serve(n.Node.Host, "flows are in place", b.puntdns, "-conf", config)
	}}
	b.with(p, func(proc *lab.Process) {
		b.dnsperfWarm(n, p)
		rounds := b.rounds
		if b.passes == 0 {
			rounds *= watchRounds
		}
		for range rounds {
			for _, l := range each {
				var reader *lab.Process
				if l.args != nil {
					reader = b.launch(n.Node.Host, l.begun, append([]string{self, "puntctl", "--socket", socket}, l.args...)...)
				}
				steady := b.dnsperf(p.asker, p.server, n.file, 100, watchLoad)
				loaded.put(l.name, steady.perSecond)
				begin := b.cpu(proc.Pid)
				r := b.dnsperf(p.asker, p.server, n.file, 100, 0)
				took := float64((b.cpu(proc.Pid) - begin).Nanoseconds()) / 1e3 / r.completed
				throughput.put(l.name, r.perSecond)
				cost.put(l.name, took)
				b.say("local names, %s: %.0f of %d queries/s, at most %.0f, %.2f µs of processor time each", l.name, steady.perSecond, watchLoad, r.perSecond, took)
				if reader != nil {
					lost.put(l.name, b.endLook(&l, reader, steady.completed+r.completed))
				}
			}
			slices.Reverse(each)
		}
	})
}

// endLook ends one who looks on, once it knows of all queries that were answered. It returns which part of
// them was lost, in percent.
func (b *bench) endLook(l *lookingOn, reader *lab.Process, answered float64) float64 {
	const patience = 20 * time.Second
	var all, lost float64
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if all, lost = l.told(reader.Log()); all >= answered {
			break
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s knows of %.0f queries, of which %.0f were lost; %.0f were answered", l.name, all, lost, answered)
		}
	}
	if err := reader.Stop(); err != nil {
		b.t.Fatalf("%s: %v\n%s", l.name, err, reader.Log())
	}
	b.say("%s: told of %.0f queries, %.0f of them lost", l.name, all, lost)
	return 100 * lost / all
}
