// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/puntdns/puntdns/test/svg"
)

// results has the figures of make bench.
const results = "test/bench/results/benchmarks.md"

// graphs draws what was measured, each graph one measure and what follows from it. Names of tables and
// rows are those of test/bench.
func graphs(root string) (map[string]drawing, error) {
	f, err := readFigures(filepath.Join(root, results))
	if err != nil {
		return nil, err
	}
	all := map[string]drawing{
		"docs/bench-local.svg":   f.local(),
		"docs/bench-cpu.svg":     f.processorTime(),
		"docs/bench-latency.svg": f.latency(),
		"docs/bench-forward.svg": f.forward(),
		"docs/bench-flood.svg":   f.flood(),
		"docs/bench-memory.svg":  f.memory(),
		"docs/bench-update.svg":  f.update(),
	}
	if len(f.errs) > 0 {
		return nil, errors.New(results + ": " + strings.Join(f.errs, "; "))
	}
	return all, nil
}

const (
	puntdns = "puntdns"
	native  = "OVN's own DNS"
	stock   = "CoreDNS on a socket"
	ceiling = "ceiling"
	// ratios is the table of bars, with ratios of medians as they were before they were rounded.
	ratios = "measure"
)

// row is a row of a table and its name in the graph.
type row struct{ name, is string }

// bars returns a bar for each row, in a unit of which the figures' unit is a part.
func (f *figures) bars(table string, unit float64, rows ...row) (all []svg.Bar) {
	for _, r := range rows {
		v := f.of(table, r.is)
		all = append(all, svg.Bar{Name: r.name, Ours: strings.HasPrefix(r.name, puntdns), Parts: []svg.Part{{Value: v.median / unit}},
			Says: rounded(v.median / unit), Low: v.low / unit, High: v.high / unit})
	}
	return all
}

func (f *figures) local() *svg.Drawing {
	ratio := f.of(ratios, "local names, queries/s: puntdns to OVN's own DNS (dnsperf)").median
	return svg.Bars(fmt.Sprintf("puntdns answers %.1f times as many local names as OVN's own DNS", ratio),
		"queries a second; the thin line spans the rounds", f.bars("local names, queries/s", 1,
			row{puntdns, puntdns + ", dnsperf"}, row{stock, stock + ", dnsperf"}, row{native, native + ", dnsperf"},
			row{"only returns each packet", ceiling + ", dnsperf"}))
}

func (f *figures) processorTime() *svg.Drawing {
	var bars []svg.Bar
	sums := map[string]float64{}
	for _, peer := range []string{puntdns, native, stock} {
		server := f.of("local names, processor time a query, µs", peer+", dnsperf").median
		ovs := f.of("local names, processor time of ovs-vswitchd a query, µs", peer+", dnsperf").median
		sums[peer] = server + ovs
		bars = append(bars, svg.Bar{Name: peer, Ours: peer == puntdns, Says: rounded(server + ovs),
			Parts: []svg.Part{{Name: "DNS " + rounded(server), Value: server}, {Name: "switch " + rounded(ovs), Value: ovs}}})
	}
	return svg.Bars(fmt.Sprintf("puntdns takes %.1f times the processor time of OVN's own DNS", sums[puntdns]/sums[native]),
		"processor time of the node for a query, µs: of the DNS server and of the switch", bars)
}

func (f *figures) latency() *svg.Drawing {
	const table = "latency at 2,000 queries/s, p99 µs"
	finding := "At 2,000 queries a second puntdns is as fast as OVN's own DNS"
	if ratio := f.of(table, puntdns).median / f.of(table, native).median; ratio < .95 || ratio > 1.05 {
		finding = fmt.Sprintf("At 2,000 queries a second puntdns takes %.1f times as long as OVN's own DNS", ratio)
	}
	return svg.Bars(finding, "99 of 100 answers come within, ms; the thin line spans the rounds", f.bars(table, 1000,
		row{puntdns, puntdns}, row{native, native}, row{stock, stock}, row{"only returns each packet", ceiling}))
}

func (f *figures) forward() *svg.Drawing {
	ratio := f.of(ratios, "500 outstanding to a 10 ms upstream: puntdns to Neutron's forwarder (dnsperf)").median
	const asked = ", dnsperf, newest"
	return svg.Bars(fmt.Sprintf("puntdns answers %.0f times as many outside names as Neutron's forwarder", ratio),
		"queries a second, 500 outstanding, upstream of 10 ms, Open vSwitch 4.0; the thin line spans the rounds", f.bars("outside names, 500 outstanding, queries/s", 1,
			row{puntdns, puntdns + asked}, row{"systemd-resolved", "systemd-resolved in the guest" + asked},
			row{"dnsmasq in a guest", "dnsmasq in a guest" + asked}, row{"Neutron's forwarder", "Neutron's forwarder" + asked}))
}

func (f *figures) flood() *svg.Drawing {
	const table = "a guest that asks 100 a second, p99 µs"
	ratio := f.of(table, "OVN's own DNS, beside the flood").median / f.of(table, "beside a flood, rate 1000").median
	return svg.Bars(fmt.Sprintf("While a neighbour floods, OVN's own DNS takes %.1f times as long as puntdns", ratio),
		"ms in which 99 of 100 answers come, for a guest that asks 100 times a second; the thin line spans the rounds", f.bars(table, 1000,
			row{"puntdns, no flood", "alone"}, row{"puntdns, flood", "beside a flood, rate 1000"},
			row{"OVN's own DNS, no flood", "OVN's own DNS, alone"}, row{"OVN's own DNS, flood", "OVN's own DNS, beside the flood"}))
}

// sizes are the databases, by their number of names.
var sizes = []row{{"20,000 names", "2000 ports, 20000 names"}, {"100,000 names", "10000 ports, 100000 names"}, {"1,000,000 names", "100000 ports, 1000000 names"}}

func (f *figures) memory() *svg.Drawing {
	const table = "resident memory after the sync, MB"
	return svg.Bars(fmt.Sprintf("A million names and 100,000 ports take %s MB", rounded(f.of(table, sizes[2].is).median)),
		"resident memory with the whole of a database, MB", ours(f.bars(table, 1, sizes...)))
}

func (f *figures) update() *svg.Drawing {
	const table = "one record changed, median ms"
	ratio := f.of(table, sizes[2].is).median / f.of(table, sizes[0].is).median
	return svg.Bars(fmt.Sprintf("With 50 times as many names, a changed record takes %.1f times as long", ratio),
		"from the change in Southbound to the answer, median, ms", ours(f.bars(table, 1, sizes...)))
}

func ours(bars []svg.Bar) []svg.Bar {
	for i := range bars {
		bars[i].Ours = true
	}
	return bars
}
