// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/internal/testio"
	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

func TestMain(m *testing.M) {
	minInterval = 50 * time.Millisecond
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
	deadline := time.After(patience)
	for {
		changed := s.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not within %s: %s; %+v", patience, what, s.Status())
		}
	}
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

func acquire(t *testing.T, c Config) (*Source, *testio.Lines) {
	t.Helper()
	log := &testio.Lines{}
	s, err := Acquire(c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
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
	log := &testio.Lines{}
	s := &Source{config: Config{Zone: "rpz.", Path: path}, log: log}
	changed := make(chan struct{})
	s.changed.Store(&changed)
	f := follower{source: s}
	if err := f.read(); err != nil {
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
		if f.poll(); has(s, "b0.example.") {
			t.Fatal("it has been read while it grows")
		}
	}
	if f.poll(); !has(s, "b4.example.") {
		t.Error("it has not been read when it was the same twice")
	}
	// Another file in its place is whole.
	replace(t, path, zoneText(2, "c.example CNAME .\n"))
	if f.poll(); !has(s, "c.example.") {
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
		s, err := Acquire(Config{Zone: "rpz.", Path: path}, &testio.Lines{})
		if s != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%v, want %s", err, want)
		}
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
	}{
		{"right", zoneText(1, "a.example CNAME .\n"), true},
		{"an error", zoneText(1, "a.example CNA\n"), false},
		{"no SOA", "a.example 60 CNAME .\n", false},
		{"long", zoneText(1, long), true},
		{"an error at the beginning of a long one", zoneText(1, "a.example CNA\n"+long), false},
	} {
		write(t, path, tt.text)
		if err := CheckFile("rpz.", path); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// primary is a server of one zone.
type primary struct {
	addr string

	mu        sync.Mutex
	text      string // guarded by mu; "" refuses
	unsigned  bool   // guarded by mu
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
	text, unsigned := p.text, p.unsigned
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
	zp := dns.NewZoneParser(strings.NewReader(text), "rpz.", "")
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
	p.transfers.Add(1)
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

// A zone that nobody can be asked for any more expires (RFC 1035, section 3.3.13), and comes back.
func TestExpire(t *testing.T) {
	t.Parallel()
	text := expiringZone(1, 3, "a.example CNAME .\n")
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

// What is not signed, or by another key, is not taken.
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
	for _, tt := range []struct{ name, algorithm, secret, want string }{
		{"Feed", "hmac-sha256", secret, ""},
		{"feed", "HMAC-SHA512.", secret, ""},
		{"feed", "hmac-md5", secret, `"hmac-md5": expected one of`},
		{"feed", "hmac-sha256", "!", "the secret of feed: expected base64"},
		{"feed", "hmac-sha256", "", "the secret of feed: expected base64"},
		{"a..b", "hmac-sha256", secret, `"a..b": expected the name of a key`},
	} {
		k, err := NewKey(tt.name, tt.algorithm, tt.secret)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
		if err == nil && k.Name != "feed." {
			t.Errorf("%+v", k)
		}
	}
}
