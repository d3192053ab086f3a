// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// usualCorefile is a Corefile as users of CoreDNS write them. $OFPUNT and $OVNHOSTS stand for
// these plugins with the endpoints of the lab, $READY for what tells that it is up, $UP and $UP2
// for two upstreams, and $DIR for the folder of the files.
type usualCorefile struct {
	name, text string
	files      map[string]string // beside the Corefile, by name
	// wrong is what a reload is refused for: a text of the Corefile, what it becomes, and an
	// expression for the error.
	wrong [3]string
	// right is a reload that is taken: a text of the Corefile and what it becomes.
	right [2]string
	asked []usualQuestion
}

// usualQuestion is asked over UDP and TCP.
type usualQuestion struct {
	tenant, name string // either tenant if empty
	qtype        uint16
	want         string // in short
	// then is what it is after the reload, want if empty.
	then string
	// query changes the query, check looks at the answer; nil for neither.
	query func(*dns.Msg)
	check func(*dns.Msg) error
	// udp is set for what TCP is not punted for.
	udp bool
}

// Corefiles as users of CoreDNS write them: each is started, asked by two tenants that have the
// same addresses, reloaded wrongly, which changes nothing, and rightly.
func TestUsualCorefiles(t *testing.T) {
	t.Parallel()
	const labs = 3
	for i := range labs {
		t.Run(fmt.Sprintf("lab%d", i+1), func(t *testing.T) {
			t.Parallel()
			n := newUsual(t)
			for j := i; j < len(usualCorefiles); j += labs {
				t.Run(usualCorefiles[j].name, func(t *testing.T) { n.run(t, &usualCorefiles[j]) })
			}
		})
	}
}

// usual is two tenants and two upstreams that do not agree.
type usual struct {
	overlap
	up, up2 *lab.DNSServer
}

func newUsual(t *testing.T) usual {
	t.Helper()
	n := usual{overlap: newOverlap(t)}
	n.up = n.Upstream("www.example.org. 60 IN A 192.0.2.1", "www.example.net. 60 IN A 192.0.2.2", "old.example.org. 60 IN CNAME www.example.org.",
		"ads.example.org. 60 IN A 192.0.2.6", "svc-a.example.org. 60 IN A 192.0.2.7", "six.example.org. 60 IN AAAA 2001:db8::6")
	n.up2 = n.Upstream("www.example.org. 60 IN A 192.0.2.101", "www.example.net. 60 IN A 192.0.2.102")
	return n
}

// run takes the Corefile through its life.
func (n usual) run(t *testing.T, c *usualCorefile) {
	dir := t.TempDir()
	for name, text := range c.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(n.fill(text, dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := n.fill(c.text, dir)
	s := launch(t, n.Lab, n.Node, "usual-"+strings.ReplaceAll(c.name, " ", "-"), text)
	s.ready(200)
	n.ask(t, c, false)

	s.rewrite(t, replaced(t, text, n.fill(c.wrong[0], dir), n.fill(c.wrong[1], dir)))
	s.log(logReloadRefused + ".* stays in force: .*" + c.wrong[2])
	n.ask(t, c, false)

	s.reload(replaced(t, text, n.fill(c.right[0], dir), n.fill(c.right[1], dir)))
	n.ask(t, c, true)
	s.endWell()
}

// fill puts the lab into a text.
func (n usual) fill(text, dir string) string {
	text = strings.NewReplacer(
		"$OFPUNT", "ofpunt br-int {\n openflow $MGMT\n ovsdb $OVSDB\n rate off\n }",
		"$OVNHOSTS", "ovnhosts {\n southbound $SB\n fallthrough\n }",
		"$READY", "ready "+readyAddr+" {\n monitor continuously\n }",
		"$UP2", n.up2.Addr, "$UP", n.up.Addr, "$DIR", dir,
	).Replace(text)
	return corefile(n.Lab, text)
}

// replaced returns the text with one part of it replaced, which it must have.
func replaced(t *testing.T, text, from, to string) string {
	t.Helper()
	if !strings.Contains(text, from) {
		t.Fatalf("the Corefile has no %q:\n%s", from, text)
	}
	return strings.Replace(text, from, to, 1)
}

// rewrite writes another Corefile and has it read.
func (s *server) rewrite(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
}

// reload has another Corefile read, and waits until it is in force.
func (s *server) reload(text string) {
	s.t.Helper()
	s.logsAfter(func() { s.rewrite(s.t, text) }, logReload)
}

// ask asks all questions of a Corefile, twice, for the cache's sake.
func (n usual) ask(t *testing.T, c *usualCorefile, reloaded bool) {
	t.Helper()
	for range 2 {
		for _, q := range c.asked {
			for tenant, g := range map[string]*lab.Guest{"red": n.red, "blue": n.blue} {
				if q.tenant != "" && q.tenant != tenant {
					continue
				}
				if reloaded && q.then != "" {
					q.want = q.then
				}
				if err := q.askedBy(t, g); err != nil {
					t.Errorf("%s asks for %s %s (reloaded: %v): %v", tenant, q.name, dns.TypeToString[q.qtype], reloaded, err)
				}
			}
		}
	}
}

// askedBy asks over UDP and IPv4, then over TCP and IPv6.
func (q *usualQuestion) askedBy(t *testing.T, g *lab.Guest) error {
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	if q.query != nil {
		q.query(m)
	}
	ctx := within(t, wait)
	r, _, err := g.Exchange(ctx, m, net.JoinHostPort(resolver4, "53"))
	if err == nil {
		err = q.judge(r)
	}
	if err != nil || q.udp {
		return err
	}
	r, _, err = g.ExchangeTCP(ctx, m, net.JoinHostPort(resolver6, "53"))
	if err == nil {
		err = q.judge(r)
	}
	if err != nil {
		return fmt.Errorf("over TCP: %w", err)
	}
	return nil
}

func (q *usualQuestion) judge(r *dns.Msg) error {
	if got := inShort(r); got != q.want {
		return fmt.Errorf("%s, want %s", got, q.want)
	}
	if q.check != nil {
		if err := q.check(r); err != nil {
			return fmt.Errorf("%w: %v", err, r)
		}
	}
	return nil
}

var errWrongFlags = errors.New("wrong flags")

// flags checks AA and RA of an answer.
func flags(aa, ra bool) func(*dns.Msg) error {
	return func(r *dns.Msg) error {
		if r.Authoritative != aa || r.RecursionAvailable != ra {
			return errWrongFlags
		}
		return nil
	}
}
