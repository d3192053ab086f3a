// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
)

var isolationSteps = flag.Int("steps", 40, "changes that TestIsolation makes")

// TestIsolation: on a random topology that changes, with northd between, no
// answer has data of a network outside the asker's scope, while it changes
// neither; and after each change the answers are those of a model.
//
// Names and IPv4 addresses overlap everywhere. The IPv6 address beside each tells
// whose it is, and so do the texts of TXT records.
func TestIsolation(t *testing.T) {
	t.Parallel()
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	r := newRig(t)
	r.startNorthd()
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	m := newModel(r, rand.New(rand.NewPCG(seed, 1)))
	for range 25 {
		m.step()
	}
	m.settle()

	readings := r.joinedReadings(m.here())

	// What is allowed before the first check and after each change is what the
	// model says, and while one goes on, what it says before or after.
	var allowed atomic.Pointer[rules]
	allowed.Store(m.rules())
	stop := make(chan struct{})
	var watchers sync.WaitGroup
	for _, reading := range readings {
		watchers.Go(func() {
			for {
				changed := reading.source.Changed()
				reading.check(t, m.questions, &allowed)
				select {
				case <-changed:
				case <-stop:
					return
				}
			}
		})
	}
	end := sync.OnceFunc(func() {
		close(stop)
		watchers.Wait()
	})
	defer end()

	for i := range *isolationSteps {
		before := m.rules()
		change := m.plan()
		allowed.Store(before.or(m.rules()))
		change()
		m.settle()
		for _, reading := range readings {
			reading.source.as("br").setPorts(m.here(), 0)
			eventually(t, reading.source, func(s *ovn.Snapshot) string {
				if wrong := m.compare(s, reading); wrong != "" {
					return fmt.Sprintf("-seed %d, step %d, %s:\n%s", seed, i, reading.name, wrong)
				}
				return ""
			})
		}
		allowed.Store(m.rules())
		if t.Failed() {
			return
		}
	}
	end()
}

// check asks all questions for all guests of the present snapshot.
func (x *joinedReading) check(t *testing.T, questions []string, allowed *atomic.Pointer[rules]) {
	before := allowed.Load()
	s := x.source.Snapshot()
	var wrong []string
	for p := range s.Guests() {
		for _, scope := range []ovn.Scope{s.SwitchScope(p.Network), s.RouterScope(p.Network)} {
			if scope.Own == nil {
				wrong = append(wrong, fmt.Sprintf("%s has no scope", p.Name))
				continue
			}
			wide := scope.Union() != nil
			for _, name := range questions {
				a, _ := scope.Lookup(name, "fallback.test.")
				for _, data := range owners(a) {
					if !before.allow(p.Name, wide, data) {
						wrong = append(wrong, fmt.Sprintf("%s, in %s (router scope %v), is told of %s: %s", p.Name, p.SwitchName, wide, name, ovn.ShowAnswer(a)))
					}
				}
			}
		}
	}
	// The rules may have changed between the two.
	if after := allowed.Load(); after == before && len(wrong) > 0 {
		t.Errorf("%s:\n%s", x.name, strings.Join(wrong[:min(5, len(wrong))], "\n"))
	}
}

// owners are the data of an answer that tell whose it is.
func owners(a names.Answer) (all []string) {
	for _, v6 := range a.V6 {
		all = append(all, v6.String())
	}
	for _, rr := range a.RRs.Of(dns.TypeANY) {
		all = append(all, rr.(*dns.TXT).Txt...)
	}
	return all
}

// rules are, by guest, the data that he may get.
type rules struct{ narrow, wide map[string]map[string]bool }

func (r *rules) allow(guest string, wide bool, data string) bool {
	if wide {
		return r.wide[guest][data]
	}
	return r.narrow[guest][data]
}

func (r *rules) or(o *rules) *rules {
	merge := func(a, b map[string]map[string]bool) map[string]map[string]bool {
		out := map[string]map[string]bool{}
		for _, m := range []map[string]map[string]bool{a, b} {
			for guest, data := range m {
				if out[guest] == nil {
					out[guest] = map[string]bool{}
				}
				for d := range data {
					out[guest][d] = true
				}
			}
		}
		return out
	}
	return &rules{merge(r.narrow, o.narrow), merge(r.wide, o.wide)}
}

// model is the topology as it was made, in the simplest form.
type model struct {
	r    *rig
	rand *rand.Rand

	switches []*modelSwitch // in the order of their UUIDs
	routers  []string
	ports    []*modelPort
	rows     []*modelRow
	links    []modelLink // switch to router, or router to router
	count    int
	// questions are all names that are asked for.
	questions []string
}

type modelSwitch struct {
	name, uuid string
	localnet   bool
}

type modelPort struct {
	name, on, host string
	parent         string // of a container
	v4, v6         string
}

type modelRow struct {
	uuid    string
	on      map[string]bool
	records map[string]string // a key to its value
	texts   map[string]string // a key to its TXT record
}

type modelLink struct{ a, b string }

func newModel(r *rig, rnd *rand.Rand) *model {
	m := &model{r: r, rand: rnd}
	for i := range 7 {
		m.switches = append(m.switches, &modelSwitch{name: fmt.Sprintf("s%d", i), uuid: fmt.Sprintf("%08x-1111-4111-8111-111111111111", rnd.Uint32())})
	}
	slices.SortFunc(m.switches, func(a, b *modelSwitch) int { return strings.Compare(a.uuid, b.uuid) })
	for _, s := range m.switches {
		r.server.Transact(r.t, topology.NorthboundName, rawJSON(fmt.Sprintf(
			`{"op":"insert","table":"Logical_Switch","uuid":%q,"row":{"name":%q,"other_config":["map",[["dns_domain","%s.test"]]]}}`, s.uuid, s.name, s.name)))
	}
	for i := range 4 {
		m.routers = append(m.routers, fmt.Sprintf("r%d", i))
		r.nbctl("lr-add " + m.routers[i])
	}
	keys := append([]string{"nosuch", "x.nosuch", "q.x", "y.q.x", "x", "q.a.x", "q.b.a.x", "vm0.s0.test", "vm1.s1.test", "q.vm0.s0.test", "s0.test", "fallback.test", "vm0.fallback.test", "0.0.10.in-addr.arpa"}, modelKeys...)
	for _, k := range append(keys, modelHosts...) {
		m.questions = append(m.questions, k+".")
	}
	return m
}

var (
	modelKeys  = []string{"db.x", "*.x", "b.a.x", "a.x", "*.a.x", "vm0", "app"}
	modelHosts = []string{"vm0", "vm1", "vm2"}
)

func pickOf[T any](m *model, list []T) T { return list[m.rand.IntN(len(list))] }

// value is an address that many have, with one that nobody else has.
func (m *model) value() (v4, v6 string) {
	m.count++
	return fmt.Sprintf("10.0.0.%d", 1+m.rand.IntN(4)), fmt.Sprintf("fd00::%x", m.count)
}

func (m *model) step() { m.plan()() }

// settle waits until northd has done its part, and binds the guests.
func (m *model) settle() {
	m.r.nbctl("--wait=sb sync")
	var bind []string
	for _, p := range m.ports {
		bind = append(bind, "--may-exist lsp-bind "+p.name+" hv1")
	}
	if len(bind) > 0 {
		m.r.sbctl(strings.Join(bind, " -- "))
	}
}

func (m *model) here() []string {
	var all []string
	for _, p := range m.ports {
		all = append(all, p.name)
	}
	return all
}

// plan changes the model, and returns what changes the database likewise.
func (m *model) plan() func() {
	nbctl := func(format string, args ...any) func() {
		command := fmt.Sprintf(format, args...)
		return func() { m.r.nbctl(command) }
	}
	s := pickOf(m, m.switches)
	switch m.rand.IntN(9) {
	case 0, 1: // a VM, or a container on another switch than its VM
		p := &modelPort{name: fmt.Sprintf("p%d", m.count), on: s.name, host: pickOf(m, modelHosts)}
		p.v4, p.v6 = m.value()
		add := "lsp-add " + s.name + " " + p.name
		if len(m.ports) > 0 && m.rand.IntN(2) == 0 {
			if parent := pickOf(m, m.ports); parent.parent == "" {
				p.parent = parent.name
				add += fmt.Sprintf(" %s %d", parent.name, m.count%4000+1)
			}
		}
		m.ports = append(m.ports, p)
		return nbctl("%s -- set Logical_Switch_Port %s addresses=\"02:00:00:00:%02x:%02x~%s~%s\" -- lsp-set-options %s hostname=%s",
			add, p.name, m.count>>8, m.count&255, p.v4, p.v6, p.name, p.host)
	case 2: // a VM or a container goes
		free := slices.DeleteFunc(slices.Clone(m.ports), func(p *modelPort) bool {
			return slices.ContainsFunc(m.ports, func(c *modelPort) bool { return c.parent == p.name })
		})
		if len(free) < 4 {
			return func() {}
		}
		p := pickOf(m, free)
		m.ports = slices.DeleteFunc(m.ports, func(o *modelPort) bool { return o == p })
		return nbctl("lsp-del %s", p.name)
	case 3, 4: // a DNS row, or one that is for another switch too or not
		if len(m.rows) > 4 || len(m.rows) > 0 && m.rand.IntN(2) == 0 {
			row := pickOf(m, m.rows)
			if row.on[s.name] = !row.on[s.name]; row.on[s.name] {
				return nbctl("add Logical_Switch %s dns_records %s", s.uuid, row.uuid)
			}
			return nbctl("remove Logical_Switch %s dns_records %s", s.uuid, row.uuid)
		}
		row := &modelRow{uuid: fmt.Sprintf("%08x-2222-4222-8222-222222222222", m.rand.Uint32()), on: map[string]bool{s.name: true}, records: map[string]string{}, texts: map[string]string{}}
		var pairs, ids []string
		for range 1 + m.rand.IntN(4) {
			v4, v6 := m.value()
			row.records[pickOf(m, modelKeys)] = v4 + " " + v6
			if m.rand.IntN(2) == 0 {
				row.texts[pickOf(m, modelKeys)] = fmt.Sprintf("t%d", m.count)
			}
		}
		for k, v := range row.texts {
			ids = append(ids, fmt.Sprintf(`["dns-txt/%s",%q]`, k, v))
		}
		for k, v := range row.records {
			pairs = append(pairs, fmt.Sprintf("[%q,%q]", k, v))
		}
		m.rows = append(m.rows, row)
		return func() {
			m.r.server.Transact(m.r.t, topology.NorthboundName,
				rawJSON(fmt.Sprintf(`{"op":"insert","table":"DNS","uuid":%q,"row":{"records":["map",[%s]],"external_ids":["map",[%s]]}}`, row.uuid, strings.Join(pairs, ","), strings.Join(ids, ","))),
				rawJSON(fmt.Sprintf(`{"op":"mutate","table":"Logical_Switch","where":[["_uuid","==",["uuid",%q]]],"mutations":[["dns_records","insert",["uuid",%q]]]}`, s.uuid, row.uuid)))
		}
	case 5: // a provider's network, or one no more
		if s.localnet = !s.localnet; s.localnet {
			return nbctl("lsp-add %s phys-%s -- lsp-set-type phys-%s localnet -- lsp-set-addresses phys-%s unknown -- lsp-set-options phys-%s network_name=phys", s.name, s.name, s.name, s.name, s.name)
		}
		return nbctl("lsp-del phys-%s", s.name)
	default: // a link comes or goes
		link := modelLink{s.name, pickOf(m, m.routers)}
		if m.rand.IntN(5) == 0 {
			link = modelLink{m.routers[0], pickOf(m, m.routers[1:])}
		}
		id := link.a + "-" + link.b
		if i := slices.Index(m.links, link); i >= 0 {
			m.links = slices.Delete(m.links, i, i+1)
			if link.a == m.routers[0] {
				return nbctl("lrp-del %s -- lrp-del %s-back", id, id)
			}
			return nbctl("lrp-del %s -- lsp-del %s-port", id, id)
		}
		m.links = append(m.links, link)
		if link.a == m.routers[0] {
			return nbctl("lrp-add %s %s 02:00:00:00:ff:01 10.8.0.1/24 peer=%s-back -- lrp-add %s %s-back 02:00:00:00:ff:02 10.8.0.2/24 peer=%s", link.a, id, id, link.b, id, id)
		}
		return nbctl("lrp-add %s %s 02:00:00:00:ff:03 10.9.0.1/24 -- lsp-add %s %s-port -- lsp-set-type %s-port router -- lsp-set-addresses %s-port router -- lsp-set-options %s-port router-port=%s",
			link.b, id, link.a, id, id, id, id, id)
	}
}

// scope is the switches whose names who is on a switch sees: his own, then the
// others by UUID.
func (m *model) scope(own string, wide bool) []string {
	in := map[string]bool{own: true}
	provider := func(name string) bool {
		return slices.ContainsFunc(m.switches, func(s *modelSwitch) bool { return s.name == name && s.localnet })
	}
	for more := wide && !provider(own); more; {
		more = false
		for _, l := range m.links {
			if in[l.a] != in[l.b] && !provider(l.a) {
				in[l.a], in[l.b], more = true, true, true
			}
		}
	}
	all := []string{own}
	for _, s := range m.switches {
		if in[s.name] && s.name != own {
			all = append(all, s.name)
		}
	}
	return all
}

// rules are what each guest may get, by the model.
func (m *model) rules() *rules {
	data := func(scope []string) map[string]bool {
		all := map[string]bool{}
		for _, s := range scope {
			for _, p := range m.ports {
				if p.on == s {
					all[p.v6] = true
				}
			}
			for _, row := range m.rows {
				for _, v := range row.records {
					if row.on[s] {
						all[strings.Fields(v)[1]] = true
					}
				}
				for _, v := range row.texts {
					if row.on[s] {
						all[v] = true
					}
				}
			}
		}
		return all
	}
	r := &rules{map[string]map[string]bool{}, map[string]map[string]bool{}}
	for _, p := range m.ports {
		r.narrow[p.name] = data(m.scope(p.on, false))
		r.wide[p.name] = data(m.scope(p.on, true))
	}
	return r
}

// answers are what a switch may say of a name: of several rows any, since which
// goes first depends on the database that is read. It is "empty" or "none" for a
// name without data.
func (m *model) answers(on, name string, northbound bool) []string {
	names := map[string][]string{} // to values, one for each source
	texts := map[string][]string{} // likewise
	var rows []*modelRow
	for _, row := range m.rows {
		if row.on[on] {
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		for k, v := range row.records {
			names[k+"."] = append(names[k+"."], v)
		}
		for k, v := range row.texts {
			if northbound {
				texts[k+"."] = append(texts[k+"."], fmt.Sprintf("TXT:%q", v))
			}
		}
	}
	domain := "fallback.test."
	if northbound {
		domain = on + ".test."
	}
	hosts := map[string][]string{}
	for _, p := range m.ports {
		if p.on == on {
			for _, full := range []string{p.host + ".", p.host + "." + domain} {
				hosts[full] = append(hosts[full], p.v4, p.v6)
			}
		}
	}
	for full, addresses := range hosts {
		if len(names[full]) == 0 {
			names[full] = []string{strings.Join(addresses, " ")}
		}
	}
	exists := func(n string) bool {
		for _, all := range []map[string][]string{names, texts} {
			for have := range all {
				if have == n || strings.HasSuffix(have, "."+n) {
					return true
				}
			}
		}
		return n == "."
	}
	if found := together(names[name], texts[name]); len(found) > 0 {
		return found
	}
	if exists(name) {
		return []string{"empty"}
	}
	labels := strings.Split(name, ".")
	for i := 1; i < len(labels); i++ {
		if above := strings.Join(labels[i:], "."); above == "" || exists(above) {
			if found := together(names["*."+above], texts["*."+above]); len(found) > 0 {
				return found
			}
			break
		}
	}
	if strings.HasSuffix(name, ".in-addr.arpa.") && len(names) > 0 {
		return []string{"empty"} // every name has an address in 10.0.0.0/24
	}
	return []string{"none"}
}

// together is each of some values with each of others.
func together(values, others []string) (all []string) {
	if len(others) == 0 {
		return values
	}
	if len(values) == 0 {
		return others
	}
	for _, v := range values {
		for _, o := range others {
			all = append(all, v+" "+o)
		}
	}
	return all
}

// compare tells where a snapshot differs from the model.
func (m *model) compare(s *ovn.Snapshot, x *joinedReading) string {
	want := m.here()
	slices.Sort(want)
	if got := guests(s); got != strings.Join(want, " ") {
		return fmt.Sprintf("guests %q, want %q", got, want)
	}
	var wrong []string
	for _, p := range m.ports {
		guest := s.PortByName(p.name)
		if guest == nil || guest.SwitchName != p.on || guest.Parent != p.parent || !x.alone && s.Guest(guest.DatapathKey, guest.Key) != guest {
			wrong = append(wrong, fmt.Sprintf("guest %s is %+v, want %+v", p.name, guest, *p))
			continue
		}
		for _, wide := range []bool{false, true} {
			scope := s.SwitchScope(guest.Network)
			if wide {
				scope = s.RouterScope(guest.Network)
			}
			for _, name := range m.questions {
				want := []string{"none"}
				for _, on := range m.scope(p.on, wide) {
					found := m.answers(on, name, x.northbound)
					if found[0] != "none" {
						want = found
					}
					if found[0] != "none" && found[0] != "empty" {
						break
					}
				}
				got := ovn.ShowLookup(scope, name, "fallback.test.")
				if !slices.ContainsFunc(want, func(w string) bool { return sameWords(got, w) }) {
					wrong = append(wrong, fmt.Sprintf("%s on %s, router scope %v, asks for %s: got %q, want %q", p.name, p.on, wide, name, got, want))
				}
			}
		}
	}
	return strings.Join(wrong[:min(8, len(wrong))], "\n")
}

// sameWords compares without regard to order and repetition.
func sameWords(a, b string) bool {
	words := func(s string) []string { return slices.Compact(slices.Sorted(strings.FieldsSeq(s))) }
	return slices.Equal(words(a), words(b))
}
