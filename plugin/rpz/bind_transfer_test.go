// SPDX-License-Identifier: Apache-2.0

package rpz_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/plugin/rpz/source"
	"github.com/puntdns/puntdns/test/lab"
)

const feedSecret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ="

// primaryBIND is BIND as the primary of the zone feed.rpz, which is refreshed once a day only.
type primaryBIND struct {
	t                    *testing.T
	named, nsupdate, dir string
	address, notifies    string // of the primary, and of the secondary
	signed               bool
	stop                 func()
}

func startPrimary(t *testing.T, signed bool, secondary string) *primaryBIND {
	t.Helper()
	b := &primaryBIND{t: t, dir: t.TempDir(), address: testkit.FreeAddress(t), notifies: secondary, signed: signed}
	for name, path := range map[string]*string{"named": &b.named, "nsupdate": &b.nsupdate} {
		var err error
		if *path, err = exec.LookPath(name); err != nil {
			lab.Lack(t, "there is no BIND: %v", err)
		}
	}
	if err := os.Chmod(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// BIND sends the whole zone in place of a delta that is larger.
	b.write(1, "a.example CNAME .\nb.example CNAME .\n$GENERATE 1-500 old$.example CNAME .\n")
	b.start()
	return b
}

// write writes the file of the zone.
func (b *primaryBIND) write(serial int, rules string) {
	b.t.Helper()
	text := fmt.Sprintf("$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. %d 86400 86400 864000 60\n@ NS ns.rpz.\n%s", serial, rules)
	if err := os.WriteFile(filepath.Join(b.dir, "feed.rpz"), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *primaryBIND) start() {
	b.t.Helper()
	_, port, _ := net.SplitHostPort(b.address)
	_, notified, _ := net.SplitHostPort(b.notifies)
	allow, key := "127.0.0.1", ""
	if b.signed {
		allow, key = "key feed", " key feed"
	}
	b.stop = runNamed(b.t, b.named, b.dir, fmt.Sprintf(`options {
	directory %q; pid-file none; session-keyfile none;
	listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; };
	recursion no; dnssec-validation no; empty-zones-enable no; notify-delay 0;
};
controls { };
key feed { algorithm hmac-sha256; secret %q; };
zone "feed.rpz" {
	type primary; file "feed.rpz"; notify explicit; also-notify { 127.0.0.1 port %s%s; };
	allow-transfer { %s; }; allow-update { key feed; };
};
`, b.dir, port, feedSecret, notified, key, allow), func(string) bool { return true })
}

// change adds and deletes records by nsupdate, as one version of the zone.
func (b *primaryBIND) change(lines ...string) {
	b.t.Helper()
	_, port, _ := net.SplitHostPort(b.address)
	cmd := exec.Command(b.nsupdate, "-y", "hmac-sha256:feed:"+feedSecret)
	cmd.Stdin = strings.NewReader(fmt.Sprintf("server 127.0.0.1 %s\nzone feed.rpz\n%s\nsend\n", port, strings.Join(lines, "\n")))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("nsupdate: %v: %s", err, out)
	}
}

// A zone of BIND is transferred whole once, then its changes are, as soon as BIND has sent a NOTIFY. Where
// BIND no longer knows the changes it sends the whole zone in their place.
func TestTransferFromBIND(t *testing.T) {
	for _, signed := range []bool{false, true} {
		t.Run(fmt.Sprintf("signed %t", signed), func(t *testing.T) {
			testTransferFromBIND(t, signed)
		})
	}
}

func testTransferFromBIND(t *testing.T, signed bool) {
	ours := testkit.FreeAddress(t)
	b := startPrimary(t, signed, ours)
	tsig := ""
	if signed {
		tsig = " tsig feed\n tsig feed " + feedSecret
	}
	startServerAt(t, ours, fmt.Sprintf(".:PORT {\n bind 127.0.0.1\n rpz {\n zone feed.rpz transfer %s%s\n }\n}\n", b.address, tsig))
	all := source.All()
	if len(all) != 1 {
		t.Fatalf("%d zones", len(all))
	}
	s := all[0]
	serial := func(want uint32) func() error {
		return func() error {
			if r := s.Rules(); r == nil || r.SOA.Serial != want {
				return fmt.Errorf("%+v", s.Status())
			}
			return nil
		}
	}
	count := func(result source.Result) uint64 { return s.Status().Transfers[result] }
	testkit.OnChange(t, s, "the zone is transferred", serial(1))

	for i := range 5 {
		b.change(fmt.Sprintf("add new%d.example.feed.rpz 60 CNAME .", i), "add *.new.example.feed.rpz 60 A 192.0.2."+fmt.Sprint(i))
		testkit.OnChange(t, s, "the change is transferred", serial(uint32(2+i)))
	}
	if w, d, f := count(source.Whole), count(source.Delta), count(source.Fallback); w != 1 || d != 5 || f != 0 {
		t.Errorf("%d whole zones, %d deltas, %d that fell back, want 1, 5 and none", w, d, f)
	}
	expectRules(t, ours, map[string]string{"a.example.": "NXDOMAIN", "new0.example.": "NXDOMAIN", "new4.example.": "NXDOMAIN", "x.new.example.": "NOERROR", "none.example.": ""})

	// Several versions in a row are a chain.
	for i := range 20 {
		b.change(fmt.Sprintf("delete new%d.example.feed.rpz", i%5), fmt.Sprintf("add many%d.example.feed.rpz 60 CNAME .", i))
	}
	b.change("delete *.new.example.feed.rpz", "delete a.example.feed.rpz", "delete b.example.feed.rpz CNAME", "add b.example.feed.rpz 60 TXT x")
	testkit.OnChange(t, s, "the changes are transferred", func() error {
		if r := s.Rules(); r.SOA.Serial != 27 || r.Stats.Names != 521 {
			return fmt.Errorf("serial %d, %+v", r.SOA.Serial, r.Stats)
		}
		return nil
	})
	expectRules(t, ours, map[string]string{"a.example.": "", "new0.example.": "", "x.new.example.": "", "b.example.": "NOERROR", "many19.example.": "NXDOMAIN"})
	if w, f := count(source.Whole), count(source.Fallback); w != 1 || f != 0 {
		t.Errorf("%d whole zones, %d deltas that fell back", w, f)
	}

	// Without its journal BIND knows no changes.
	b.stop()
	if err := os.Remove(filepath.Join(b.dir, "feed.rpz.jnl")); err != nil {
		t.Fatal(err)
	}
	b.write(1000, "last.example CNAME .\n")
	b.start() // and it sends a NOTIFY
	testkit.OnChange(t, s, "the whole zone is transferred", serial(1000))
	if w, f := count(source.Whole), count(source.Fallback); w != 2 || f != 0 {
		t.Errorf("%d whole zones, %d deltas that fell back, want 2 and none", w, f)
	}
	expectRules(t, ours, map[string]string{"last.example.": "NXDOMAIN", "b.example.": ""})
	if signed {
		expectSignedNotify(t, ours, dns.RcodeRefused)
	}
	testkit.Eventually(t, "the metrics", func() error { // BIND may have been asked once more between the two
		for result, n := range s.Status().Transfers {
			if got := testkit.Sum(t, "coredns_rpz_transfers_total", "place", b.address, "result", source.Result(result).String()); got != float64(n) {
				return fmt.Errorf("the metric of %s is %v, want %d", source.Result(result), got, n)
			}
		}
		return nil
	})
}

// A signed NOTIFY is taken behind plugin tsig too.
func TestNotifyBehindTSIG(t *testing.T) {
	address := testkit.FreeAddress(t)
	startServerAt(t, address, fmt.Sprintf(".:PORT {\n bind 127.0.0.1\n tsig {\n secret admin YWRtaW4=\n require none\n }\n rpz {\n zone feed.rpz transfer 127.0.0.1:1 tsig feed\n tsig feed %s\n }\n}\n", feedSecret))
	expectSignedNotify(t, address, dns.RcodeNotAuth)
}

// expectRules asks for names, and compares the rcode of answers that rules make; "" stands for no rule.
func expectRules(t *testing.T, server string, want map[string]string) {
	t.Helper()
	c := dns.Client{Timeout: time.Minute}
	for name, want := range want {
		r, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), server)
		if err != nil {
			t.Fatal(err)
		}
		got := dns.RcodeToString[r.Rcode]
		if !slices.ContainsFunc(r.Extra, func(rr dns.RR) bool { return rr.Header().Name == "feed.rpz." }) {
			got = ""
		}
		if got != want {
			t.Errorf("%s: %q, want %q: %v", name, got, want, r)
		}
	}
}

// expectSignedNotify sends NOTIFY messages over UDP and TCP. Only one that the key has signed is taken, and its
// answer is signed too. bad is the rcode for a bad signature.
func expectSignedNotify(t *testing.T, server string, bad int) {
	t.Helper()
	for _, transport := range []string{"udp", "tcp"} {
		for _, tt := range []struct {
			name, key, secret string
			edns              bool
			rcode             int
		}{
			{"unsigned", "", "", false, dns.RcodeRefused},
			{"signed", "feed.", feedSecret, false, dns.RcodeSuccess},
			{"signed, with EDNS", "feed.", feedSecret, true, dns.RcodeSuccess},
			{"signed by another secret", "feed.", "b3RoZXI=", false, bad},
			{"signed by another key", "other.", feedSecret, false, bad},
		} {
			c := dns.Client{Net: transport, Timeout: time.Minute}
			m := new(dns.Msg).SetNotify("feed.rpz.")
			if tt.edns {
				m.SetEdns0(1232, false)
			}
			if tt.key != "" {
				c.TsigSecret = map[string]string{tt.key: tt.secret}
				m.SetTsig(tt.key, dns.HmacSHA256, 300, time.Now().Unix())
			}
			r, _, err := c.Exchange(m, server)
			if tt.rcode != dns.RcodeSuccess && r != nil {
				err = nil // the signature of a refusal is not verified
			}
			if err != nil || r.Rcode != tt.rcode || r.Opcode != dns.OpcodeNotify {
				t.Errorf("%s over %s: %v, %v", tt.name, transport, r, err)
				continue
			}
			if tt.rcode == dns.RcodeSuccess && r.IsTsig() == nil {
				t.Errorf("%s over %s: the answer is not signed", tt.name, transport)
			}
		}
	}
}
