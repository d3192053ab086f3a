// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// soaOf returns the SOA record of a version of rpz.
func soaOf(serial uint32) string {
	return fmt.Sprintf("rpz. 60 SOA ns.rpz. h.rpz. %d 1 1 86400 1", serial)
}

// rule returns a record of rpz.
func rule(name string) string { return name + ".rpz. 60 CNAME ." }

// rulesOf returns the rules of a zone of these records.
func rulesOf(t testing.TB, records ...string) *rules.Rules {
	t.Helper()
	b, err := rules.NewBuilder("rpz.", rules.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err == nil {
			err = b.Add(rr)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hasRule reports whether there is a rule for a name.
func hasRule(r *rules.Rules, name string) bool {
	var n rules.Name
	if !n.Set(name + ".") {
		return false
	}
	p, _, _ := r.Name(&n)
	return p != 0
}

// changed returns what a Source with the rules of before takes as their changes.
func changed(t *testing.T, c Config, before *rules.Rules, messages []byte) (*incremental, *rules.Rules, error) {
	t.Helper()
	s := newSource(c, &testkit.Lines{})
	x := &incremental{source: s, before: before}
	m := new(dns.Msg).SetIxfr("rpz.", before.SOA.Serial, before.SOA.Ns, before.SOA.Mbox)
	r, err := s.receive(answered(t, messages), m, x)
	return x, r, err
}

// A delta is applied if it leads from the present version to the primary's, and fits; else nothing
// changes.
func TestDelta(t *testing.T) {
	t.Parallel()
	one := func(records ...string) []byte { return message(t, records...) }
	for _, tt := range []struct {
		name    string
		answer  []byte
		want    string // the names that have rules; "" for an error
		problem string // the error
	}{
		{"up to date", one(soaOf(7)), "a b", ""},
		{"older", one(soaOf(6)), "a b", ""},
		{"older, with records", one(soaOf(6), rule("c"), soaOf(6)), "a b", ""},
		{"a delta", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(8)), "b c", ""},
		{"a record a message", slices.Concat(one(soaOf(8)), one(soaOf(7)), one(rule("a")), one(), one(soaOf(8)), one(rule("c")), one(soaOf(8))), "b c", ""},
		{"nothing but another serial number", one(soaOf(8), soaOf(7), soaOf(8), soaOf(8)), "a b", ""},
		{"a chain", one(soaOf(9), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(8), rule("c"), rule("b"), soaOf(9), rule("d"), rule("a"), soaOf(9)), "a d", ""},
		{"a chain that leaves versions out", one(soaOf(20), soaOf(7), rule("a"), soaOf(15), soaOf(15), soaOf(20), rule("d"), soaOf(20)), "b d", ""},
		{"a whole zone", slices.Concat(one(soaOf(8), rule("c")), one(rule("d")), one(soaOf(8))), "c d", ""},
		{"an empty zone", one(soaOf(8), soaOf(8)), "none", ""},
		{"an empty zone in two messages", slices.Concat(one(soaOf(8)), one(soaOf(8))), "none", ""},

		{"nothing", nil, "", "EOF"},
		{"no record", one(), "", dns.ErrSoa.Error()},
		{"no SOA record", one(rule("c"), soaOf(8)), "", dns.ErrSoa.Error()},
		{"another SOA record", one(strings.Replace(soaOf(8), "rpz.", "x.rpz.", 1), soaOf(7), soaOf(8), soaOf(8)), "", errBegin.Error()},
		{"the SOA record alone", one(soaOf(8)), "", "EOF"},
		{"a whole zone that is cut off", one(soaOf(8), rule("c")), "", "EOF"},
		{"a whole zone with a rule twice", one(soaOf(8), "c.rpz. CNAME .", "c.rpz. A 192.0.2.1", soaOf(8)), "", "a CNAME record and another"},
		{"a delta from another version", one(soaOf(8), soaOf(6), rule("a"), soaOf(8), soaOf(8)), "", errVersion.Error()},
		{"a delta from another form of this version", one(soaOf(8), strings.Replace(soaOf(7), "86400", "1", 1), rule("a"), soaOf(8), soaOf(8)), "", errVersion.Error()},
		{"deletes what is not there", one(soaOf(8), soaOf(7), rule("x"), soaOf(8), rule("c"), soaOf(8)), "", "is not there"},
		{"deletes another action", one(soaOf(8), soaOf(7), "a.rpz. CNAME *.", soaOf(8), rule("c"), soaOf(8)), "", "is not there"},
		{"adds what is there", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("b"), soaOf(8)), "", "is there"},
		{"adds what it has added", one(soaOf(8), soaOf(7), soaOf(8), rule("c"), rule("c"), soaOf(8)), "", "is there"},
		{"deletes in its second version what it has deleted", one(soaOf(9), soaOf(7), rule("a"), soaOf(8), soaOf(8), rule("a"), soaOf(9), soaOf(9)), "", "is not there"},
		{"a version that does not follow", one(soaOf(9), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(7), soaOf(9), soaOf(9)), "", errChain.Error()},
		{"a version that is left out", one(soaOf(20), soaOf(7), soaOf(8), soaOf(9), soaOf(20), soaOf(20)), "", errChain.Error()},
		{"a version before it", one(soaOf(9), soaOf(7), rule("a"), soaOf(6), soaOf(6), soaOf(9), soaOf(9)), "", errChain.Error()},
		{"a version behind the primary's", one(soaOf(9), soaOf(7), rule("a"), soaOf(10), soaOf(10), soaOf(9), soaOf(9)), "", errChain.Error()},
		{"the same version", one(soaOf(9), soaOf(7), rule("a"), soaOf(7), rule("a"), soaOf(9), soaOf(9)), "", errChain.Error()},
		{"cut off while it deletes", one(soaOf(8), soaOf(7), rule("a")), "", "EOF"},
		{"cut off while it adds", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c")), "", "EOF"},
		{"cut off behind a version", one(soaOf(9), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(8)), "", "EOF"},
		{"cut off in a message", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(8))[:60], "", "unpacking"},
		{"the last SOA record of another name", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c"), strings.Replace(soaOf(8), "rpz.", "x.rpz.", 1)), "", errDeltaCut.Error()},
		{"another last SOA record", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c"), strings.Replace(soaOf(8), "86400", "2", 1)), "", errChain.Error()},
		{"another form of the last version", one(soaOf(8), soaOf(7), rule("a"), strings.Replace(soaOf(8), "86400", "2", 1), rule("c"), strings.Replace(soaOf(8), "86400", "2", 1)), "", errDeltaCut.Error()},
		{"a record behind the last one", one(soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(8), rule("d")), "", errBehind.Error()},
		{"an error", func() []byte { b := one(); b[5] |= dns.RcodeNotImplemented; return b }(), "", "bad xfr rcode: 4"},
		{"too many records", one(append(append([]string{soaOf(8), soaOf(7), soaOf(8)}, slices.Repeat([]string{"x.rpz. NS ns."}, 60)...), soaOf(8))...), "", "records, expected max_records"},
		{"too many records that come and go", one(chain(60)...), "", "a delta of more than 50 records"},
		{"too large", one(append(append([]string{soaOf(8), soaOf(7), soaOf(8)}, texts(40)...), soaOf(8))...), "", "max_bytes at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := rulesOf(t, soaOf(7), "rpz. NS ns.", rule("a"), rule("b"))
			_, r, err := changed(t, Config{Zone: "rpz.", Limits: rules.Limits{Records: 50, Bytes: 8 << 10}}, before, tt.answer)
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) || (r == nil) != (err != nil) {
				t.Fatalf("%v, want %q", err, tt.problem)
			}
			if !hasRule(before, "a") || !hasRule(before, "b") || hasRule(before, "c") || before.SOA.Serial != 7 || before.Stats.Names != 2 {
				t.Error("the rules of before have changed")
			}
			if err != nil {
				return
			}
			var got []string
			for _, name := range []string{"a", "b", "c", "d"} {
				if hasRule(r, name) {
					got = append(got, name)
				}
			}
			if got := strings.Join(got, " "); got != strings.ReplaceAll(tt.want, "none", "") || r.Stats.Names != len(strings.Fields(got)) {
				t.Errorf("rules for %q, %d in all, want %q", got, r.Stats.Names, tt.want)
			}
			if r != before && newer(7, r.SOA.Serial) {
				t.Errorf("serial %d", r.SOA.Serial)
			}
		})
	}
}

// chain returns a delta of versions that delete a record and add it.
func chain(n uint32) (records []string) {
	records = []string{soaOf(7 + n)}
	for i := range n {
		records = append(records, soaOf(7+i), rule("a"), soaOf(8+i), rule("a"))
	}
	return append(records, soaOf(7+n))
}

// texts returns rules with local data of some bytes.
func texts(n int) (records []string) {
	for i := range n {
		records = append(records, fmt.Sprintf("t%d.rpz. TXT %q", i, strings.Repeat("x", 200)+fmt.Sprint(i)))
	}
	return records
}

// FuzzDelta answers a query for changes with arbitrary bytes. No answer causes a panic, and the rules before
// stay as they are. A delta is applied only if each deleted record existed and each added record did not.
func FuzzDelta(f *testing.F) {
	for _, messages := range [][]byte{
		message(f, soaOf(7)),
		message(f, soaOf(8), soaOf(7), rule("a"), soaOf(8), rule("c"), soaOf(8)),
		message(f, soaOf(9), soaOf(7), rule("a"), soaOf(8), "*.a.rpz. CNAME .", soaOf(8), rule("b"), soaOf(9), "a.rpz. A 192.0.2.1", "a.rpz. TXT x", soaOf(9)),
		message(f, soaOf(8), soaOf(7), "32.1.2.0.192.rpz-ip.rpz. CNAME .", soaOf(8), "128.1.zz.rpz-ip.rpz. CNAME *.", soaOf(8)),
		message(f, soaOf(8), soaOf(7), "local.rpz. A 192.0.2.1", soaOf(8), "local.rpz. A 192.0.2.2", "x.rpz. NS ns.", soaOf(8)),
		slices.Concat(message(f, soaOf(8), rule("c")), message(f, soaOf(8))),
		message(f, chain(12)...),
		message(f, append(append([]string{soaOf(8), soaOf(7), soaOf(8)}, texts(40)...), soaOf(8))...),
	} {
		f.Add(messages, false)
	}
	f.Add(message(f, soaOf(8), soaOf(7), rule("a"), soaOf(8), soaOf(8)), true)
	zone := []string{soaOf(7), rule("a"), rule("b"), "local.rpz. 60 A 192.0.2.1", "local.rpz. 60 TXT x", "*.w.rpz. 60 CNAME *.", "32.1.2.0.192.rpz-ip.rpz. 60 CNAME ."}
	limits := rules.Limits{Records: 60, Bytes: 8 << 10}
	f.Fuzz(func(t *testing.T, messages []byte, signed bool) {
		before := rulesOf(t, zone...)
		stats := before.Stats
		c := Config{Zone: "rpz.", Limits: limits}
		if signed {
			c.Key = Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}
		}
		x, r, err := changed(t, c, before, messages)
		if before.SOA.Serial != 7 || before.Stats.Names != stats.Names || before.Stats.Addresses != 1 || !hasRule(before, "a") || !hasRule(before, "x.w") || !hasRule(before, "local") {
			t.Fatal("the rules of before have changed")
		}
		if (r == nil) != (err != nil) {
			t.Fatalf("%v and %v", r, err)
		}
		if err != nil {
			return
		}
		if signed {
			t.Fatal("it is taken without a signature")
		}
		if r == before || x.whole != nil {
			return // FuzzTransfer has the whole zone
		}
		if r.Size() > int(limits.Bytes) || !newer(r.SOA.Serial, 7) {
			t.Errorf("%d bytes, serial %d", r.Size(), r.SOA.Serial)
		}
		checkDelta(t, zone, messages, r)
	})
}

// checkDelta compares rules with the rules of a zone to which a delta is applied as a list of records.
func checkDelta(t *testing.T, zone []string, messages []byte, r *rules.Rules) {
	t.Helper()
	var all []dns.RR
	for _, text := range zone[1:] {
		rr, _ := dns.NewRR(text)
		all = append(all, rr)
	}
	soas, ends := 0, 0
	foundAll := true
	var first *dns.SOA
	for len(messages) >= 2 && ends < 3 { // dns.Transfer reads no more

		n := 2 + int(messages[0])<<8 + int(messages[1])
		var m dns.Msg
		if n > len(messages) || m.Unpack(messages[2:n]) != nil {
			break
		}
		for _, rr := range m.Answer {
			soa, isSOA := rr.(*dns.SOA)
			if isSOA && (first == nil || soa.Serial == first.Serial) {
				ends++
			}
			if isSOA = isSOA && dns.CanonicalName(soa.Hdr.Name) == "rpz."; isSOA {
				soas++
				if first == nil {
					first = soa
				}
				continue
			}
			same := func(o dns.RR) bool { return dns.IsDuplicate(o, rr) }
			if soas%2 == 0 {
				if i := slices.IndexFunc(all, same); i >= 0 {
					all = slices.Delete(all, i, i+1)
				} else {
					foundAll = false // it is no rule, else the delta is not taken
				}
				continue
			}
			all = append(all, rr)
		}
		messages = messages[n:]
	}
	b, err := rules.NewBuilder("rpz.", rules.Limits{})
	if err == nil {
		err = b.Add(first)
	}
	for _, rr := range all {
		if err == nil {
			err = b.Add(rr)
		}
	}
	if err != nil {
		t.Fatalf("the whole zone is wrong: %v", err)
	}
	want, err := b.Rules()
	if err != nil {
		t.Fatal(err)
	}
	if r.Stats.Names != want.Stats.Names || r.Stats.Addresses != want.Stats.Addresses || foundAll && !r.Stats.SameSkipped(&want.Stats) || r.SOA.Serial != want.SOA.Serial {
		t.Fatalf("%+v serial %d, want %+v serial %d", r.Stats, r.SOA.Serial, want.Stats, want.SOA.Serial)
	}
	for _, rr := range all {
		name, _ := strings.CutSuffix(dns.CanonicalName(rr.Header().Name), ".rpz.")
		if got, want := hasRule(r, name), hasRule(want, name); got != want {
			t.Errorf("a rule for %s: %t, want %t", name, got, want)
		}
	}
}

// incrementalPrimary returns a primary whose answers to IXFR come from a function of the serial number in
// the query, nil for the whole zone, and the Source of its zone, which has serial number 7.
func incrementalPrimary(t *testing.T, key Key, answer func(have uint32) []string) (*primary, *Source, *testkit.Lines) {
	t.Helper()
	var secrets map[string]string
	if key != (Key{}) {
		secrets = map[string]string{key.Name: key.Secret}
	}
	p := servePrimary(t, zoneText(7, "a CNAME .\nb CNAME .\n"), secrets)
	p.mu.Lock()
	p.changes = func(have uint32) (all []dns.RR) {
		for _, text := range answer(have) {
			rr, err := dns.NewRR(text)
			if err != nil {
				t.Error(err)
			}
			all = append(all, rr)
		}
		return all
	}
	p.mu.Unlock()
	s, log := acquire(t, Config{Zone: "rpz.", Primaries: p.addr, Key: key})
	await(t, s, "the zone is transferred", func() bool { return has(s, "a.") })
	return p, s, log
}

// zoneSOA is the SOA record that zoneText gives a version.
func zoneSOA(serial int) string {
	return fmt.Sprintf("rpz. 60 SOA ns.rpz. hostmaster.rpz. %d 1 1 86400 60", serial)
}

// A Source that has rules asks for their changes, and applies them.
func TestTransferOfDelta(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]Key{"plain": {}, "signed": {Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, log := incrementalPrimary(t, key, func(have uint32) []string {
				if have != 7 {
					return nil
				}
				return []string{zoneSOA(8), zoneSOA(7), rule("a"), zoneSOA(8), rule("c"), zoneSOA(8)}
			})
			p.set(zoneText(8, "b CNAME .\nc CNAME .\n"))
			await(t, s, "the delta is applied", func() bool { return has(s, "c.") })
			if has(s, "a.") || !has(s, "b.") || s.Rules().SOA.Serial != 8 || p.transfers.Load() != 1 {
				t.Errorf("%d transfers of the whole zone, %+v", p.transfers.Load(), s.Rules().Stats)
			}
			p.set(zoneText(9, "d CNAME .\n"))
			await(t, s, "a whole zone in place of changes is taken", func() bool { return has(s, "d.") && !has(s, "b.") })
			checkTransfers(t, s, map[Result]uint64{Whole: 2, Delta: 1, Fallback: 0})
			if log.Count("serial 8, a delta of 6 records, read in") != 1 || log.Count("WARNING") != 0 {
				t.Errorf("%q", log.All())
			}
		})
	}
}

// checkTransfers compares the counts of a Source.
func checkTransfers(t *testing.T, s *Source, want map[Result]uint64) {
	t.Helper()
	st := s.Status()
	for result, n := range want {
		if st.Transfers[result] != n {
			t.Errorf("%d transfers of the result %s, want %d", st.Transfers[result], result, n)
		}
	}
}

// In place of a delta that does not fit the whole zone is transferred, once. That is counted each time, and
// logged when it begins.
func TestFallback(t *testing.T) {
	t.Parallel()
	wrong := true // guarded by p.mu
	p, s, log := incrementalPrimary(t, Key{}, func(have uint32) []string {
		next := zoneSOA(int(have) + 1)
		if wrong {
			return []string{next, zoneSOA(int(have)), rule("not-there"), next, rule("half"), next}
		}
		return []string{next, zoneSOA(int(have)), next, rule("c"), next}
	})
	p.set(zoneText(8, "a CNAME .\nb CNAME .\n"))
	await(t, s, "the whole zone is transferred", func() bool { return s.Rules().SOA.Serial == 8 })
	p.set(zoneText(9, "a CNAME .\nb CNAME .\n"))
	await(t, s, "and again", func() bool { return s.Rules().SOA.Serial == 9 })
	if has(s, "half.") || !has(s, "a.") || p.transfers.Load() != 3 || s.Status().Failures != 0 {
		t.Errorf("%d transfers of the whole zone, %+v", p.transfers.Load(), s.Status())
	}
	checkTransfers(t, s, map[Result]uint64{Whole: 3, Delta: 0, Fallback: 2})
	if n := log.Count("in place of its changes"); n != 1 || log.Count("is not there") != 1 {
		t.Errorf("logged %d times: %q", n, log.All())
	}
	p.mu.Lock()
	wrong = false
	p.text = zoneText(10, "a CNAME .\nb CNAME .\nc CNAME .\n")
	p.mu.Unlock()
	await(t, s, "the next delta is applied", func() bool { return has(s, "c.") })
	checkTransfers(t, s, map[Result]uint64{Whole: 3, Delta: 1, Fallback: 2})
	p.mu.Lock()
	wrong = true
	p.text = zoneText(11, "a CNAME .\n")
	p.mu.Unlock()
	await(t, s, "the whole zone is transferred again", func() bool { return s.Rules().SOA.Serial == 11 })
	if n := log.Count("in place of its changes"); n != 2 {
		t.Errorf("logged %d times: %q", n, log.All())
	}
}

// A primary that is away is not asked for the whole zone, and a serial number that wraps is not asked for
// changes.
func TestNoDelta(t *testing.T) {
	t.Parallel()
	p, s, _ := incrementalPrimary(t, Key{}, func(uint32) []string { return nil })
	before := p.changesAsked.Load()
	p.set(zoneText(4000000000, "older CNAME .\n")) // half way round
	await(t, s, "it is not taken", func() bool { return s.Status().Transfers[UpToDate] > 2 })
	p.set(zoneText(2000000000, "b CNAME .\n"))
	await(t, s, "half the way", func() bool { return s.Rules().SOA.Serial == 2000000000 })
	p.set(zoneText(4000000000, "b CNAME .\n"))
	await(t, s, "the other half", func() bool { return s.Rules().SOA.Serial == 4000000000 })
	if n := p.changesAsked.Load(); n != before+2 {
		t.Errorf("asked for changes %d times", n-before)
	}
	p.set(zoneText(1, "c CNAME .\n"))
	await(t, s, "the wrap", func() bool { return has(s, "c.") })
	if n := p.changesAsked.Load(); n != before+2 {
		t.Errorf("asked for changes over the wrap")
	}
	p.set("")
	await(t, s, "a failure", func() bool { return s.Status().Problem != "" })
	checkTransfers(t, s, map[Result]uint64{Fallback: 0})
}

// After a NOTIFY of a primary that primary is asked at once; other NOTIFYs have no effect.
func TestNotify(t *testing.T) {
	t.Parallel()
	p := servePrimary(t, slowZone(1, "a CNAME .\n"), nil)
	s, _ := acquire(t, Config{Zone: "notified.", Primaries: "127.0.0.2:1 " + p.addr})
	await(t, s, "the zone is transferred", func() bool { return has(s, "a.") })
	notify := func(zone, from string, signed bool) (known, taken bool) {
		return Notify(zone, netip.MustParseAddr(from), func(Key) bool { return signed })
	}
	for _, tt := range []struct {
		zone, from   string
		signed       bool
		known, taken bool
	}{
		{"other.", "127.0.0.1", true, false, false},
		{"notified.", "127.0.0.3", true, true, false},
		{"notified.", "::1", true, true, false},
		{"notified.", "127.0.0.1", false, true, false},
	} {
		if known, taken := notify(tt.zone, tt.from, tt.signed); known != tt.known || taken != tt.taken {
			t.Errorf("%+v: %t, %t", tt, known, taken)
		}
	}
	if n := p.queries.Load(); n != 0 {
		t.Errorf("asked %d times", n)
	}
	p.set(slowZone(2, "b CNAME .\n"))
	if known, taken := notify("notified.", "::ffff:127.0.0.1", true); !known || !taken {
		t.Errorf("%t, %t", known, taken)
	}
	await(t, s, "the zone is transferred again", func() bool { return has(s, "b.") })

	// Many in a row are one question, and one that comes meanwhile another.
	began, before := time.Now(), p.queries.Load()
	for range 1000 {
		notify("notified.", "127.0.0.1", true)
	}
	p.set(slowZone(3, "c CNAME .\n"))
	await(t, s, "one of many is taken", func() bool { return has(s, "c.") })
	if n, most := p.queries.Load()-before, 2+int64(time.Since(began)/notifyInterval); n > most {
		t.Errorf("asked %d times, want at most %d", n, most)
	}
}

// After a question a NOTIFY waits for notifyInterval.
func TestNotifyRate(t *testing.T) {
	t.Parallel()
	s := newSource(Config{Zone: "rpz.", Primaries: "192.0.2.1:53"}, &testkit.Lines{})
	for range 3 {
		s.asked = time.Now()
		s.notify(netip.MustParseAddr("192.0.2.1"))
		if !s.waitNotified(t.Context(), time.Hour, true) || time.Since(s.asked) < notifyInterval {
			t.Errorf("asked again after %s", time.Since(s.asked))
		}
	}
	s.asked = time.Now().Add(-time.Hour)
	s.notify(netip.MustParseAddr("192.0.2.1"))
	began := time.Now()
	if !s.waitNotified(t.Context(), time.Hour, true) || time.Since(began) > time.Minute {
		t.Errorf("asked after %s", time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.waitNotified(ctx, time.Hour, true) {
		t.Error("it goes on after its end")
	}
}

// slowZone returns a zone whose primary is not asked again within a test.
func slowZone(serial int, rules string) string {
	return strings.Replace(zoneText(serial, rules), " 1 1 86400", " 86400 86400 864000", 1)
}

// Each primary that has sent a NOTIFY is asked, though an earlier one has nothing new.
func TestNotifiers(t *testing.T) {
	t.Parallel()
	first, second := servePrimary(t, slowZone(1, "a CNAME .\n"), nil), servePrimary(t, slowZone(2, "b CNAME .\n"), nil)
	s, _ := acquire(t, Config{Zone: "rpz.", Primaries: first.addr + " " + second.addr})
	await(t, s, "the zone is transferred", func() bool { return has(s, "a.") })
	if !s.notify(netip.MustParseAddr("127.0.0.1")) {
		t.Fatal("it is not taken")
	}
	await(t, s, "the zone of the second is transferred", func() bool { return has(s, "b.") })
}

// A zone that is too large is not transferred sooner by a NOTIFY.
func TestNotifyOfLargeZone(t *testing.T) {
	t.Parallel()
	s := newSource(Config{Zone: "rpz.", Primaries: "192.0.2.1:53"}, &testkit.Lines{})
	if !s.notify(netip.MustParseAddr("192.0.2.1")) {
		t.Fatal("it is not taken")
	}
	began := time.Now()
	if !s.waitNotified(t.Context(), 300*time.Millisecond, false) || time.Since(began) < 300*time.Millisecond {
		t.Errorf("waited %s", time.Since(began))
	}
	if !s.waitNotified(t.Context(), time.Hour, true) {
		t.Error("it is not remembered")
	}
	if all := s.takeNotifiers(); !slices.Equal(all, []string{"192.0.2.1:53"}) {
		t.Errorf("%q", all)
	}
}
