// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

func TestMain(m *testing.M) {
	minInterval, notifyInterval = 50*time.Millisecond, 50*time.Millisecond
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second

// zoneText returns a zone that does not expire within a test.
func zoneText(serial int, rules string) string { return expiringZone(serial, 86400, rules) }

// expiringZone returns a zone whose rules expire after some seconds.
func expiringZone(serial, expire int, rules string) string {
	return fmt.Sprintf("$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. %d 1 1 %d 60\n@ NS ns.rpz.\n%s", serial, expire, rules)
}

// await waits until a condition holds.
func await(t *testing.T, s *Source, what string, holds func() bool) {
	t.Helper()
	testkit.OnChange(t, s, what, func() error {
		if !holds() {
			return fmt.Errorf("%+v", s.Status())
		}
		return nil
	})
}

// has reports whether the rules have one for a name.
func has(s *Source, name string) bool {
	r := s.Rules()
	if r == nil {
		return false
	}
	var n rules.Name
	n.Set(name)
	p, _, _ := r.Name(&n)
	return p != 0
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// replace puts another file into the place of one.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func acquire(t *testing.T, c Config) (*Source, *testkit.Lines) {
	t.Helper()
	log := &testkit.Lines{}
	s := Acquire(c, log)
	t.Cleanup(s.Release)
	if err := s.AwaitFile(); err != nil {
		t.Fatal(err)
	}
	return s, log
}

// A file is followed as it is replaced, written in place, removed, and put back.
func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zone")
	write(t, path, zoneText(1, "a.example CNAME .\n"))
	s, log := acquire(t, Config{Zone: "rpz.", Path: path})
	if !has(s, "a.example.") {
		t.Fatal("it has not been read")
	}
	replace(t, path, zoneText(2, "b.example CNAME .\n"))
	await(t, s, "the file is replaced", func() bool { return has(s, "b.example.") && !has(s, "a.example.") })
	write(t, path, zoneText(3, "c.example CNAME .\n"))
	await(t, s, "the file is written in place", func() bool { return has(s, "c.example.") })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	await(t, s, "the file is removed", func() bool { return s.Status().Problem != "" })
	if !has(s, "c.example.") {
		t.Error("the rules are gone with the file")
	}
	write(t, path, zoneText(3, "c.example CNAME .\n"))
	await(t, s, "the file is back", func() bool { return s.Status().Problem == "" })
	if n := log.Count("no such file"); n != 1 {
		t.Errorf("the lack of the file is logged %d times", n)
	}
	if got := s.Status(); got.Failures != 1 {
		t.Errorf("%+v", got)
	}
}

// Half a file, or one with an error, changes nothing, and is logged and counted once.
func TestBadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zone")
	write(t, path, zoneText(1, "a.example CNAME .\n"))
	s, log := acquire(t, Config{Zone: "rpz.", Path: path})
	replace(t, path, zoneText(2, "b.example CNAME .\nc.exam"))
	await(t, s, "the file is half", func() bool { return s.Status().Problem != "" })
	if !has(s, "a.example.") || has(s, "b.example.") {
		t.Error("the rules have changed")
	}
	for range 2 { // each look changes the status
		select {
		case <-s.Changed():
		case <-time.After(patience):
			t.Fatal("the file is not looked at again")
		}
	}
	if st := s.Status(); st.Failures != 1 || log.Count("the rules stay as they are") != 1 {
		t.Errorf("%+v, %q", st, log.All())
	}
	replace(t, path, zoneText(3, "b.example CNAME .\nc.example CNAME .\n"))
	await(t, s, "the file is whole", func() bool { return has(s, "c.example.") })
	if s.Status().Problem != "" {
		t.Errorf("%+v", s.Status())
	}
}

// While a file is written it is not read, as it would be taken for whole.
func TestFileBeingWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zone")
	write(t, path, zoneText(1, "a.example CNAME .\n"))
	log := &testkit.Lines{}
	s := newSource(Config{Zone: "rpz.", Path: path}, log)
	f := follower{source: s}
	if err := f.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	grow := func(i int) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fmt.Fprintf(file, "b%d.example CNAME .\n", i)
	}
	for i := range 5 {
		grow(i)
		if f.poll(t.Context()); has(s, "b0.example.") {
			t.Fatal("it has been read while it grows")
		}
	}
	if f.poll(t.Context()); !has(s, "b4.example.") {
		t.Error("it has not been read when it was the same twice")
	}
	// Another file in its place is whole.
	replace(t, path, zoneText(2, "c.example CNAME .\n"))
	if f.poll(t.Context()); !has(s, "c.example.") {
		t.Error("the one that took its place has not been read at once")
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	write(t, bad, zoneText(1, "a.example CNA\n"))
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		dir:                        "not a regular file",
		bad:                        "at line: 4",
	} {
		log := &testkit.Lines{}
		s := Acquire(Config{Zone: "rpz.", Path: path}, log)
		err := s.AwaitFile()
		if log.Count("has no rules") != 1 || s.Status().Failures != 1 {
			t.Errorf("%q, %+v", log.All(), s.Status())
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%v, want %s", err, want)
		}
		s.Release()
	}
	if n := len(All()); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Of a file CheckFile looks at the beginning.
func TestCheckFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zone")
	long := strings.Repeat("a.example CNAME .\n", checkedSize/10)
	for _, tt := range []struct {
		name, text string
		ok         bool
		warnings   []string
	}{
		{"right", zoneText(1, "a.example CNAME .\n"), true, nil},
		{"skipped records", zoneText(1, "32.1.2.0.192.rpz-client-ip CNAME .\n33.1.2.0.192.rpz-ip CNAME .\n"), true, []string{"1 rules are skipped", "1 records are no rules"}},
		{"an error", zoneText(1, "a.example CNA\n"), false, nil},
		{"no SOA", "a.example 60 CNAME .\n", false, nil},
		{"long", zoneText(1, long), true, nil},
		{"an error at the beginning of a long one", zoneText(1, "a.example CNA\n"+long), false, nil},
	} {
		write(t, path, tt.text)
		log := &testkit.Lines{}
		if err := CheckFile(Config{Zone: "rpz.", Path: path}, log); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, want := range tt.warnings {
			if log.Count("WARNING Zone rpz.: "+want) != 1 {
				t.Errorf("%s: %q, want %q", tt.name, log.All(), want)
			}
		}
		if n := len(log.All()); n != len(tt.warnings) {
			t.Errorf("%s: %d lines: %q", tt.name, n, log.All())
		}
	}
}

// primary is a server of one zone.
type primary struct {
	addr string

	mu       sync.Mutex
	text     string // guarded by mu; "" refuses
	unsigned bool   // guarded by mu
	// endless returns the records of message i of a transfer that does not end, nil for a
	// transfer of text. It is guarded by mu.
	endless func(i int) []dns.RR
	// changes returns the answer to a query for changes, nil for the whole zone. It is guarded by mu.
	changes      func(have uint32) []dns.RR
	changesAsked atomic.Int64
	// transfers counts the transfers of the whole zone.
	transfers atomic.Int64
	queries   atomic.Int64
}

const secret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ="

func servePrimary(t *testing.T, text string, secrets map[string]string) *primary {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &primary{addr: l.Addr().String(), text: text}
	started := make(chan struct{})
	s := &dns.Server{Listener: l, TsigSecret: secrets, NotifyStartedFunc: func() { close(started) }}
	s.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { p.serve(t, w, r, secrets != nil) })
	go s.ActivateAndServe()
	<-started
	t.Cleanup(func() { s.Shutdown() })
	return p
}

func (p *primary) set(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

func (p *primary) serve(t *testing.T, w dns.ResponseWriter, r *dns.Msg, signed bool) {
	p.mu.Lock()
	text, unsigned, endless := p.text, p.unsigned, p.endless
	p.mu.Unlock()
	m := new(dns.Msg).SetReply(r)
	reply := func() {
		if tsig := r.IsTsig(); tsig != nil && !unsigned {
			m.SetTsig(tsig.Hdr.Name, tsig.Algorithm, 300, time.Now().Unix())
		}
		w.WriteMsg(m)
	}
	if text == "" || signed && (r.IsTsig() == nil || w.TsigStatus() != nil) {
		m.Rcode = dns.RcodeRefused
		reply()
		return
	}
	var all []dns.RR
	zp := dns.NewZoneParser(strings.NewReader(text), r.Question[0].Name, "")
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		all = append(all, rr)
	}
	if zp.Err() != nil {
		t.Error(zp.Err())
	}
	if r.Question[0].Qtype == dns.TypeSOA {
		p.queries.Add(1)
		m.Answer = all[:1]
		reply()
		return
	}
	if r.Question[0].Qtype == dns.TypeIXFR {
		p.changesAsked.Add(1)
		p.mu.Lock()
		if p.changes != nil {
			m.Answer = p.changes(r.Ns[0].(*dns.SOA).Serial)
		}
		p.mu.Unlock()
		if m.Answer != nil {
			reply()
			return
		}
	}
	p.transfers.Add(1)
	if endless != nil {
		m.Answer = all[:1]
		for i := 0; i < endlessMost && w.WriteMsg(m) == nil; i++ {
			m.Answer = endless(i)
		}
		return
	}
	if unsigned {
		m.Answer = append(all, all[0])
		reply()
		return
	}
	ch := make(chan *dns.Envelope)
	tr := new(dns.Transfer)
	go func() {
		defer close(ch)
		for i := 0; i < len(all); i += 2 { // several messages
			ch <- &dns.Envelope{RR: all[i:min(i+2, len(all))]}
		}
		ch <- &dns.Envelope{RR: all[:1]}
	}()
	if err := tr.Out(w, r, ch); err != nil {
		for range ch {
		}
	}
}

// A zone is transferred, and again when its serial number has grown.
func TestTransfer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		key  Key
	}{
		{"plain", Key{}},
		{"signed", Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}},
		{"signed by SHA-512", Key{Name: "feed.", Algorithm: dns.HmacSHA512, Secret: secret}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var secrets map[string]string
			if tt.key != (Key{}) {
				secrets = map[string]string{"feed.": secret}
			}
			p := servePrimary(t, zoneText(7, "a.example CNAME .\nb.example CNAME .\n32.1.2.0.192.rpz-ip CNAME .\n"), secrets)
			s, _ := acquire(t, Config{Zone: "rpz.", Primaries: "127.0.0.1:1 " + p.addr, Key: tt.key})
			await(t, s, "the zone is transferred", func() bool { return has(s, "b.example.") })
			await(t, s, "its serial number is asked for", func() bool { return p.queries.Load() > 1 })
			if n := p.transfers.Load(); n != 1 {
				t.Errorf("%d transfers", n)
			}
			p.set(zoneText(6, "older.example CNAME .\n"))
			before := p.queries.Load()
			await(t, s, "an older one is not taken", func() bool { return p.queries.Load() > before+1 })
			p.set(zoneText(8, "c.example CNAME .\n"))
			await(t, s, "the next one is transferred", func() bool { return has(s, "c.example.") && !has(s, "a.example.") })
			if has(s, "older.example.") || p.transfers.Load() != 2 {
				t.Errorf("%d transfers", p.transfers.Load())
			}
		})
	}
}

// A zone whose primaries do not answer expires (RFC 1035, section 3.3.13), and comes back.
func TestExpire(t *testing.T) {
	t.Parallel()
	text := expiringZone(1, 10, "a.example CNAME .\n")
	p := servePrimary(t, text, nil)
	s, log := acquire(t, Config{Zone: "rpz.", Primaries: p.addr})
	await(t, s, "the zone is transferred", func() bool { return has(s, "a.example.") })
	p.set("")
	await(t, s, "a refresh fails", func() bool { return s.Status().Problem != "" })
	if !has(s, "a.example.") {
		t.Error("the rules are gone with the first failure")
	}
	await(t, s, "the rules expire", func() bool { return s.Rules() == nil })
	if log.Count("have expired") != 1 || log.Count("REFUSED") != 1 {
		t.Errorf("%q", log.All())
	}
	p.set(text)
	await(t, s, "the zone is back", func() bool { return has(s, "a.example.") })
}

// After a failure the retry timer counts for as long as the rules are used, and at most until
// they expire.
func TestUntilRetry(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name          string
		retry, expire time.Duration
		checked       time.Duration // ago
		want          time.Duration
	}{
		{"the retry timer", time.Hour, 7 * day, time.Minute, time.Hour},
		{"after more than a day", time.Hour, 7 * day, 2 * day, time.Hour},
		{"after more than a thousand days", time.Hour, 2000 * day, 1001 * day, minInterval / 5},
		{"the rules expire before it", time.Hour, 7 * day, 7*day - 10*time.Minute, 10 * time.Minute},
		{"a long timer", 30 * day, 90 * day, time.Minute, day},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Source{status: Status{Checked: time.Now().Add(-tt.checked)}}
			soa := &dns.SOA{Retry: uint32(tt.retry / time.Second), Expire: uint32(tt.expire / time.Second)}
			if got := s.untilRetry(soa); got > tt.want || got < tt.want-time.Minute {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// endlessMost is how many messages an endless transfer has in a test.
const endlessMost = 1 << 20

// A transfer over a limit changes nothing, is logged once, and ends the connection. A later one that
// is within the limits is taken.
func TestTransferTooLarge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		limits  rules.Limits
		endless func(i int) []dns.RR
		want    string
	}{
		{"records", rules.Limits{Records: 1000}, func(i int) []dns.RR {
			rr, _ := dns.NewRR(fmt.Sprintf("bad-%d.rpz. CNAME .", i))
			return []dns.RR{rr}
		}, "more than 1000 records"},
		{"rules", rules.Limits{Bytes: 64 << 10}, func(i int) []dns.RR {
			rr, _ := dns.NewRR(fmt.Sprintf("bad-%d.bad-%d.example.rpz. CNAME .", i, i))
			return []dns.RR{rr}
		}, "rules take more than 65536 bytes"},
		{"messages", rules.Limits{Bytes: 64 << 10}, func(int) []dns.RR { return nil }, "more than 262144 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := servePrimary(t, expiringZone(1, 3, "a.example CNAME .\n"), nil)
			other := servePrimary(t, expiringZone(1, 3, "a.example CNAME .\n"), nil)
			s, log := acquire(t, Config{Zone: "rpz.", Primaries: p.addr + " " + other.addr, Limits: tt.limits})
			await(t, s, "the zone is transferred", func() bool { return has(s, "a.example.") })
			before := s.Rules()
			p.mu.Lock()
			p.text, p.endless = zoneText(2, ""), tt.endless
			p.mu.Unlock()
			loaded := s.Status().Loaded
			await(t, s, "transfers fail for longer than until the zone expires", func() bool {
				return s.Status().Failures >= 2 && time.Since(loaded) > expiry(before.SOA)+time.Second
			})
			if got := s.Status().Problem; s.Rules() != before || !strings.Contains(got, rules.ErrTooLarge.Error()) || !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if n := log.Count("WARNING") - log.Count("in place of its changes"); n != 1 || log.Count("the rules stay as they are") != 1 {
				t.Errorf("%q", log.All())
			}
			p.mu.Lock()
			p.text, p.endless = zoneText(3, "c.example CNAME .\n"), nil
			p.mu.Unlock()
			await(t, s, "a small one is taken", func() bool { return has(s, "c.example.") && s.Status().Problem == "" })
		})
	}
}

// A file over a limit changes nothing, and has no rules if it is the first.
func TestFileTooLarge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zone")
	write(t, path, zoneText(1, "a.example CNAME .\n"))
	c := Config{Zone: "rpz.", Path: path, Limits: rules.Limits{Records: 3}}
	s, log := acquire(t, c)
	replace(t, path, zoneText(2, "b.example CNAME .\nc.example CNAME .\n"))
	await(t, s, "the file fails", func() bool { return s.Status().Failures == 1 })
	if !has(s, "a.example.") || has(s, "b.example.") || log.Count(rules.ErrTooLarge.Error()+": more than 3 ") != 1 {
		t.Errorf("%q", log.All())
	}
	c.Zone = "other."
	other := Acquire(c, &testkit.Lines{})
	defer other.Release()
	if err := other.AwaitFile(); !errors.Is(err, rules.ErrTooLarge) || other.Rules() != nil {
		t.Errorf("%v", err)
	}
}

// A zone with another key or another limit has the rules of before until its own are read, and keeps
// them if these can't be.
func TestRulesOfBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "zone")
	text := zoneText(1, "a.example CNAME .\n")
	write(t, path, text)
	p := servePrimary(t, text, nil)
	key := Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}
	for _, tt := range []struct {
		name        string
		first, then Config
	}{
		{"a file", Config{Zone: "rpz.", Path: path}, Config{Zone: "rpz.", Path: path, Limits: rules.Limits{Records: 1}}},
		{"a transfer", Config{Zone: "rpz.", Primaries: p.addr}, Config{Zone: "rpz.", Primaries: p.addr, Limits: rules.Limits{Records: 1}}},
		{"a key", Config{Zone: "rpz.", Primaries: p.addr}, Config{Zone: "rpz.", Primaries: p.addr, Key: key}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, _ := acquire(t, tt.first)
			await(t, first, "the first is read", func() bool { return has(first, "a.example.") })
			then := Acquire(tt.then, &testkit.Lines{})
			defer then.Release()
			if !has(then, "a.example.") || then.Status().Loaded != first.Status().Loaded || then.Status().Checked.IsZero() {
				t.Errorf("%+v, want the rules of %+v", then.Status(), first.Status())
			}
			await(t, then, "its own read fails", func() bool { return then.Status().Failures > 1 || tt.then.Path != "" && then.Status().Failures > 0 })
			if !has(then, "a.example.") || then.Status().Problem == "" || then.AwaitFile() != nil {
				t.Errorf("%+v", then.Status())
			}
		})
	}
	otherPath := filepath.Join(t.TempDir(), "zone")
	write(t, otherPath, zoneText(1, ""))
	if s, _ := acquire(t, Config{Zone: "rpz.", Path: otherPath}); has(s, "a.example.") {
		t.Error("another file has the rules of the first")
	}
}

// Acquire and Release do not wait for a file that is being read.
func TestReleaseWhileReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zone")
	write(t, path, zoneText(1, "a.example CNAME .\n"))
	c := Config{Zone: "rpz.", Path: path}
	reading <- struct{}{}
	s := Acquire(c, &testkit.Lines{})
	if s.Rules() != nil {
		t.Error("two files are read at a time")
	}
	s.Release()
	<-reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, _, err := readFile(ctx, &c); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("a read that is cancelled: %v", err)
	}
}

// A zone that is too large is asked for less and less often, whatever its primary chooses.
func TestPause(t *testing.T) {
	soa := func(refresh, retry uint32) *rules.Rules {
		return &rules.Rules{SOA: &dns.SOA{Refresh: refresh, Retry: retry, Expire: 1 << 31}}
	}
	tooLarge := fmt.Errorf("primary: %w", rules.ErrTooLarge)
	for _, tt := range []struct {
		name       string
		rules      *rules.Rules
		err        error
		backoff    time.Duration
		next, then time.Duration
	}{
		{"never read", nil, errCutOff, time.Minute, time.Minute, 2 * time.Minute},
		{"never read for long", nil, errCutOff, maxBackoff, maxBackoff, maxBackoff},
		{"read", soa(60, 30), nil, maxBackoff, time.Minute, minInterval},
		{"failed", soa(60, 30), errCutOff, maxBackoff, 30 * time.Second, maxBackoff},
		{"too large", soa(60, 30), tooLarge, time.Minute, time.Minute, 2 * time.Minute},
		{"too large for long", soa(60, 0), tooLarge, maxBackoff, maxBackoff, maxBackoff},
		{"too large, with a longer timer", soa(60, 3600), tooLarge, minInterval, time.Hour, 2 * minInterval},
	} {
		s := newSource(Config{}, nil)
		s.status.Checked = time.Now()
		s.rules.Store(tt.rules)
		if next, then := s.pause(tt.err, tt.backoff); next != tt.next || then != tt.then {
			t.Errorf("%s: %s, then %s, want %s and %s", tt.name, next, then, tt.next, tt.then)
		}
	}
}

// A change is logged before it is visible, so a test that waits for the change finds its line.
func TestChangesAreLoggedFirst(t *testing.T) {
	t.Parallel()
	var lines []string
	s := newSource(Config{}, nil)
	s.log = logFunc(func(line string) {
		st := s.Status()
		lines = append(lines, fmt.Sprintf("%s: rules %t, read %t, failures %d, fallbacks %d", line, s.Rules() != nil, !st.Loaded.IsZero(), st.Failures, st.Transfers[Fallback]))
	})
	loaded := &rules.Rules{SOA: new(dns.SOA)}
	s.failed(errCutOff)
	s.transferred(loaded, 0, Whole, "")
	s.fallBack("primary", errCutOff)
	s.status.Checked = time.Time{}
	s.expire()
	s.loaded(loaded, 0)
	var got []string
	for _, line := range lines {
		_, after, _ := strings.Cut(line, ": rules ")
		got = append(got, after)
	}
	want := []string{
		"false, read false, failures 0, fallbacks 0",
		"false, read false, failures 1, fallbacks 0",
		"true, read true, failures 1, fallbacks 0",
		"true, read true, failures 1, fallbacks 1",
		"false, read false, failures 1, fallbacks 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", lines)
	}
}

// logFunc is a Logger that calls a function with each line.
type logFunc func(line string)

func (f logFunc) Infof(format string, args ...any)    { f(fmt.Sprintf(format, args...)) }
func (f logFunc) Warningf(format string, args ...any) { f(fmt.Sprintf(format, args...)) }

// An outage is logged once, even if the errors of its retries differ.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1))
			c.(*net.TCPConn).SetLinger(0) // a reset: the error of the peer has its local port
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	s, log := acquire(t, Config{Zone: "rpz.", Primaries: l.Addr().String()})
	problems := map[string]bool{}
	await(t, s, "three failures that differ", func() bool {
		problems[s.Status().Problem] = true
		return s.Status().Failures >= 3 && len(problems) >= 4 // one is none
	})
	if n := log.Count("WARNING"); n != 1 {
		t.Errorf("logged %d times: %q", n, log.All())
	}
}

// An answer without a signature, or with a signature by another key, is refused.
func TestBadSignature(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		key      Key
		unsigned bool
		want     string
	}{
		{"another secret", Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: "b3RoZXI="}, false, "bad signature"},
		{"another key", Key{Name: "other.", Algorithm: dns.HmacSHA256, Secret: secret}, false, "transfer of rpz.: "},
		{"none in the answer", Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}, true, "no signature found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := servePrimary(t, zoneText(1, "a.example CNAME .\n"), map[string]string{"feed.": secret})
			p.unsigned = tt.unsigned
			s, _ := acquire(t, Config{Zone: "rpz.", Primaries: p.addr, Key: tt.key})
			await(t, s, "it fails", func() bool { return s.Status().Problem != "" })
			if s.Rules() != nil {
				t.Error("it has been taken")
			}
			if got := s.Status().Problem; !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A serial number that is not signed is not believed.
func TestUnsignedSerial(t *testing.T) {
	t.Parallel()
	p := servePrimary(t, zoneText(1, "a.example CNAME .\n"), map[string]string{"feed.": secret})
	s, _ := acquire(t, Config{Zone: "rpz.", Primaries: p.addr, Key: Key{Name: "feed.", Algorithm: dns.HmacSHA256, Secret: secret}})
	await(t, s, "the zone is transferred", func() bool { return has(s, "a.example.") })
	p.mu.Lock()
	p.unsigned = true
	p.mu.Unlock()
	await(t, s, "a refresh fails", func() bool { return strings.Contains(s.Status().Problem, "no signature found") })
}

func TestNewKey(t *testing.T) {
	refusals := ""
	for _, tt := range []struct {
		name, algorithm, secret string
		right                   bool
	}{
		{"Feed", "hmac-sha256", secret, true},
		{"feed", "HMAC-SHA512.", secret, true},
		{"feed", "hmac-md5", secret, false},
		{"feed", "hmac-sha256", "!", false},
		{"feed", "hmac-sha256", "", false},
		{"a..b", "hmac-sha256", secret, false},
	} {
		k, err := NewKey(tt.name, tt.algorithm, tt.secret)
		if (err == nil) != tt.right {
			t.Errorf("%+v: %v", tt, err)
		}
		if err != nil {
			refusals += err.Error() + "\n"
		}
		if err == nil && k.Name != "feed." {
			t.Errorf("%+v", k)
		}
	}
	golden.Check(t, refusals)
}
