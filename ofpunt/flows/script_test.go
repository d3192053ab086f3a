// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

var update = flag.Bool("update", false, "write what the scripts in testdata give into them")

// TestScripts runs the scripts in testdata. A line is something that happens; the lines
// behind it that begin with ">" are what comes of it: the commands of machines, and what the
// switch has. Generations are g1, g2 and so on, as they come up. With -update what comes of
// the events is written into the scripts, to be read before it is believed.
//
//	ovn TABLE COOKIE       ovn-controller installs a flow of that cookie
//	start P [since TIME]   process P connects, for the first time or again
//	want P [WORD...]       what should be installed: guests=1,2 unsettled stage=ID:COOKIE
//	                       rate=QPS closed=N,... owned=ADDRESS addresses=N/ADDRESS,... lease=SECONDS table=N unready=TEXT; words
//	                       that are not given are as before
//	updates P              P gets the flow updates that the switch has sent
//	beat P, echo P         a beat, and the return of its probe
//	retry P, withdraw P [keep]
//	kill P                 P dies
//	pass TIME
//	wipe all|table N|P     ovs-ofctl del-flows, of everything, a table, or the flows of P
//	wipe meters            ovs-ofctl del-meters
//	overwrite lease|entries by somebody else, with a cookie of nobody's
//	modify lease|entries    ovs-ofctl mod-flows, which keeps the cookie
//	collision              another process adds the lease flow with the cookie that it has
//	meter ID               another program adds a meter of that id
//	switch meters=N        has ids up to N; switch refuses meters; switch takes meters
//	slowly                 from now on requests and updates wait for these two:
//	serve P                the switch carries out the request of P
//	hear P [late]          P gets all that the switch has sent; late: replies last
//	show                   what stands
func TestScripts(t *testing.T) {
	for _, file := range scripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) { runScript(t, file, nil) })
	}
}

func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	return files
}

// runScript runs a script, with a bridge of Open vSwitch beside the fake unless bridge is nil.
func runScript(t *testing.T, file string, bridge *realBridge) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := script{t: t, sw: newFakeSwitch(epoch.Add(time.Hour)), processes: map[string]*process{}, wants: map[string]Want{}, names: map[uint64]string{}}
	s.sw.real = bridge
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, ">") {
			continue
		}
		s.out = append(s.out, line)
		if line != "" && !strings.HasPrefix(line, "#") {
			s.run(strings.Fields(line))
			if bridge != nil {
				bridge.compare(s.sw, line)
			}
		}
	}
	got := strings.Join(s.out, "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := gocmp.Diff(string(text), got); d != "" {
		t.Error(d)
	}
}

type script struct {
	t         *testing.T
	sw        *fakeSwitch
	processes map[string]*process
	wants     map[string]Want
	names     map[uint64]string // of generations
	slowly    bool
	out       []string
}

func (s *script) say(format string, args ...any) {
	s.out = append(s.out, "> "+fmt.Sprintf(format, args...))
}

func (s *script) number(text string) int {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(n)
}

func (s *script) run(words []string) {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	p := s.processes[word(1)]
	switch words[0] {
	case "ovn":
		s.sw.change(nil, openflow.FlowMod{Table: uint8(s.number(word(1))), Cookie: uint64(s.number(word(2))), Match: openflow.NewMatch(openflow.Metadata(5))})
	case "start":
		s.start(word(1))
	case "want":
		s.want(p, words[2:])
	case "updates":
		s.rest(p)
	case "beat":
		p.step(Heartbeat{})
		s.rest(p)
	case "echo":
		p.step(probeBack{p.token})
		s.rest(p)
	case "retry":
		p.step(retry{})
		s.rest(p)
	case "withdraw":
		p.step(Withdraw{KeepClosed: word(2) == "keep"})
		s.rest(p)
	case "kill":
		s.sw.disconnect(p.conn)
	case "pass":
		d, err := time.ParseDuration(word(1))
		if err != nil {
			s.t.Fatal(err)
		}
		s.sw.pass(d)
	case "wipe":
		s.wipe(words)
	case "overwrite", "modify":
		s.spoil(words[0], word(1))
	case "slowly":
		s.slowly = true
	case "serve":
		p.serve()
	case "hear":
		if word(2) == "late" {
			p.late()
		}
		for p.hear() {
		}
	case "collision":
		s.sw.change(nil, s.sw.flows[leaseKey].mod)
	case "switch":
		s.sets(words[1:])
	case "meter":
		if err := s.sw.modMeters(nil, []openflow.MeterMod{{ID: uint32(s.number(word(1))), Rate: 5}}); err != nil {
			s.t.Fatal(err)
		}
	case "show":
		s.show()
	default:
		s.t.Fatalf("no such event: %q", words)
	}
}

// rest lets a process come to rest, unless the script says when.
func (s *script) rest(p *process) {
	if !s.slowly {
		p.rest()
	}
}

func (s *script) start(name string) {
	p := s.processes[name]
	if p == nil {
		p = &process{name: name, random: rand.New(rand.NewPCG(1, uint64(len(s.processes))))}
		p.did = func(c command) { s.command(p, c) }
		s.processes[name] = p
	}
	p.connect(s.sw)
}

func (s *script) want(p *process, words []string) {
	w, ok := s.wants[p.name]
	if !ok {
		w = Want{
			Settled: true, Kind: placement.OVN, Heartbeat: 5 * time.Second, Limited: true,
			Stage: Stage{22, []uint32{0xaa}},
			Service: placement.Service{
				Addresses: []netip.AddrPort{netip.MustParseAddrPort("169.254.169.254:53")},
				Neighbors: true, ControllerID: 77, Lease: 15,
			},
		}
	}
	w.Unready = ""
	limit := Limit{}
	for _, g := range w.Guests {
		limit = g.Limit
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "unsettled":
			w.Settled = false
		case "settled":
			w.Settled = true
		case "unready":
			w.Unready = value
		case "unsynced":
			w.Unsynced = true
		case "synced":
			w.Unsynced = false
		case "lease":
			w.Service.Lease = uint16(s.number(value))
		case "table":
			w.Kind, w.Table, w.Priority = placement.Table, uint8(s.number(value)), 102
		case "stage":
			id, cookie, found := strings.Cut(value, ":")
			if w.Stage = (Stage{}); found {
				w.Stage = Stage{s.number(id), []uint32{uint32(s.number(cookie))}}
			}
		case "guests":
			w.Guests = nil
			for _, n := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				w.Guests = append(w.Guests, Guest{Guest: placement.Guest{Key: placement.Key{Datapath: 5, Port: uint32(s.number(n))}}, Limit: limit})
			}
		case "rate":
			limit = Limit{Rate: uint32(s.number(value)), Burst: 10}
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Limit = limit
			}
		case "limit":
			// N/NAME/RATE is that of the guest N alone, RATE 0 for none.
			n, of, _ := strings.Cut(value, "/")
			name, rate, _ := strings.Cut(of, "/")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				if w.Guests[i].Port == uint32(s.number(n)) {
					w.Guests[i].Limit = Limit{Rate: uint32(s.number(rate)), Burst: 10, Name: name}
				}
			}
		case "addresses":
			// N/ADDRESS,ADDRESS are those of the guest N alone.
			n, list, _ := strings.Cut(value, "/")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				if w.Guests[i].Port != uint32(s.number(n)) {
					continue
				}
				w.Guests[i].Addresses = nil
				for a := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
					w.Guests[i].Addresses = append(w.Guests[i].Addresses, netip.AddrPortFrom(netip.MustParseAddr(a), placement.DNSPort))
				}
			}
		case "closed":
			// N,N are the guests that fail closed, and no other.
			closed := strings.Split(value, ",")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Closed = slices.Contains(closed, fmt.Sprint(w.Guests[i].Port))
			}
		case "owned":
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Owned = []netip.Addr{netip.MustParseAddr(value)}
			}
		default:
			s.t.Fatalf("no such word: %q", word)
		}
	}
	s.wants[p.name] = w
	p.step(Desired{&w})
	s.rest(p)
}

func (s *script) wipe(words []string) {
	switch words[1] {
	case "all":
		s.sw.remove(func(*openflow.FlowMod) bool { return true })
	case "table":
		table := uint8(s.number(words[2]))
		s.sw.remove(func(f *openflow.FlowMod) bool { return f.Table == table })
	case "meters":
		s.sw.removeMeters(func(uint32) bool { return true })
	default:
		of := s.processes[words[1]].machine.generation()
		s.sw.remove(func(f *openflow.FlowMod) bool { return isOf(f.Cookie, of) })
	}
}

// spoil is what somebody else does to the lease flow, or the entry flows.
func (s *script) spoil(how, what string) {
	for _, key := range s.sw.keys() {
		f := s.sw.flows[key].mod
		if !ours(f.Cookie) || (key == leaseKey) != (what == "lease") || what == "entries" && f.Table == placement.PrivateTable {
			continue
		}
		f.Actions = nil
		if how == "overwrite" {
			f.Cookie = 0
		} else {
			f.Command, f.CookieMask = openflow.ModifyStrict, 0
		}
		s.sw.change(nil, f)
	}
}

func (s *script) sets(words []string) {
	switch n, ok := strings.CutPrefix(words[0], "meters="); {
	case ok:
		s.sw.maxMeter = uint32(s.number(n))
	case words[0] == "refuses":
		s.sw.refusesMeters = noMoreMeters
	case words[0] == "takes":
		s.sw.refusesMeters = nil
	case words[0] == "drops":
		s.sw.dropped += uint64(s.number(words[1]))
	default:
		s.t.Fatalf("no such switch: %q", words)
	}
}

// generation names a generation.
func (s *script) generation(g uint64) string {
	if g == releasedGeneration {
		return "released"
	}
	if s.names[g] == "" {
		s.names[g] = fmt.Sprintf("g%d", len(s.names)+1)
	}
	return s.names[g]
}

// flow names a flow: of which part of the plan, and of whom.
func (s *script) flow(f *openflow.FlowMod) string {
	what := "private"
	_, isClosed := placement.ClosedGuest(f)
	switch {
	case keyOf(f) == leaseKey:
		what = "lease"
	case f.Table == placement.AddressTable && f.Priority == 0:
		what = "private"
	case f.Table == placement.PuntTable && f.Priority == 0:
		what = "punt of all"
	case f.Table != placement.PrivateTable || isClosed:
		what = fmt.Sprintf("entry in %d", f.Table)
		if f.Table == placement.PuntTable {
			what = "punt"
		}
		if isClosed {
			what = "drop"
		}
		for _, field := range f.Match.Fields() {
			if text := field.String(); strings.HasPrefix(text, "reg14=") || strings.HasPrefix(text, "in_port=") {
				_, number, _ := strings.Cut(text, "=")
				what += fmt.Sprintf(" of guest %d", s.number(number))
			}
		}
		if m := meterOf(f); m != 0 {
			what += fmt.Sprintf(" with meter %d", m)
		}
	}
	switch {
	case !ours(f.Cookie):
		return what + ", somebody else's"
	case f.HardTimeout == 1 && f.Command == openflow.Add:
		return what + ", for a second, " + s.generation(generationOf(f.Cookie))
	case !isClosed && len(f.Actions) == 0 && f.Command == openflow.Add:
		return what + ", spoiled, " + s.generation(generationOf(f.Cookie))
	}
	return what + ", " + s.generation(generationOf(f.Cookie))
}

// several counts equal lines that follow each other.
func several(lines []string) (all []string) {
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		all = append(all, fmt.Sprintf("%d %s", n, lines[i]))
		i += n
	}
	return all
}

func (s *script) command(p *process, c command) {
	say := func(format string, args ...any) { s.say("%s: %s", p.name, fmt.Sprintf(format, args...)) }
	switch c := c.(type) {
	case monitor:
		say("monitor table %d", c.Table)
	case readFlows:
		switch {
		case c.Mask == cookieMask:
			// As one line for tables in a row.
			line := fmt.Sprintf("> %s: read our flows, table by table, to ", p.name)
			if last := len(s.out) - 1; strings.HasPrefix(s.out[last], line) {
				s.out = s.out[:last]
			}
			s.out = append(s.out, line+fmt.Sprint(c.Table))
		case ours(c.Cookie):
			say("read all flows of %s", s.generation(generationOf(c.Cookie)))
		default:
			say("read all flows with cookie %#x", c.Cookie)
		}
	case barrier:
		say("barrier")
	case apply:
		var lines []string
		for i := range c.Mods {
			verb := "add "
			if c.Mods[i].Command == openflow.DeleteStrict {
				verb = "remove "
			}
			lines = append(lines, verb+s.flow(&c.Mods[i]))
		}
		say("apply")
		for _, l := range several(lines) {
			say("  %s", l)
		}
	case readMeters:
		say("read meters")
	case modMeters:
		for i := range c.Mods {
			say("%v", c.Mods[i])
		}
	case readMeterStats:
		say("read meter statistics")
	case sendProbe:
		say("probe")
	case renew:
		say("renew the lease of %s", s.generation(generationOf(c.Lease.Cookie)))
	case retrySoon:
		say("retry soon")
	case fail:
		say("fail: %v", c.Err)
	default:
		say("%s", strings.TrimPrefix(fmt.Sprintf("%T%+v", c, c), "flows."))
	}
}

func (s *script) show() {
	var lines []string
	for _, key := range s.sw.keys() {
		standing := s.sw.flows[key]
		line := s.flow(&standing.mod)
		if meterOf(&standing.mod) != 0 && !s.sw.isMetered(&standing) {
			line += ", unlimited"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	for _, l := range several(lines) {
		s.say("%s", l)
	}
	var ids []uint32
	for id := range s.sw.meters {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s.say("meter %d: %d a second", id, s.sw.meters[id].Rate)
	}
	if len(lines)+len(ids) == 0 {
		s.say("nothing")
	}
}

func compareKeys(a, b flowKey) int {
	return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(b.priority, a.priority), cmp.Compare(a.match, b.match))
}
