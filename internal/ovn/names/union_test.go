// SPDX-License-Identifier: Apache-2.0

package names

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inTurn is what Scope means: the asker's own network, then the others in the order of their
// IDs. It has no index.
type inTurn struct {
	own    *Directory
	others []*Directory
}

func (x inTurn) lookup(name, domain string) (Answer, bool) {
	a, ok := x.own.Lookup(name, domain)
	for i := 0; !ok && i < len(x.others); i++ {
		if x.others[i] != x.own {
			a, ok = x.others[i].Lookup(name, domain)
		}
	}
	return a, ok
}

func (x inTurn) empty(name, domain string) bool {
	return x.own.Empty(name, domain) || slices.ContainsFunc(x.others, func(d *Directory) bool { return d.Empty(name, domain) })
}

func (x inTurn) hasMachine(a netip.Addr) bool {
	return x.own.HasMachine(a) || slices.ContainsFunc(x.others, func(d *Directory) bool { return d.HasMachine(a) })
}

// choices are those of a random test: each byte is one.
type choices struct{ left []byte }

func (c *choices) below(n int) int {
	if len(c.left) == 0 {
		return 0
	}
	b := c.left[0]
	c.left = c.left[1:]
	return int(b) % n
}

func pick[E any](c *choices, of ...E) E { return of[c.below(len(of))] }

func (c *choices) name() string {
	labels := make([]string, 1+c.below(4))
	for i := range labels {
		labels[i] = pick(c, "a", "b", "w", "*")
	}
	return strings.Join(labels, ".")
}

func (c *choices) address() string {
	return pick(c, "10.0.0.1", "10.0.0.2", "10.0.7.1", "10.9.0.1", "192.0.2.1", "fd00::1", "fd00::a1", "fd00:0:0:7::1", "2001:db8::1", "::ffff:10.0.0.1")
}

// record is a line for records.
func (c *choices) record() string {
	switch c.below(8) {
	case 0:
		return pick(c, "1.0.0.10", "2.0.0.10", "*.0.0.10", "9.10", "*") + ".in-addr.arpa " + pick(c, "a.b", "w.a", "a..b")
	case 1:
		return pick(c, "A", "B.a", "a..b", "a.") + " " + c.address()
	case 2:
		return c.name() + " x"
	case 3:
		return c.name() + pick(c, ".d", ".corp.d") + " " + c.address()
	case 4:
		return c.name() + " " + c.address() + "," + c.address()
	}
	return c.name() + " " + c.address()
}

// joinedModel is networks that change.
type joinedModel struct {
	c     *choices
	rows  []*Table
	rrs   []*RRTable // of the same rows, nil for one that has none
	nets  map[[16]byte]*joinedNetwork
	dirty map[[16]byte]bool
}

// joinedNetwork is one of them: which rows it has, its ports, and the addresses of machines.
type joinedNetwork struct {
	rows      [6]bool
	ports     []port
	machines  map[netip.Addr]struct{}
	hosts     *Hostnames
	directory *Directory
}

func (m *joinedModel) step() {
	c := m.c
	row := c.below(len(m.rows))
	id := [16]byte{15: byte(c.below(9) * 37), 3: 1}
	n := m.nets[id]
	if n == nil {
		if c.below(3) > 0 {
			n = &joinedNetwork{hosts: hosts()}
			for i := range 1 + c.below(len(n.rows)) {
				n.rows[(row+i)%len(n.rows)] = true
			}
			m.nets[id], m.dirty[id] = n, true
		}
		return
	}
	switch c.below(13) {
	case 10, 11:
		m.changeRRs(row, m.rrs[row].Update(pairs(true, c.rrKey(), c.rrValue()), ignore))
	case 12:
		next := m.rrs[row].Update(pairs(false, c.rrKey(), c.rrValue(), c.rrKey()+"."+pick(c, "a", "b"), c.rrValue()), ignore)
		m.changeRRs(row, next.WithOwned(c.below(3) == 0))
	case 0, 1, 2, 3:
		lines := []string{c.record()}
		m.change(row, func(t *Table) *Table { return t.Update(records(true, lines...), ignore) })
	case 4:
		m.change(row, func(t *Table) *Table { return t.WithOwned(!t.owned) })
	case 5:
		lines := []string{c.record(), c.record(), c.record()}
		m.change(row, func(t *Table) *Table {
			have := make(map[string]string)
			for _, l := range lines {
				k, v, _ := strings.Cut(l, " ")
				have[k] = v
			}
			var whole []string
			for k, v := range have {
				whole = append(whole, k+" "+v)
			}
			return t.Update(records(false, whole...), ignore)
		})
	case 6:
		n.rows[row] = !n.rows[row]
		m.dirty[id] = true
	case 7, 8:
		if len(n.ports) > 0 && c.below(2) == 0 {
			i := c.below(len(n.ports))
			n.ports = slices.Delete(n.ports, i, i+1)
		} else {
			hostname := c.name() + "."
			domain := pick(c, "", "", "d.", "corp.d.")
			if c.below(3) == 0 {
				hostname += pick(c, "d.", "corp.d.")
			}
			n.ports = append(n.ports, port{strings.ReplaceAll(hostname, "*", "h"), domain, c.address()})
		}
		n.machines = nil
		if c.below(2) == 0 {
			n.machines = map[netip.Addr]struct{}{netip.MustParseAddr(c.address()): {}}
		}
		n.hosts = hostsWith(n.machines, n.ports...)
		m.dirty[id] = true
	case 9:
		delete(m.nets, id)
		m.dirty[id] = true
	}
}

func hostsWith(machines map[netip.Addr]struct{}, ports ...port) *Hostnames {
	h := *hosts(ports...)
	h.machines = machines
	return &h
}

// change changes a row, and so all networks that have it.
func (m *joinedModel) change(row int, to func(*Table) *Table) {
	m.rows[row] = to(m.rows[row])
	for id, n := range m.nets {
		if n.rows[row] {
			m.dirty[id] = true
		}
	}
}

// rrKey and rrValue are for an RRTable.
func (c *choices) rrKey() string {
	return pick(c, "dns-cname", "dns-txt", "dns-mx") + "/" + pick(c, c.name(), c.name(), c.name()+".d", "1.0.0.10.in-addr.arpa", "A.b", "a..b")
}

func (c *choices) rrValue() string { return pick(c, "a.b", "1 a", "w") }

// changeRRs is change for an RRTable.
func (m *joinedModel) changeRRs(row int, to *RRTable) {
	m.rrs[row] = to
	m.change(row, func(t *Table) *Table { return t })
}

// build makes the directories of dirty networks, and joins them to others.
func (m *joinedModel) build(e *UnionEditor) *Union {
	for id := range m.dirty {
		n := m.nets[id]
		if n == nil {
			e.Remove(id)
			continue
		}
		var tables []*Table
		var rrs []*RRTable
		for i, has := range n.rows {
			if has {
				tables = append(tables, m.rows[i])
				if m.rrs[i] != nil {
					rrs = append(rrs, m.rrs[i])
				}
			}
		}
		had := n.directory
		if had == nil {
			had = new(Directory)
		}
		d := had.With(tables, rrs, n.hosts)
		n.directory = &d
		e.Set(id, n.directory)
	}
	clear(m.dirty)
	return e.Done()
}

// joinedNames are what is asked for, with names above and below what there may be.
var joinedNames = func() (all []string) {
	labels := []string{"a", "b", "w", "*", "q"}
	level := []string{""}
	for range 3 {
		var next []string
		for _, rest := range level {
			for _, l := range labels {
				next = append(next, l+"."+rest)
			}
		}
		all, level = append(all, next...), next
	}
	for _, n := range slices.Clone(all[:30]) {
		all = append(all, n+"d.", n+"corp.d.", "h."+n, n+"in-addr.arpa.")
	}
	return append(all, "d.", "corp.d.", "e.", "arpa.", "in-addr.arpa.", "10.in-addr.arpa.", "0.10.in-addr.arpa.", "0.0.10.in-addr.arpa.",
		"1.0.0.10.in-addr.arpa.", "2.0.0.10.in-addr.arpa.", "9.0.0.10.in-addr.arpa.", "1.7.0.10.in-addr.arpa.", "9.10.in-addr.arpa.", "1.0.9.10.in-addr.arpa.", "8.10.in-addr.arpa.", "11.in-addr.arpa.",
		"ip6.arpa.", "d.f.ip6.arpa.", "0.0.d.f.ip6.arpa.", "1.0.d.f.ip6.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "0.ip6.arpa.",
		"1"+strings.Repeat(".0", 27)+".0.0.d.f.ip6.arpa.", "1.a"+strings.Repeat(".0", 26)+".0.0.d.f.ip6.arpa.", "2"+strings.Repeat(".0", 27)+".0.0.d.f.ip6.arpa.",
		"a"+strings.Repeat(".0", 26)+".0.0.d.f.ip6.arpa.", "b"+strings.Repeat(".0", 26)+".0.0.d.f.ip6.arpa.")
}()

// pictureOf is all that a Union has.
func (j *Union) pictureOf(t testing.TB) string {
	var lines []string
	for id, d := range j.All() {
		lines = append(lines, fmt.Sprintf("%x %p", id, d))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d networks\n%s", j.Len(), strings.Join(append(lines, indexLines(t, &j.index)...), "\n"))
}

// answersOf is what networks that are joined say to all questions.
func answersOf(j *Union) string {
	var out strings.Builder
	none := NewDirectory(nil, hosts())
	for _, name := range joinedNames {
		out.WriteString(ask(NewScope(&none, j), name, "d.") + "\n")
	}
	return out.String()
}

// runJoined changes networks and compares, after each build, all that is found by the index with
// all that is found without, and the index with one that is made anew.
func runJoined(t *testing.T, program []byte) {
	m := &joinedModel{c: &choices{program}, nets: make(map[[16]byte]*joinedNetwork), dirty: make(map[[16]byte]bool)}
	for i := range 6 {
		m.rows, m.rrs = append(m.rows, NewTable([16]byte{byte(i)})), append(m.rrs, nil)
	}
	j := new(Union)
	old, oldAnswers := j, answersOf(j)
	for builds := 0; len(m.c.left) > 0; builds++ {
		for range 1 + m.c.below(6) {
			m.step()
		}
		base := j
		if m.c.below(8) == 0 { // of an older one, as when networks part and meet again
			base = old
			for id := range base.All() {
				m.dirty[id] = true
			}
			for id := range m.nets {
				m.dirty[id] = true
			}
		}
		j = m.build(base.Edit())
		if builds%16 == 0 {
			if answersOf(old) != oldAnswers {
				t.Fatal("what was joined before has changed")
			}
			old, oldAnswers = j, answersOf(j)
		}
		m.compare(t, j)
	}
}

func (m *joinedModel) compare(t *testing.T, j *Union) {
	t.Helper()
	ids := slices.SortedFunc(maps.Keys(m.nets), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	var all, queried []*Directory
	fresh := new(Union).Edit()
	for _, id := range ids {
		d := m.nets[id].directory
		all, queried = append(all, d), append(queried, linear(d))
		fresh.Set(id, d)
	}
	if d := cmp.Diff(strings.Split(fresh.Done().pictureOf(t), "\n"), strings.Split(j.pictureOf(t), "\n")); d != "" {
		t.Fatalf("-made anew +edited:\n%s", d)
	}
	empty := NewDirectory(nil, hosts())
	owns := []*Directory{&empty}
	if len(all) > 0 {
		own := all[m.c.below(len(all))]
		stale := *own // one that is kept, see package ovn
		owns = append(owns, own, &stale)
	}
	for _, own := range owns {
		got, want := NewScope(own, j), inTurn{linear(own), queried}
		for _, domain := range []string{"", "d.", "corp.d."} {
			for _, name := range joinedNames {
				a, ok := got.Lookup(name, domain)
				b, wantOK := want.lookup(name, domain)
				if ok != wantOK || !reflect.DeepEqual(a, b) {
					t.Fatalf("%s, domain %q: %+v %v, want %+v %v", name, domain, a, ok, b, wantOK)
				}
				if e := got.Empty(name, domain); e != want.empty(name, domain) {
					t.Fatalf("%s, domain %q: empty %v", name, domain, e)
				}
			}
		}
		for _, a := range []string{"10.0.0.1", "10.0.7.1", "fd00::1", "::ffff:10.0.0.1", "192.0.2.9"} {
			if a := netip.MustParseAddr(a); got.HasMachine(a) != want.hasMachine(a) {
				t.Fatalf("machine %s: %v", a, got.HasMachine(a))
			}
		}
	}
}

// TestJoined: networks that are joined answer as they would one after the other.
func TestJoined(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		program := make([]byte, 1500)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { runJoined(t, program) })
	}
}

// FuzzJoined is TestJoined for changes that the fuzzer chooses.
func FuzzJoined(f *testing.F) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 0))
		program := make([]byte, 400)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runJoined(t, program[:min(len(program), 600)]) })
}
