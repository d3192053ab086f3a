// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"flag"
	"fmt"
	"hash/crc64"
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

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

var update = flag.Bool("update", false, "write what the scripts in testdata give into them")

// TestScripts runs the scripts in testdata. Each line is an event. Lines below it that begin with ">" are its
// results: commands of machines, and what the switch has. Generations are g1, g2 and so on. -update writes the
// results into the scripts; review them.
//
//	ovn TABLE COOKIE       ovn-controller installs a flow
//	start P                process P connects, again or for the first time
//	want P [WORD...]       Desired; words that are not given are as before: guests=1,2 unsettled
//	                       stage=ID:COOKIE arriving=N,... egress=N/NAME,... max=N network=N rate=QPS
//	                       closed=N,... owned=ADDRESS addresses=N/ADDRESS,... lease=SECONDS table=N
//	                       unready=TEXT limit=N/NAME/RATE
//	updates P              P gets the switch's flow updates
//	beat P, echo P         heartbeat, and return of its probe
//	open P GUEST NAME ADDRESS,... SECONDS
//	try P GUEST NAME ADDRESS,... SECONDS  a trial: would the request be done?
//	packet GUEST ADDRESS   a guest sends a packet
//	segment GUEST ADDRESS [syn]  a guest sends a TCP segment; may it?
//	save, restore          ovs-save(8)
//	retry P, withdraw P [keep]
//	kill P
//	pass TIME
//	wipe all|table N|P     ovs-ofctl del-flows: all, a table's, or P's
//	wipe meters            ovs-ofctl del-meters
//	overwrite lease|entries  by another program's flows
//	modify lease|entries   ovs-ofctl mod-flows, keeps the cookie
//	collision              another process adds the lease flow with the same cookie
//	meter ID               another program adds a meter
//	switch meters=N|refuses|takes|drops N  highest meter id, answer to meters, dropped packets
//	slowly                 from now on requests and updates wait for serve and hear:
//	serve P                the switch serves P's request
//	hear P [late]          P gets all from the switch, late: replies last
//	show                   what the switch has
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

// runScript also runs the script on bridge unless nil.
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

type namesAllowed struct{ names []string }

func (p *namesAllowed) Allows(name string, _ opening.Destination) bool {
	return slices.Contains(p.names, name)
}
func (p *namesAllowed) Networks() []opening.Network { return nil }
func (p *namesAllowed) Sum() uint64 {
	return crc64.Checksum([]byte(strings.Join(p.names, " ")), crc64.MakeTable(crc64.ISO))
}

func guestKey(n int) placement.Key { return placement.Key{Datapath: 5, Port: uint32(n)} }

type script struct {
	t         *testing.T
	sw        *fakeSwitch
	processes map[string]*process
	wants     map[string]Want
	names     map[uint64]string // of generations
	token     uint64            // of the last request for openings
	saved     []openflow.FlowMod
	slowly    bool
	out       []string
}

func (s *script) say(format string, args ...any) {
	s.out = append(s.out, "> "+fmt.Sprintf(format, args...))
}

// sortEnd sorts the last lines with a suffix.
func (s *script) sortEnd(suffix string) {
	i := len(s.out)
	for i > 0 && strings.HasSuffix(s.out[i-1], suffix) {
		i--
	}
	slices.Sort(s.out[i:])
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
		p.step(Withdraw{Keep: word(2) == "keep"})
		s.rest(p)
	case "open", "try":
		r := openRequest{token: s.token + 1, guest: guestKey(s.number(word(2))), answer: opening.Answer{
			Name: word(3), Lasts: time.Duration(s.number(word(5))) * time.Second, Trial: words[0] == "try",
		}}
		for a := range strings.SplitSeq(word(4), ",") {
			r.answer.To = append(r.answer.To, opening.Destination{Address: netip.MustParseAddr(a)})
		}
		s.token++
		p.step(open{[]openRequest{r}})
		s.rest(p)
	case "packet":
		s.sw.packet(guestKey(s.number(word(1))), netip.MustParseAddr(word(2)))
	case "segment":
		var flags uint16
		if word(3) == "syn" {
			flags = 2
		}
		open := s.sw.segment(guestKey(s.number(word(1))), netip.MustParseAddr(word(2)), flags)
		s.say("%s", map[bool]string{true: "open", false: "closed"}[open])
	case "save":
		s.saved = nil
		for _, key := range s.sw.keys() {
			s.saved = append(s.saved, s.sw.flows[key].mod)
		}
	case "restore":
		s.sw.change(nil, s.saved...)
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
			Settled: true, Kind: placement.OVN, Heartbeat: 5 * time.Second, Limited: true, MaxOpenings: 3, MaxNetworkOpenings: 1000, OpeningGrace: time.Minute,
			Stage: Stage{TableID: 22, Cookies: []uint32{0xaa}, StatefulID: 6},
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
				w.Stage = Stage{TableID: s.number(id), Cookies: []uint32{uint32(s.number(cookie))}, StatefulID: 6}
			}
		case "guests":
			w.Guests = nil
			for _, n := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				w.Guests = append(w.Guests, Guest{Guest: placement.Guest{Key: guestKey(s.number(n))}, Limit: limit})
			}
		case "rate":
			limit = Limit{Rate: uint32(s.number(value)), Burst: 10}
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Limit = limit
			}
		case "limit":
			// N/NAME/RATE, RATE 0 for no limit
			n, of, _ := strings.Cut(value, "/")
			name, rate, _ := strings.Cut(of, "/")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				if w.Guests[i].Port == uint32(s.number(n)) {
					w.Guests[i].Limit = Limit{Rate: uint32(s.number(rate)), Burst: 10, Name: name}
				}
			}
		case "addresses":
			// N/ADDRESS,ADDRESS
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
		case "egress":
			// N/NAME,NAME, or N/ for no policy
			w.Service.EgressBit = 31
			n, list, _ := strings.Cut(value, "/")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				if w.Guests[i].Port == uint32(s.number(n)) {
					w.Guests[i].Egress = nil
					if list != "" {
						w.Guests[i].Egress = &namesAllowed{strings.Split(list, ",")}
					}
				}
			}
		case "egress-off":
			w.Service.EgressBit = 0
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Egress = nil
			}
		case "closed":
			// N,N: all guests that fail closed
			closed := strings.Split(value, ",")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Closed = slices.Contains(closed, fmt.Sprint(w.Guests[i].Port))
			}
		case "network":
			w.MaxNetworkOpenings = s.number(value)
		case "arriving":
			// N,N: all guests that arrive
			arriving := strings.Split(value, ",")
			w.Guests = slices.Clone(w.Guests)
			for i := range w.Guests {
				w.Guests[i].Arriving = slices.Contains(arriving, fmt.Sprint(w.Guests[i].Port))
			}
		case "max":
			w.MaxOpenings = s.number(value)
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

// spoil is done by another program.
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

func (s *script) generation(g uint64) string {
	if g == releasedGeneration {
		return "released"
	}
	if s.names[g] == "" {
		s.names[g] = fmt.Sprintf("g%d", len(s.names)+1)
	}
	return s.names[g]
}

func (s *script) flow(f *openflow.FlowMod) string {
	what := "private"
	o, isOpening := placement.ReadOpening(f.Table, f.Priority, f.Match)
	if isOpening && f.Cookie == cookieOf(openingGeneration) {
		what = fmt.Sprintf("opening of guest %d to %s", o.Guest.Port, o.To)
		if f.Command == openflow.Add {
			what += fmt.Sprintf(", idle %d s, %v", f.IdleTimeout, placement.NamesOf(instructionsOf(f)))
		}
		return what
	}
	if isConnection(f.Cookie) {
		return s.connection(f)
	}
	_, isClosed := placement.ClosedGuest(f)
	ofFragments := slices.ContainsFunc(f.Match.Fields(), func(x openflow.Field) bool { return strings.HasPrefix(x.String(), "ip_frag=") })
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
		if ofFragments {
			what += ", fragments"
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
	case !isClosed && !ofFragments && len(f.Actions) == 0 && f.Command == openflow.Add:
		return what + ", spoiled, " + s.generation(generationOf(f.Cookie))
	}
	return what + ", " + s.generation(generationOf(f.Cookie))
}

// connection names the cookie like a generation.
func (s *script) connection(f *openflow.FlowMod) string {
	what := "all adopted connections"
	if guest, ok := f.Match.Value(openflow.Reg(placement.RegInPort, 0)); ok {
		what = fmt.Sprintf("arrival of guest %d for %d s", guest, f.HardTimeout)
		if to, ok := f.Match.Destination(); ok {
			what = fmt.Sprintf("connection of guest %d to %s, idle %d s", guest, to, f.IdleTimeout)
		}
	}
	return what + ", " + s.generation(f.Cookie)
}

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
		case c.Mask == searchMask:
			// One line for consecutive tables.
			line := fmt.Sprintf("> %s: read our flows, table by table, to ", p.name)
			if last := len(s.out) - 1; strings.HasPrefix(s.out[last], line) {
				s.out = s.out[:last]
			}
			s.out = append(s.out, line+fmt.Sprint(c.Table))
		case c.Guest != nil:
			say("read the openings of guest %d", c.Guest.Port)
		case c.Cookie == cookieOf(openingGeneration):
			say("read the openings")
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
			if c.Mods[i].Command == openflow.DeleteStrict || c.Mods[i].Command == openflow.Delete {
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
	case opened:
		if c.err != nil {
			say("request %d is refused: %v", c.token, c.err)
		} else {
			say("request %d is done", c.token)
		}
	case standing:
		if c.until.IsZero() {
			say("guest %d has %s no more", c.of.Guest.Port, c.of.To)
			s.sortEnd(" no more") // policies close in any order
		} else {
			say("guest %d has %s for %v at least, by %v", c.of.Guest.Port, c.of.To, c.until.Sub(s.sw.now), c.names)
		}
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
