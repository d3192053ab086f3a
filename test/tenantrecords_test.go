// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
	"github.com/puntdns/puntdns/test/pages"
)

// recordCommands are the commands of "Other Records" in the README of ovnhosts: those that
// make the records of the switch red, and those that remove one.
func recordCommands(t *testing.T) (set, remove string) {
	t.Helper()
	_, blocks := pages.Section(t, "..", "plugin/ovnhosts/README.md#other-records", "sh")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of commands, want 2", len(blocks))
	}
	return blocks[0].Text, blocks[1].Text
}

// shell runs commands as an operator does, and returns what they print.
func shell(t *testing.T, l *lab.Lab, commands string) string {
	t.Helper()
	out, err := l.Node.Exec(within(t, wait), "env", "OVN_NB_DB="+l.NB, "sh", "-euc", commands)
	if err != nil {
		t.Fatalf("%v\n%s", err, commands)
	}
	return strings.TrimSpace(out)
}

// Two tenants with the same addresses and the same names have records of all types, set as
// documented, and each sees its own.
func TestTenantRecords(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	upstream := n.Upstream("www.example.org. 60 IN A 192.0.2.5", "big.example.org. 60 IN A 192.0.2.6", "blue.internal. 60 IN A 192.0.2.7")
	set, remove := recordCommands(t)
	rows := map[string]string{}
	for _, tenant := range []string{"red", "blue"} {
		commands := strings.ReplaceAll(set, "Logical_Switch red", "Logical_Switch "+tenant)
		if tenant == "blue" {
			commands = strings.NewReplacer("10.0.1.21", "10.0.1.22", "10.0.1.25", "10.0.1.26", "10 mx1", "15 mx1", "8080", "8081", "v=spf1 mx", "v=spf1 a", "shared", "own").Replace(commands)
		}
		rows[tenant] = shell(t, n.Lab, commands+"\necho $DNS")
	}
	more := func(tenant string, kv ...string) {
		args := []string{"set", "DNS", rows[tenant]}
		for i := 0; i < len(kv); i += 2 {
			args = append(args, fmt.Sprintf("external_ids:dns-%s=%q", kv[i], kv[i+1]))
		}
		n.NBCTL(args...)
	}
	long := strings.Repeat(`"`+strings.Repeat("x", 200)+`" `, 10)
	more("red", "cname/out.red.example", "www.example.org", "cname/loop1.red.example", "loop2.red.example", "cname/loop2.red.example", "loop1.red.example",
		"cname/theirs.red.example", "mail.blue.example", "cname/both.internal", "web.red.example", "txt/long.red.example", long,
		"cname/nowhere.red.example", "nowhere.example.org")
	more("blue", "cname/out.red.example", "big.example.org", "txt/mail.blue.example", "blue")
	n.NBCTL("set", "DNS", rows["blue"], `records:mail.blue.example="10.0.1.27"`)
	n.Sync()

	text := func(placement, last string) string {
		return `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        ` + unlimited(placement) + `
    }
    metadata
    errors
    prometheus ` + metricsAddr + `
    ovnhosts {
        southbound $SB
        northbound $NB
        fallthrough
    }
    ready ` + readyAddr + ` {
        monitor continuously
    }
    ` + last + `
}`
	}
	s := serve(t, n.Lab, text("", "cache\n    forward . "+upstream.Addr))
	for _, tt := range []struct{ name, qtype, red, blue string }{
		{"www.red.example", "A", "NOERROR web.red.example. 10.0.1.21", "NOERROR web.red.example. 10.0.1.22"},
		{"WWW.red.example", "CNAME", "NOERROR web.red.example.", "NOERROR web.red.example."},
		{"www.red.example", "AAAA", "NOERROR web.red.example.", "NOERROR web.red.example."},
		{"red.example", "MX", "NOERROR 10 mx1.red.example. 20 mx.example.org.", "NOERROR 15 mx1.red.example. 20 mx.example.org."},
		{"_http._tcp.red.example", "SRV", "NOERROR 10 5 8080 web.red.example.", "NOERROR 10 5 8081 web.red.example."},
		{"red.example", "TXT", `NOERROR "v=spf1 mx -all"`, `NOERROR "v=spf1 a -all"`},
		{"red.example", "ANY", `NOERROR 10 mx1.red.example. 20 mx.example.org. "v=spf1 mx -all"`, `NOERROR 15 mx1.red.example. 20 mx.example.org. "v=spf1 a -all"`},
		{"shop.apps.red.example", "TXT", `NOERROR "shared"`, `NOERROR "own"`},
		{"apps.red.example", "TXT", "NOERROR", "NOERROR"}, // it has names below it
		{"21.1.0.10.in-addr.arpa", "PTR", "NOERROR web.red.example.", "NXDOMAIN"},
		{"out.red.example", "A", "NOERROR www.example.org. 192.0.2.5", "NOERROR big.example.org. 192.0.2.6"},
		{"nowhere.red.example", "A", "NXDOMAIN nowhere.example.org.", "NXDOMAIN"},
		{"loop1.red.example", "A", "SERVFAIL", "NXDOMAIN"},
		{"theirs.red.example", "A", "NXDOMAIN mail.blue.example.", "NXDOMAIN"},
		{"theirs.red.example", "TXT", "NXDOMAIN mail.blue.example.", "NXDOMAIN"},
		{"mail.blue.example", "TXT", "NXDOMAIN", `NOERROR "blue"`},
		{"both.internal", "A", "NOERROR 10.0.1.9", "NOERROR 10.0.1.9"}, // an address wins
	} {
		for _, transport := range []string{"+notcp", "+tcp"} {
			for range 2 { // what is in cache the second time
				for _, who := range []struct {
					guest *lab.Guest
					want  string
				}{{n.red, tt.red}, {n.blue, tt.blue}} {
					expect(t, who.guest, who.want, "@"+resolver4, transport, tt.name, tt.qtype)
				}
			}
		}
	}
	t.Run("an answer over the size of a datagram", func(t *testing.T) {
		r, err := exchange(within(t, wait), n.red, resolver4, "long.red.example.", dns.TypeTXT)
		if err != nil || !r.Truncated {
			t.Errorf("%v %v", r, err)
		}
		if got := n.red.Dig("@"+resolver6, "long.red.example", "TXT"); len(got.Answer) != 1 || len(got.Answer[0].(*dns.TXT).Txt) != 10 {
			t.Errorf("after TC: %s", got.Out)
		}
	})
	t.Run("addresses of targets", func(t *testing.T) {
		for guest, want := range map[*lab.Guest]string{n.red: "10.0.1.25", n.blue: "10.0.1.26"} {
			r, err := exchange(within(t, wait), guest, resolver4, "red.example.", dns.TypeMX)
			if err != nil || len(r.Extra) != 1 || r.Extra[0].(*dns.A).A.String() != want {
				t.Errorf("%s: %v %v", guest.Name, r, err)
			}
		}
	})
	t.Run("what leaves the node", func(t *testing.T) {
		for _, name := range []string{"www.red.example.", "red.example.", "web.red.example.", "out.red.example.", "_http._tcp.red.example."} {
			if n := upstream.Count(name); n > 0 {
				t.Errorf("%s: the upstream was asked %d times", name, n)
			}
		}
		if upstream.Count("www.example.org.") == 0 || upstream.Count("big.example.org.") == 0 {
			t.Errorf("asked %v", upstream.Asked())
		}
	})
	t.Run("what does not count is told", func(t *testing.T) {
		if got := s.told(`the CNAME record of "both.internal." skipped on switch "red"`); got != 1 {
			t.Errorf("%d lines\n%s", got, s.Log())
		}
	})
	t.Run("changes", func(t *testing.T) {
		follows(t, n.red, "www.red.example.", dns.TypeA, "NOERROR mx1.red.example. 10.0.1.25", func() { more("red", "cname/www.red.example", "mx1.red.example") })
		follows(t, n.red, "red.example.", dns.TypeMX, "NOERROR 5 mx5.red.example.", func() { more("red", "mx/red.example", "5 mx5.red.example\nnone") })
		follows(t, n.red, "www.red.example.", dns.TypeA, "NXDOMAIN", func() { shell(t, n.Lab, "DNS="+rows["red"]+"\n"+remove) })
		expect(t, n.blue, "NOERROR web.red.example. 10.0.1.22", "@"+resolver4, "www.red.example", "A")
	})
	s.endWell()

	// In hijack mode the target of an alias is no question of the guest's, so it is not sent
	// to the server that the guest has asked.
	s = serve(t, n.Lab, text("address any", "passthrough"))
	for _, tt := range []struct{ name, want string }{
		{"both.internal", "NOERROR 10.0.1.9"},
		{"_http._tcp.red.example", "NOERROR"},
		{"out.red.example", "NOERROR www.example.org."},
		{"loop1.red.example", "SERVFAIL"},
	} {
		expect(t, n.red, tt.want, "@192.0.2.53", tt.name, "A")
	}
	s.endWell()
}
