// SPDX-License-Identifier: Apache-2.0

package names

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// records makes a row's column of lines of the form "KEY VALUE".
func records(diff bool, lines ...string) Records {
	return Records{Count: len(lines), Diff: diff, Pairs: func(yield func(k, v []byte) bool) {
		for _, line := range lines {
			k, v, _ := strings.Cut(line, " ")
			if !yield([]byte(k), []byte(v)) {
				return
			}
		}
	}}
}

var ignore = Reports{Begin: func(string) {}, Bad: func(string, string, error) {}}

// row compiles records.
func row(lines ...string) *Table { return new(Table).Update(records(false, lines...), ignore) }

// port is a port for hosts: its hostname, domain and addresses.
type port struct{ hostname, domain, addresses string }

func hosts(ports ...port) *Hostnames {
	b := NewHostnamesBuilder()
	for _, p := range ports {
		var all []netip.Addr
		for _, a := range strings.Fields(p.addresses) {
			all = append(all, netip.MustParseAddr(a))
		}
		b.Add(p.hostname, p.domain, SortAddresses(all))
	}
	return b.Done()
}

// ask is what a scope says of a name: an answer, "empty" or "none".
func ask(s Scope, name, domain string) string {
	a, ok := s.Lookup(name, domain)
	switch {
	case ok && a.OVNOwned:
		return "!" + show(a)
	case ok:
		return show(a)
	case s.Empty(name, domain):
		return "empty"
	}
	return "none"
}

func TestDirectory(t *testing.T) {
	d := NewDirectory(
		[]*Table{
			row("vm1 10.0.0.1", "VM2 10.0.0.2", "both 10.0.0.3", "bad x", "*.w 10.0.0.4", "9.0.0.10.in-addr.arpa other.test"),
			row("both 10.0.0.5", "own 10.0.0.6", "void x").WithOwned(true),
		},
		hosts(port{"vm1.", "", "10.1.0.1"}, port{"web.", "red.test.", "10.1.0.2 fd00::2"}, port{"web.", "", "10.1.0.3"}, port{"a.b.", "", "10.1.0.4"}))
	for _, tt := range []struct{ name, domain, want string }{
		{"vm1.", "", "10.0.0.1"}, // of a row before that of a port
		{"vm2.", "", "10.0.0.2"},
		{"both.", "", "10.0.0.3"}, // of the first row
		{"bad.", "", "none"},
		{"own.", "", "!10.0.0.6"},
		{"void.", "", "!"}, // without data, and nobody else's
		{"web.", "", "10.1.0.2 10.1.0.3 fd00::2"},
		{"web.red.test.", "", "10.1.0.2 fd00::2"},
		{"web.corp.test.", "corp.test.", "10.1.0.3"}, // of the port without a domain only
		{"web.corp.test.", "", "none"},
		{"a.b.", "", "10.1.0.4"},
		{"b.", "", "empty"},
		{"b.corp.test.", "corp.test.", "empty"},
		{"corp.test.", "corp.test.", "empty"},
		{"test.", "", "empty"},
		{"x.w.", "", "10.0.0.4"},
		{"x.y.w.", "", "10.0.0.4"},
		{"w.", "", "empty"},
		{"1.0.0.10.in-addr.arpa.", "", "vm1."},
		{"5.0.0.10.in-addr.arpa.", "", "none"}, // overridden by the first row
		{"6.0.0.10.in-addr.arpa.", "", "!own."},
		{"4.0.0.10.in-addr.arpa.", "", "none"}, // a wildcard's
		{"9.0.0.10.in-addr.arpa.", "", "other.test."},
		{"1.0.1.10.in-addr.arpa.", "", "none"}, // that vm1 is the row's
		{"2.0.1.10.in-addr.arpa.", "", "web.red.test."},
		{"3.0.1.10.in-addr.arpa.", "corp.test.", "web.corp.test."},
		{"3.0.1.10.in-addr.arpa.", "", "web."},
		{"0.1.10.in-addr.arpa.", "", "empty"},
		{"arpa.", "", "empty"},
		{"2.10.in-addr.arpa.", "", "none"},
		{"ip6.arpa.", "", "empty"},
	} {
		if got := ask(NewScope(&d, nil), tt.name, tt.domain); got != tt.want {
			t.Errorf("%s, domain %q: got %q, want %q", tt.name, tt.domain, got, tt.want)
		}
	}
}

// A scope asks the asker's own network first, then the others in their order, with an index or
// without.
func TestScope(t *testing.T) {
	for _, others := range []int{0, minIndexed} {
		t.Run(fmt.Sprintf("%d others", others), func(t *testing.T) { testScope(t, others) })
	}
}

// testScope tests it with networks without names beside.
func testScope(t *testing.T, others int) {
	var all []*Directory
	e := new(Union).Edit()
	for i := range others {
		d := NewDirectory(nil, hosts())
		e.Set([16]byte{byte(100 + i)}, &d)
	}
	for _, r := range []*Table{
		row("all 10.0.0.1", "late 10.0.0.1", "*.w 10.0.0.1"),
		row("all 10.0.0.2", "two 10.0.0.2", "deep.ent 10.0.0.2"),
		row("all fd00::3", "two 10.0.0.3", "late 10.0.0.3", "x.w 10.0.0.3"),
	} {
		d := NewDirectory([]*Table{r}, hosts())
		all = append(all, &d)
		e.Set([16]byte{byte(len(all))}, &d)
	}
	joined := e.Done()
	if joined.Len() != len(all)+others || joined.Get([16]byte{2}) != all[1] || joined.Get([16]byte{9}) != nil {
		t.Errorf("%d networks are joined", joined.Len())
	}
	for _, tt := range []struct {
		own        int
		name, want string
	}{
		{0, "all.", "10.0.0.1"},
		{2, "all.", "fd00::3"},
		{0, "two.", "10.0.0.2"},
		{2, "two.", "10.0.0.3"},
		{1, "late.", "10.0.0.1"},
		{2, "x.w.", "10.0.0.3"},
		{1, "x.w.", "10.0.0.1"},
		{0, "ent.", "empty"},
		{0, "none.", "none"},
	} {
		if got := ask(NewScope(all[tt.own], joined), tt.name, ""); got != tt.want {
			t.Errorf("%d %s: got %q, want %q", tt.own, tt.name, got, tt.want)
		}
	}
	if got := ask(NewScope(all[0], nil), "two.", ""); got != "none" {
		t.Errorf("a network by itself: got %q", got)
	}
}

// FuzzUpdate: a table that was made by differences is that which is made of all records
// at once, and the tables before are as they were.
func FuzzUpdate(f *testing.F) {
	f.Add("vm1 10.0.0.1\nVM1 10.0.0.2\n*.x 10.0.0.3\nvm1 10.0.0.1")
	f.Add("a.b.*.c 10.0.0.1\n*.c x\nA.b.*.c ::1\n*.c x\n*.C 10.0.0.1 10.0.0.2")
	f.Add("1.0.0.10.in-addr.arpa a.test\n1.0.0.10.IN-addr.arpa b..c\n..\n.. 1\n.. 1")
	f.Fuzz(func(t *testing.T, text string) {
		table, have, told, toldAtOnce := &Table{}, map[string]string{}, standing{}, standing{}
		for _, line := range strings.Split(text, "\n") {
			k, v, _ := strings.Cut(line, " ")
			before, structure := table, pictureOf(table)
			table = table.Update(records(true, line), told.reports())
			if pictureOf(before) != structure {
				t.Fatalf("%q has altered the table before", line)
			}
			if old, ok := have[k]; ok && old == v {
				delete(have, k)
			} else {
				have[k] = v
			}
		}
		var lines []string
		for _, k := range slices.Sorted(maps.Keys(have)) {
			lines = append(lines, k+" "+have[k])
		}
		whole := records(false, lines...)
		if !table.Has(whole) || table.Len() != len(have) {
			t.Fatalf("the table has not %q", lines)
		}
		fresh := new(Table).Update(whole, toldAtOnce.reports())
		if !reflect.DeepEqual(told, toldAtOnce) {
			t.Fatalf("by differences it can't read %q, at once %q", told, toldAtOnce)
		}
		if got, want := pictureOf(table), pictureOf(fresh); got != want {
			t.Fatalf("by differences\n%s\nat once\n%s", got, want)
		}
		checkTree(t, &table.records.tree)
		checkTree(t, &table.unused)
	})
}

// pictureOf is all that a table has.
func pictureOf(t *Table) string {
	var b strings.Builder
	write := func(what, name string, all ...entry) {
		for _, e := range all {
			fmt.Fprintf(&b, "%s %q of %q: %x %v %q\n", what, name, e.alias(), e.hash, e.addresses(), e.targets())
		}
	}
	for name, e := range t.records.all() {
		write("record", name, *e)
	}
	for i := range t.records.pointers {
		fmt.Fprintf(&b, "pointer %v\n", t.records.pair(i))
	}
	for name, all := range t.unused.all() {
		write("unused", name, *all...)
	}
	fmt.Fprintln(&b, t.invalid, t.records.slots, t.records.wildcards, t.unused.slots)
	return b.String()
}

// checkTree compares what a tree finds with its items.
func checkTree[V any](t *testing.T, tree *tree[V]) {
	exists, wildcards := map[string]bool{}, map[string]bool{}
	for i := range tree.items {
		name := tree.items[i].name[0]
		if tree.find(name) != &tree.items[i].has {
			t.Fatalf("%q is not found", name)
		}
		if i > 0 && compareNames(tree.items[i-1].name[0], name) >= 0 {
			t.Fatalf("%q is behind %q", name, tree.items[i-1].name[0])
		}
		for a := name; a != "."; a = parent(a) {
			exists[a] = true
			wildcards[a] = isWildcard(a)
		}
	}
	for a := range exists {
		if !tree.exists(a) || tree.exists("0"+a) != exists["0"+a] {
			t.Fatalf("%q exists: %v", a, tree.exists(a))
		}
		above := false
		for w := range wildcards {
			above = above || wildcards[w] && w != a && Under(w, a)
		}
		if tree.isAboveWildcard(a) != above {
			t.Fatalf("%q is above a wildcard: %v", a, !above)
		}
		want := ""
		if exists["*."+a] {
			want = "*." + a
		}
		if got := tree.wildcard(a); got != want {
			t.Fatalf("the wildcard below %q is %q, want %q", a, got, want)
		}
	}
}

func TestShardedMap(t *testing.T) {
	var empty ShardedMap[int, string]
	if _, ok := empty.Get(1); ok {
		t.Error("the zero map is not empty")
	}
	e := empty.Edit()
	for i := range 1000 {
		e.Set(i, fmt.Sprint(i))
	}
	a := e.Done()
	e = a.Edit()
	e.Remove(7)
	e.Remove(5000)
	e.Set(8, "other")
	if v, _ := e.Get(8); v != "other" {
		t.Errorf("the editor has %q", v)
	}
	b := e.Done()
	if v, ok := a.Get(7); !ok || v != "7" {
		t.Error("an edit has altered the map before")
	}
	if v, _ := a.Get(8); v != "8" {
		t.Error("an edit has altered the map before")
	}
	if _, ok := b.Get(7); ok || len(maps.Collect(b.All())) != 999 {
		t.Error("a key was not removed")
	}
}
