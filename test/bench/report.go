// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report collects what was measured.
type report struct {
	tables []*table
	took   time.Duration
	// newest has the versions of the rows of the other root, empty without such rows. leftOut are
	// rows that can't be measured here, failed the suites that ended with an error; each has its reason.
	newest          string
	leftOut, failed []string
	earlier         string // version of the other puntdns of the suite before; empty for none
}

// table is one measure of several peers, or at several sizes, a value for each
// round.
type table struct {
	name   string
	peers  []string
	values map[string][]float64
}

func newTable(name string) *table { return &table{name: name, values: map[string][]float64{}} }

func (t *table) put(peer string, v float64) {
	if _, ok := t.values[peer]; !ok {
		t.peers = append(t.peers, peer)
	}
	t.values[peer] = append(t.values[peer], v)
}

// here reports whether the table has a row that is not of the other root.
func (t *table) here() bool {
	return slices.ContainsFunc(t.peers, func(p string) bool { return !strings.HasSuffix(p, newest("")) })
}

func (t *table) median(peer string) float64 { return median(t.values[peer]) }

func (r *report) add(t *table) *table {
	r.tables = append(r.tables, t)
	return t
}

// table returns the one of a name, which it makes if need be.
func (r *report) table(name string) *table {
	t := r.measured(name)
	if len(t.peers) == 0 && !slices.Contains(r.tables, t) {
		r.add(t)
	}
	return t
}

// measured returns the table of a name as far as there is one, else an empty one: a
// report that is written before the end must not settle the order of the tables.
func (r *report) measured(name string) *table {
	for _, t := range r.tables {
		if t.name == name {
			return t
		}
	}
	return newTable(name)
}

// bar is what a ratio is held against.
type bar struct {
	what, table, of, to string // of / to is the ratio; to may be empty: then of alone counts
	most, least         float64
	// elsewhere is set if its rows are of the other root.
	elsewhere bool
	part      string // of the suite cloud that has it; may be empty
}

// bars are those of the project.
func (e *extent) bars() []bar {
	large := e.large().String()
	few, many := guestsName(e.guests[0]), guestsName(e.guests[len(e.guests)-1])
	most := strconv.Itoa(slices.Max(e.cloudNodes))
	return append(loadBars(), []bar{
		{what: "2,000 queries/s, median: puntdns to OVN's own DNS", table: tMedian, of: pPuntdns, to: pNative, most: 1},
		{what: "2,000 queries/s, p99: puntdns to OVN's own DNS", table: tP99, of: pPuntdns, to: pNative, most: 1},
		{what: "TCP, 8 connections kept open: puntdns to CoreDNS on a socket", table: tTCPOpen, of: pPuntdns, to: pStock, least: 1},
		{what: "TCP, a connection a query: puntdns to the ceiling", table: tTCPNew, of: pPuntdns, to: pCeiling, least: .9},
		{what: "decode a packet-in, ns", table: tCode, of: "PacketInDecode/1.5", most: 100},
		{what: "encode a packet-out, ns", table: tCode, of: "AppendPacketOut/OpenFlow 1.5", most: 100},
		{what: "lookup of 100 names: among 1,000,000 to among 1,000", table: tCode, of: "LookupAtSize/1000000 names, 100 of its names", to: "LookupAtSize/1000 names, 100 of its names", most: 1.3},
		{what: "1,000,000 names: first sync, s", table: tSync, of: large, most: 12},
		{what: "1,000,000 names: resident memory, MB", table: tRSS, of: large, most: 350},
		{what: "1,000,000 names: worst lookup while records change, ms", table: tWorstBusy, of: large, most: 20},
		{what: "1,000,000 names: one record changed, median ms", table: tChanged, of: large, most: 20},
		{what: "one record changed, rebuild: among 1,000,000 names to among 20,000", table: tRebuild, of: large, to: e.sizes[0].String(), most: 3},
		{what: "p99 of a guest beside a flood with rate 1000: to alone", table: tVictim99, of: pLimited, to: pQuiet, most: 5},
		{what: "a commit in Northbound: puntdns to OVN's own DNS", table: tChange, of: pPuntdns, to: pNative, most: 1},
		{what: "200 records a second change in the guests' network, processor time: 1,000 guests to 20", table: tChangesOwn, of: many, to: few, most: 1.1},
		{what: "200 records a second change in another network, processor time: 1,000 guests to 20", table: tChangesOther, of: many, to: few, most: 1.1},
		{what: "a node with 20 of 100,000 ports: live heap, % of everything", table: tLocalHeap, of: large, most: 5},
		{what: "a node with 20 of 100,000 ports: start, s", table: tLocalStart, of: large, most: 1.5},
		{what: "a node with 20 of 100,000 ports: a new guest's network, ms", table: tNewGuest, of: large, most: 300},
		{what: "50,000 queries/s are asked: with puntctl watch open to without", table: tWatchLoad, of: pWatch, to: pUnwatched, least: .97},
		{what: "50,000 queries/s are asked: with puntctl top open to without", table: tWatchLoad, of: pTop, to: pUnwatched, least: .97},
		{what: most + " nodes of puntdns beside as many ovn-controller, processor time of the Southbound server less that with nobody: to ovn-controller alone", table: tCloudRatioLess, of: most + " puntdns and " + most + " ovn-controller, " + inBatches.name, most: 1.3, part: "server"},
		{what: most + " nodes of puntdns, processor time of the Southbound server less that with nobody: to as many ovn-controller", table: tCloudRatioLess, of: most + " puntdns, " + inBatches.name, most: 1.3, part: "server"},
		{what: "a node starts again from its saved snapshot: it answers for all guests, ms", table: tCloudOneAnswer, of: pWarm + ", among " + most, most: 200, part: "server"},
		{what: "a node starts again from its saved snapshot: in sync, ms", table: tCloudOneSync, of: pWarm + ", among " + most, most: 2000, part: "server"},
		{what: "a node starts again from its saved snapshot, bytes: to one with nothing", table: tCloudOneKB, of: pWarm + ", among " + most, to: pCold + ", among " + most, most: .05, part: "server"},
		{what: "relays, processor time of the main server: " + most + " nodes to nobody", table: tCloudCPU, of: most + " puntdns at two relays, " + inBatches.name, to: "two relays, nobody, " + inBatches.name, most: 1.1, part: "relays"},
		{what: "the leader of three servers is killed, " + most + " nodes: the last is back, s", table: tCloudBackLast, of: most + " puntdns, leader of three killed", most: 30, part: "cluster"},
		{what: "the leader of three servers is killed: nodes that kept all guests, %", table: tCloudKept, of: most + " puntdns, leader of three killed", least: 100, part: "cluster"},
		{what: "cached answers with open addresses, queries/s: a guest with a policy to one without", table: eCached + bRate, of: ePolicy, to: eNoPolicy, least: .95},
		{what: "cached answers with open addresses, p99 at 2,000 queries/s: a guest with a policy to one without", table: eCached + bP99, of: ePolicy, to: eNoPolicy, most: 1.05},
		{what: "cached answers with open addresses, processor time: a guest with a policy to one without", table: eCached + bCPU, of: ePolicy, to: eNoPolicy, most: 1.05},
		{what: "local names, queries/s: puntdns to another version", table: bLocal + bRate, of: pPuntdns, to: pBefore, least: .97},
		{what: "local names with metadata, queries/s: puntdns to another version", table: bLocal + bMetadata + bRate, of: pPuntdns, to: pBefore, least: .97},
		{what: "outside names from cache, queries/s: puntdns to another version", table: bCached + bRate, of: pPuntdns, to: pBefore, least: .97},
		{what: "outside names from cache with metadata, queries/s: puntdns to another version", table: bCached + bMetadata + bRate, of: pPuntdns, to: pBefore, least: .97},
	}...)
}

// loadBars are those of what both generators ask. The newest peers are not on every machine.
func loadBars() (all []bar) {
	for _, g := range generators {
		for _, b := range []bar{
			{what: "local names, queries/s: puntdns to the ceiling", table: tLocal, of: pPuntdns, to: pCeiling, least: .9},
			{what: "local names, queries/s: puntdns to OVN's own DNS", table: tLocal, of: pPuntdns, to: pNative, least: 1.3},
			{what: "local names, queries/s: puntdns to CoreDNS on a socket", table: tLocal, of: pPuntdns, to: pStock, least: 1},
			{what: "processor time a query: puntdns to CoreDNS on a socket", table: tCPU, of: pPuntdns, to: pStock, most: .7},
			{what: "500 outstanding to a 10 ms upstream: puntdns to the blocking forwarder", table: tForward500, of: pPuntdns, to: pBlocking, least: 100},
			{what: "50 outstanding to a 10 ms upstream: puntdns, queries/s", table: tForward50, of: pPuntdns, least: 4750},
			{what: "50 outstanding to a 10 ms upstream: puntdns to the upstream itself", table: tForward50, of: pPuntdns, to: pUpstream, least: .97},
			{what: "50 outstanding to a 10 ms upstream: puntdns to the ceiling", table: tForward50, of: pPuntdns, to: pCeiling, least: .97},
		} {
			b.what, b.of = b.what+" ("+g.name+")", by(b.of, g.name)
			if b.to != "" {
				b.to = by(b.to, g.name)
			}
			all = append(all, b)
			switch {
			case b.to == by(pNative, g.name):
				b.what = "newest OVN: " + b.what
			case b.to == by(pBlocking, g.name):
				b.what = strings.Replace(b.what, "the blocking forwarder", pNeutron, 1)
				b.to = by(pNeutron, g.name)
			default:
				continue
			}
			b.of, b.to, b.elsewhere = newest(b.of), newest(b.to), true
			all = append(all, b)
		}
	}
	return all
}

// judge returns the ratio of a bar, and whether it is kept; ok is false if it was
// not measured.
func (r *report) judge(b bar) (ratio float64, kept, ok bool) {
	t := r.measured(b.table)
	if len(t.values[b.of]) == 0 || b.to != "" && len(t.values[b.to]) == 0 {
		return 0, false, false
	}
	ratio = t.median(b.of)
	if b.to != "" {
		ratio /= t.median(b.to)
	}
	return ratio, (b.least == 0 || ratio >= b.least) && (b.most == 0 || ratio <= b.most), true
}

// write writes the page of results into a folder. test/pictures draws its figures.
func (r *report) write(dir string, b *bench) error {
	var s strings.Builder
	measured := firstLine(b, b.puntdns, "-version")
	s.WriteString("# Benchmarks\n\n")
	if r.earlier != "" {
		s.WriteString(beforeUsage)
		measured += " and, as another version, " + r.earlier
	}
	fmt.Fprintf(&s, "Written by `make bench`, which measured %s. %s; it took %s.\n\n", measured, machine(b), r.took.Round(time.Second))
	s.WriteString(r.notMeasured())
	fmt.Fprintf(&s, `All peers run on one lab in turn, A B C D A B C D, and the medians of %d rounds count (a range of one value is a single measurement); what varies between runs of a shared machine is the figures, less so the ratios.

- **ceiling**, of local names: a program that turns each punted query round as it is: what the switch, the connection and the codec allow.
- **all of one priority**: the load takes its share of the processors from the switch, OVN and puntdns, as busy guests would that nobody puts behind the node's daemons. In the other tables these daemons stand before guests and load, as their start scripts and our unit have it.
- **OVN's own DNS**: queries without EDNS, the only ones that it answers before 23.03.3.
- **CoreDNS on a socket**: the stock one with *hosts*, *cache* and *prometheus* in a guest of the same bridge.
- **dnsperf, own generator**: who makes the load, by 4 sockets and with as many queries outstanding. dnsperf sends one by one, and is what others measure with. Our own generator sends as many as it may by one system call and looks at no more of an answer than its id: bursts, as many guests at once make them. What each takes of the processors is in a table of its own. Processor time of OVN's own DNS is that of ovn-controller.
- **ceiling**, of outside names: a program that passes each punted query on to the upstream by one socket, without looking at it, and its answer back: what the switch, the connection and a socket leave of a forwarder.
- **blocking forwarder**: an os-ken application with one handler that waits for the upstream, as Neutron's agent has it.
- **Neutron's forwarder**: the extension dns_forwarder of Neutron's Open vSwitch agent itself, without the rest of the agent.
- **dnsmasq in a guest**: another guest of the switch asks it, as in a network with a server of the tenant's own. **systemd-resolved in the guest** is asked by the guest that it runs in, without the switch between. Both ask an upstream in another guest of the switch, which thinks as long as the other one. Where they have a cache, it is of the size that they come with. Without one, dnsmasq may have 10,000 queries outstanding in the place of 150.
- **newest**: on other versions%s, in the root folder of another Debian: the peers of these releases, and puntdns on the same switch.
- **CoreDNS, no switch**: the stock one with *forward* on a socket of the node, asked from there: what the plugin allows.
- **beside a flood**: a guest asks whose own waits for a processor do not count, having a real-time priority; the one that floods sends as fast as it can.
- **a server in a guest**: the stock one on a port that nobody punts: what the switch and the machine leave of a guest beside a flood.
- **20 guests, 1000 guests**: two nodes of one real OVN, whose guests are patch ports without a peer, bound by ovn-controller. The records are changed in the Southbound database itself, with ovn-northd stopped: in the guests' network, which has 100 guests at most, and in another one with a single guest on each node.
- **puntctl watch, puntctl top**: each of them beside one and the same puntdns, in turn with nobody. watch shows 1,000 queries a second and counts the others; what either has no room for is in the table of its own, and each query that was answered is known to them or counted.
- **another version**: the binary that -before names, in turn with this one. Latencies over TCP are of one connection that stays open, and of one connection after the other. In hijack mode the queries go on to a stock CoreDNS in a guest, whose part of the processors is in the queries/s. The database of 1,000,000 names has 100,000 ports; the guest asks for names of its network.
- **Southbound, puntdns**: nodes as the databases see them, in one process: each with its connection, its chassis and 20 to 100 ports, of five tenants. **ovn-controller**: connections with the tables, columns and conditions of ovn-controller, whose contents nobody looks at. 100 ports change a second, and a record; one claim in ten brings a network that the node had not. What ten seconds of it cost the server counts, however long it takes. A median or p99 of fewer than %d values is left out.
- **the upstream itself**: asked without anything between, from where puntdns asks it.

puntdns runs with *errors*, *prometheus*, *ready*, *ovnhosts*, *cache* and *forward*; once more with *metadata*, which *view*, *log*, *rewrite* and *template* need to tell who asks. Outside names are measured without *ovnhosts* and *cache*.

`, b.rounds, r.newestVersions(), fewestSamples)
	s.WriteString("## Against the bars\n| measure | measured | bar | |\n|---|---|---|---|\n")
	for _, bar := range b.bars() {
		ratio, kept, ok := r.judge(bar)
		if !ok {
			continue
		}
		limit, verdict := fmt.Sprintf("at least %g", bar.least), "**missed**"
		if bar.most > 0 {
			limit = fmt.Sprintf("at most %g", bar.most)
		}
		if kept {
			verdict = "kept"
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", bar.what, figure(ratio), limit, verdict)
	}
	s.WriteString(r.ratiosToBefore())
	s.WriteString("\n## Figures\nMedian, and the range of the rounds.\n")
	for _, t := range r.tables {
		if len(t.peers) == 0 {
			continue
		}
		fmt.Fprintf(&s, "\n| %s | median | range |\n|---|---|---|\n", t.name)
		for _, p := range t.peers {
			v := t.values[p]
			fmt.Fprintf(&s, "| %s | %s | %s to %s |\n", p, figure(median(v)), figure(slices.Min(v)), figure(slices.Max(v)))
		}
	}
	return os.WriteFile(filepath.Join(dir, "benchmarks.md"), []byte(strings.TrimRight(s.String(), "\n")+"\n"), 0o644)
}

// notMeasured names, for the page, what has failed and what was left out.
func (r *report) notMeasured() string {
	var s strings.Builder
	for _, what := range r.failed {
		fmt.Fprintf(&s, "**Failed**: %s.\n\n", what)
	}
	for _, what := range r.leftOut {
		fmt.Fprintf(&s, "Left out: %s.\n\n", what)
	}
	return s.String()
}

// longestReason is how much of an error the page has, in bytes: standard error has all of it.
const longestReason = 300

// fail adds a suite that has failed, with the first line of the reason.
func (r *report) fail(suite string, reason error) {
	line, _, _ := strings.Cut(strings.TrimSpace(reason.Error()), "\n")
	if len(line) > longestReason {
		line = strings.ToValidUTF8(line[:longestReason], "") + " …"
	}
	r.failed = append(r.failed, suite+": "+strings.TrimRight(line, " .:"))
}

// ratiosToBefore is the part of the page that compares the versions of the suite before, empty without them.
func (r *report) ratiosToBefore() string {
	var s strings.Builder
	for _, t := range r.tables {
		what, ok := strings.CutPrefix(t.name, besideAnother)
		if !ok || len(t.values[pPuntdns]) == 0 || len(t.values[pBefore]) == 0 {
			continue
		}
		if s.Len() == 0 {
			s.WriteString("\n## Beside another version\nMedians of the rounds.\n\n| measure | puntdns | before | puntdns to before |\n|---|---|---|---|\n")
		}
		now, before := t.median(pPuntdns), t.median(pBefore)
		ratio := "-"
		if before != 0 {
			ratio = figure(now / before)
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", what, figure(now), figure(before), ratio)
	}
	return s.String()
}

// newestVersions are those of the other root, for a sentence.
func (r *report) newestVersions() string {
	if r.newest == "" {
		return ""
	}
	return " (" + r.newest + ")"
}

// figure writes a number with three digits that count.
func figure(v float64) string {
	switch a := max(v, -v); {
	case a >= 100 || a == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// firstLine returns the first line that a command prints.
func firstLine(b *bench, argv ...string) string {
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		b.t.Fatalf("%v: %v", argv, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// machine describes what it ran on.
func machine(b *bench) string {
	version := func(argv ...string) string { return firstLine(b, argv...) }
	cpu := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.Trim(rest, " \t:\n")
				break
			}
		}
	}
	kernel, _, _ := strings.Cut(version("uname", "-r"), "-") // what follows is its builder's
	gc := "GOGC=" + os.Getenv("GOGC")
	if os.Getenv("GOGC") == "" {
		gc = "GOGC unset"
	}
	return fmt.Sprintf("%s, on %d cores of %s, Linux %s; %s; %s; %s; %s; %s", time.Now().UTC().Format("2006-01-02"),
		runtime.NumCPU(), cpu, kernel, version("ovs-vswitchd", "--version"), version("ovn-northd", "--version"), runtime.Version(), version(b.coredns, "-version"), gc)
}
