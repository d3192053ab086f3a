// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// record returns a record of the zone rpz. in the form of a line of a master file.
func record(t testing.TB, line string) dns.RR {
	t.Helper()
	p := dns.NewZoneParser(strings.NewReader("$TTL 60\n"+line+"\n"), "rpz.", "")
	rr, ok := p.Next()
	if !ok {
		t.Fatalf("%s: %v", line, p.Err())
	}
	return rr
}

// edit returns r without some records and with others.
func edit(t testing.TB, r *rules.Rules, limits rules.Limits, deleted, added []string) (*rules.Rules, error) {
	t.Helper()
	b, err := r.Edit("rpz.", limits)
	if err != nil {
		return nil, err
	}
	for _, line := range deleted {
		if err := b.Delete(record(t, line)); err != nil {
			return nil, err
		}
	}
	for _, line := range added {
		if err := b.Add(record(t, line)); err != nil {
			return nil, err
		}
	}
	return b.Rules()
}

// describe returns what rules do with some names and addresses.
func describe(t testing.TB, r *rules.Rules, names []string, addresses []string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d names, %d addresses, %d bad, skipped", r.Stats.Names, r.Stats.Addresses, r.Stats.Bad)
	for _, trigger := range []rules.Trigger{rules.ClientIP, rules.NSIP, rules.NSDName} {
		fmt.Fprintf(&b, " %d", r.Stats.Skipped[trigger])
	}
	fmt.Fprintf(&b, ", A %t, AAAA %t\n", r.HasAddresses(dns.TypeA), r.HasAddresses(dns.TypeAAAA))
	sorted := func(s string) string { // the order of local records is that of their addition
		words := strings.Fields(s)
		slices.Sort(words)
		return strings.Join(words, " ")
	}
	for _, s := range names {
		fmt.Fprintf(&b, "%s: %s\n", s, sorted(name(t, r, s)))
	}
	for _, s := range addresses {
		p, prefix := r.Address([]netip.Addr{netip.MustParseAddr(s)})
		fmt.Fprintf(&b, "%s: %s %s\n", s, prefix, sorted(policy(r, p, "a.")))
	}
	return b.String()
}

// zoneLines returns records that meet: names above, below and beside each other, wildcards, sets that
// rules share, addresses, and records that are no rules. No two have the same owner and type CNAME.
func zoneLines() []string {
	owners := []string{"*"}
	for _, l1 := range []string{"a", "b", "*"} {
		for _, l2 := range []string{"a", "b", "c"} {
			for i := range 6 {
				owners = append(owners, fmt.Sprintf("%s.%s.d%d", l1, l2, i), fmt.Sprintf("%s.d%d", l1, i))
			}
		}
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	var all []string
	for i, o := range owners {
		switch i % 4 {
		case 0:
			all = append(all, o+" CNAME .")
		case 1:
			all = append(all, o+" CNAME garden.")
		case 2:
			all = append(all, o+" A 192.0.2.1", o+" A 192.0.2.2", o+" TXT \""+strings.Repeat("x", 200)+"\"")
		case 3:
			all = append(all, o+" TXT \""+o+strings.Repeat("y", 200)+"\"")
		}
	}
	for i := range 8 {
		all = append(all, fmt.Sprintf("32.%d.2.0.192.rpz-ip CNAME .", i), fmt.Sprintf("24.0.%d.0.10.rpz-ip A 192.0.2.9", i),
			fmt.Sprintf("128.%x.zz.db8.2001.rpz-ip CNAME *.", i+1), fmt.Sprintf("32.%d.2.0.192.rpz-client-ip CNAME .", i),
			fmt.Sprintf("bad%d NS ns.", i), fmt.Sprintf("33.%d.2.0.192.rpz-ip CNAME .", i), fmt.Sprintf("@ NS ns%d.", i))
	}
	return all
}

// After many edits the Rules equal the rules of the whole zone, and the Rules before an edit stay as they
// are.
func TestEdits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	all := zoneLines()
	names := []string{"x.", "d0.", "d1."}
	for _, l := range []string{"", "a.", "b.", "x."} {
		for _, l2 := range []string{"a.", "b.", "c.", "x."} {
			for i := range 6 {
				names = append(names, fmt.Sprintf("%s%sd%d.", l, l2, i))
			}
		}
	}
	var addresses []string
	for i := range 8 {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("10.0.%d.1", i), fmt.Sprintf("2001:db8::%x", i+1))
	}
	in := map[string]bool{}
	r := read(t, "")
	largest := 0
	for step := range 3000 {
		var deleted, added []string
		// From none to all, and back, so that whole branches come and go.
		most := 1 + step%200
		for range 1 + rng.IntN(12) {
			line := all[rng.IntN(len(all))]
			switch {
			case slices.Contains(added, line) || slices.Contains(deleted, line):
			case in[line] && (rng.IntN(2) == 0 || step%200 > 100):
				deleted = append(deleted, line)
			case !in[line] && rng.IntN(200) < most:
				added = append(added, line)
			}
		}
		if rng.IntN(100) == 0 {
			deleted, added = slices.Collect(maps.Keys(in)), nil
		}
		before := ""
		if step%10 == 0 {
			before = describe(t, r, names, addresses)
		}
		next, err := edit(t, r, rules.Limits{}, deleted, added)
		if err != nil {
			t.Fatalf("step %d, without %q, with %q: %v", step, deleted, added, err)
		}
		for _, line := range deleted {
			delete(in, line)
		}
		for _, line := range added {
			in[line] = true
		}
		largest = max(largest, next.Size())
		if step%10 == 0 {
			if got := describe(t, r, names, addresses); got != before {
				t.Fatalf("step %d changes the rules before it:\n%s\nwant\n%s", step, got, before)
			}
			whole := read(t, strings.Join(slices.Sorted(maps.Keys(in)), "\n")+"\n")
			if got, want := describe(t, next, names, addresses), describe(t, whole, names, addresses); got != want {
				t.Fatalf("step %d:\n%s\nwant\n%s", step, got, want)
			}
		}
		r = next
	}
	whole := read(t, strings.Join(all, "\n")+"\n")
	if most := 3*whole.Size() + 128<<10; largest > most {
		t.Errorf("the rules take %d bytes, want at most %d: a whole zone takes %d", largest, most, whole.Size())
	}
}

// Two edits of the same Rules know nothing of each other.
func TestEditsBesideEachOther(t *testing.T) {
	t.Parallel()
	next := func(r *rules.Rules, name string) *rules.Rules {
		t.Helper()
		r, err := edit(t, r, rules.Limits{}, nil, []string{name + " TXT " + name})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read(t, "bad.example CNAME .\nlocal.example TXT x\n")
	for i := range 8 { // with and without room behind its names and records
		a, b := next(r, "aaaa.example"), next(r, "bbbb.example")
		if got := name(t, a, "aaaa.example."); !strings.Contains(got, `"aaaa.example"`) || name(t, a, "bbbb.example.") != "-" {
			t.Errorf("%d: %s", i, got)
		}
		if got := name(t, b, "bbbb.example."); !strings.Contains(got, `"bbbb.example"`) || name(t, b, "aaaa.example.") != "-" {
			t.Errorf("%d: %s", i, got)
		}
		r = next(r, fmt.Sprintf("c%03d.example", i))
	}
}

// An edit that does not fit is an error, and leaves the rules alone.
func TestWrongEdits(t *testing.T) {
	t.Parallel()
	zone := []string{
		"bad.example CNAME .", "*.bad.example CNAME *.", "local.example A 192.0.2.1", "local.example TXT x", "alias.example CNAME garden.",
		"32.1.2.0.192.rpz-ip CNAME .", "32.2.2.0.192.rpz-ip A 192.0.2.1", "128.1.zz.rpz-ip CNAME .", "x.rpz-nsip CNAME .", "sub NS ns.", "* CNAME .",
	}
	for _, tt := range []struct {
		name           string
		deleted, added []string
		want           string
	}{
		{"a name that is not there", []string{"none.example CNAME ."}, nil, "is not there"},
		{"a name above a rule", []string{"example CNAME ."}, nil, "is not there"},
		{"a wildcard that is not there", []string{"*.example CNAME ."}, nil, "is not there"},
		{"the wildcard, not the name", []string{"*.bad.example CNAME ."}, nil, "is not there"},
		{"another action", []string{"bad.example CNAME *."}, nil, "is not there"},
		{"local data in the place of an action", []string{"bad.example A 192.0.2.1"}, nil, "is not there"},
		{"an action in the place of local data", []string{"local.example CNAME ."}, nil, "is not there"},
		{"other local data", []string{"local.example A 192.0.2.2"}, nil, "is not there"},
		{"another target", []string{"alias.example CNAME garden.example."}, nil, "is not there"},
		{"twice", []string{"bad.example CNAME .", "bad.example CNAME ."}, nil, "is not there"},
		{"local data twice", []string{"local.example TXT x", "local.example TXT x"}, nil, "is not there"},
		{"another rule at the top", []string{"* CNAME *."}, nil, "is not there"},
		{"an address that is not there", []string{"32.3.2.0.192.rpz-ip CNAME ."}, nil, "is not there"},
		{"another length", []string{"31.0.2.0.192.rpz-ip CNAME ."}, nil, "is not there"},
		{"another action of an address", []string{"32.1.2.0.192.rpz-ip CNAME *."}, nil, "is not there"},
		{"other local data of an address", []string{"32.2.2.0.192.rpz-ip A 192.0.2.2"}, nil, "is not there"},
		{"a trigger that is not there", []string{"x.rpz-nsdname CNAME ."}, nil, "more records"},
		{"more of a trigger than there are", []string{"x.rpz-nsip CNAME .", "y.rpz-nsip CNAME ."}, nil, "more records"},
		{"more bad records than there are", []string{"sub NS ns.", "other NS ns."}, nil, "more records"},
		{"a bad record and one in its place", []string{"sub NS ns.", "other NS ns."}, []string{"more NS ns."}, "more records"},
		{"a name that is there", nil, []string{"bad.example CNAME ."}, "is there"},
		{"another action for a name that is there", nil, []string{"bad.example CNAME *."}, "a CNAME record and another"},
		{"local data that is there", nil, []string{"local.example A 192.0.2.1"}, "is there"},
		{"local data that is there with another TTL", nil, []string{"local.example 30 TXT x"}, "is there"},
		{"a CNAME beside local data", nil, []string{"local.example CNAME garden."}, "a CNAME record and another"},
		{"local data beside a CNAME", nil, []string{"alias.example A 192.0.2.1"}, "a CNAME record and another"},
		{"an address that is there", nil, []string{"32.1.2.0.192.rpz-ip CNAME ."}, "is there"},
		{"a rule at the top that is there", nil, []string{"* CNAME ."}, "is there"},
		{"twice the same", nil, []string{"new.example A 192.0.2.1", "new.example A 192.0.2.1"}, "is there"},
		{"another form of an address that is there", nil, []string{"128.1.0.0.0.0.0.0.0.rpz-ip CNAME ."}, "is there"},
		{"another form of an address to delete", []string{"128.1.0.0.0.0.0.0.0.rpz-ip CNAME ."}, nil, "another form"},
		{"another form of an address", nil, []string{"128.2.0.0.0.0.0.0.0.rpz-ip CNAME ."}, "another form"},
		{"too many records", nil, []string{"a.new CNAME .", "b.new CNAME .", "c.new CNAME ."}, "more than 15 records"},
		{"right", []string{"bad.example CNAME .", "local.example A 192.0.2.1", "32.1.2.0.192.rpz-ip CNAME .", "x.rpz-nsip CNAME .", "sub NS ns."},
			[]string{"bad.example A 192.0.2.1", "local.example A 192.0.2.2", "32.1.2.0.192.rpz-ip CNAME *."}, ""},
		{"right, with another TTL", []string{"local.example 30 A 192.0.2.1"}, []string{"local.example 30 A 192.0.2.1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := read(t, strings.Join(zone, "\n")+"\n")
			names, addresses := []string{"bad.example.", "x.bad.example.", "local.example.", "alias.example.", "x."}, []string{"192.0.2.1", "192.0.2.2", "::1"}
			before := describe(t, r, names, addresses)
			next, err := edit(t, r, rules.Limits{Records: 15}, tt.deleted, tt.added)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || (next == nil) != (err != nil) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if got := describe(t, r, names, addresses); got != before {
				t.Errorf("the rules have changed:\n%s\nwant\n%s", got, before)
			}
		})
	}
}

// A zone in which two owners may stand for one prefix can't be edited.
func TestCanEdit(t *testing.T) {
	for lines, want := range map[string]bool{
		"bad.example CNAME .\n128.1.zz.db8.2001.rpz-ip CNAME .\n32.1.2.0.192.rpz-ip CNAME .\n": true,
		"128.1.0.0.0.0.0.db8.2001.rpz-ip CNAME .\n":                                            false,
		"128.1.zz.0.db8.2001.rpz-ip CNAME .\n":                                                 false,
	} {
		r := read(t, lines)
		if _, err := r.Edit("rpz.", rules.Limits{}); r.CanEdit() != want || (err == nil) != want {
			t.Errorf("%q: %t, %v", lines, r.CanEdit(), err)
		}
	}
}

// An edit is over the limit of bytes before it takes much more memory.
func TestEditTooLarge(t *testing.T) {
	r := read(t, "bad.example CNAME .\n")
	b, err := r.Edit("rpz.", rules.Limits{Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; err == nil && n < 1<<20; n++ { // the zone itself stays small
		rr := record(t, fmt.Sprintf("bad-%d.example CNAME .", n))
		if err = b.Add(rr); err == nil {
			err = b.Delete(rr)
		}
	}
	if err == nil || !strings.Contains(err.Error(), rules.ErrTooLarge.Error()) {
		t.Errorf("%v after %d records", err, n)
	}
}

// BenchmarkEdit edits 100,000 rules, and makes them of all records for comparison.
func BenchmarkEdit(b *testing.B) {
	var all []dns.RR
	for i := range 50_000 {
		all = append(all, record(b, fmt.Sprintf("malicious-%07d.example CNAME .", i)), record(b, fmt.Sprintf("*.malicious-%07d.example CNAME .", i)))
	}
	r := rulesOf(b, slices.Values(all))
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rulesOf(b, slices.Values(all))
		}
	})
	for _, n := range []int{1, 100, 10_000} {
		deleted, added := make([]dns.RR, n), make([]dns.RR, n)
		for i := range n {
			deleted[i] = record(b, fmt.Sprintf("malicious-%07d.example CNAME .", i))
			added[i] = record(b, fmt.Sprintf("new-%07d.example CNAME .", i))
		}
		b.Run(fmt.Sprintf("%d deleted and added", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e, err := r.Edit("rpz.", rules.Limits{})
				for i := 0; i < n && err == nil; i++ {
					err = e.Delete(deleted[i])
				}
				for i := 0; i < n && err == nil; i++ {
					err = e.Add(added[i])
				}
				if err == nil {
					_, err = e.Rules()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
