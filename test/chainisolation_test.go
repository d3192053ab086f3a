// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

var (
	randomSeed  = flag.Uint64("seed", 0, "of TestChainIsolation, 0 for a random one")
	randomSteps = flag.Int("corefiles", 0, "how many Corefiles TestChainIsolation has, 0 for 10, or 30 where CI=true")
)

// secrets are what only one tenant may be told: names, addresses, what dns64 makes of them, and
// what its upstream, its own server and its files say.
var secrets = map[string]*regexp.Regexp{
	"red":  regexp.MustCompile(`\b(red|left)\b|10\.0\.1\.10[123]|fd00:1::101|a00:16[567]|198\.51\.100\.7|2001:db8:7::|c633:6407`),
	"blue": regexp.MustCompile(`\b(blue|right)\b|10\.0\.1\.20[123]|fd00:1::201|a00:1c[9ab]|203\.0\.113\.7|2001:db8:8::|cb00:7107`),
}

// Whatever the Corefile, no answer to one tenant has a byte of the other's: random Corefiles of
// all plugins, each a reload; tenants with the same addresses and names, who ask the same
// questions at the same time, with and without RD and EDNS, over UDP and TCP.
func TestChainIsolation(t *testing.T) {
	t.Parallel()
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	n := newIsolated(t, rand.New(rand.NewPCG(seed, 1)))
	s := serve(t, n.Lab, n.fill(". {\n $OFPUNT\n $READY\n ovnhosts {\n southbound $SB\n }\n}\n"))
	taken, told := 0, map[string]int{}
	steps := *randomSteps
	switch {
	case steps > 0:
	case os.Getenv("CI") == "true":
		steps = 30
	default:
		steps = 10
	}
	for i := range steps {
		text := n.fill(randomCorefile(n.random, n.plugins))
		if !n.reload(t, s, text) {
			continue
		}
		taken++
		if !n.askBoth(t, told) {
			t.Fatalf("Corefile %d:\n%s", i, text)
		}
	}
	t.Logf("%d Corefiles of %d were taken; answers with data of the asker's own: %v", taken, steps, told)
	least := steps / 2
	if steps < 30 {
		least = steps / 4 // by chance fewer of a few
	}
	if taken < least {
		t.Errorf("%d Corefiles of %d were taken, want %d", taken, steps, least)
	}
	for tenant := range secrets {
		if told[tenant] < taken {
			t.Errorf("%s was told its own data %d times, want %d: the test proves little", tenant, told[tenant], taken)
		}
	}
	s.endWell()
}

// isolated is two tenants, each with a DNS server of its own; and an upstream and a zone file for
// each, and for others.
type isolated struct {
	overlap
	random  *rand.Rand
	plugins []string // those that a random Corefile may have
	places  *strings.Replacer
}

func newIsolated(t *testing.T, r *rand.Rand) *isolated {
	t.Helper()
	n := &isolated{overlap: newOverlap(t), random: r, plugins: writtenPlugins(t)}
	for _, sw := range []string{"red", "blue"} {
		// Thousands of connections meet the bug of Open vSwitch 3.1 that suite.sh tells of.
		n.NBCTL("acl-del", sw)
	}
	n.Sync()
	dir := t.TempDir()
	places := []string{"$OFPUNT", "ofpunt br-int {\n openflow $MGMT\n ovsdb $OVSDB\n rate off\n }",
		"$READY", "ready " + readyAddr + " {\n monitor continuously\n }", "$DIR", dir}
	for tenant, own := range map[string][2]string{
		"red": {"198.51.100.7", "2001:db8:7::7"}, "blue": {"203.0.113.7", "2001:db8:8::7"}, "other": {"192.0.2.7", "2001:db8:9::7"},
	} {
		up := n.Upstream()
		up.SetHandler(echo{tenant, own})
		zone := fmt.Sprintf("$ORIGIN corp.example.\n@ 60 IN SOA ns.%[1]s hostmaster 1 3600 600 86400 60\n@ 60 IN NS ns.%[1]s\n"+
			"www 60 IN A %[2]s\ndb 60 IN CNAME db.internal.\nout 60 IN CNAME www.example.org.\n*.wild 60 IN TXT %[1]s\n", tenant, own[0])
		if err := os.WriteFile(filepath.Join(dir, tenant+".zone"), []byte(zone), 0o644); err != nil {
			t.Fatal(err)
		}
		policy := fmt.Sprintf("$ORIGIN %[1]s.rpz.\n$TTL 60\n@ SOA ns.%[1]s hostmaster 1 3600 600 86400 60\n@ NS ns.%[1]s\n"+
			"any.example.org TXT %[1]s\n*.alias.example.org CNAME *.garden.example.\nwho.example CNAME rpz-tcp-only.\n32.7.2.0.192.rpz-ip A %[2]s\n"+
			"32.7.100.51.198.rpz-ip CNAME www.%[1]s.example.\n32.7.113.0.203.rpz-ip CNAME .\n", tenant, own[0])
		if err := os.WriteFile(filepath.Join(dir, tenant+".rpz"), []byte(policy), 0o644); err != nil {
			t.Fatal(err)
		}
		places = append(places, "$UP-"+tenant, up.Addr, "$OWN4-"+tenant, own[0], "$OWN6-"+tenant, own[1])
	}
	outside := n.Node.Outside(netip.MustParsePrefix("9.9.0.0/24"), "10.1.0.0/16")
	for tenant, own := range map[string]struct{ server, addr4, addr6 string }{
		"red": {"10.1.0.53", "198.51.100.7", "2001:db8:7::7"}, "blue": {"10.1.0.63", "203.0.113.7", "2001:db8:8::7"},
	} {
		outside.ServeDNS(own.server + ":53").SetHandler(echo{tenant, [2]string{own.addr4, own.addr6}})
		n.NBCTL("set", "Logical_Switch", tenant, fmt.Sprintf(`external_ids:dns-forward="forward.example=%[1]s;internal=%[1]s;1.0.10.in-addr.arpa=%[1]s"`, own.server))
		row := strings.TrimSpace(n.NBCTL("create", "DNS", "external_ids:dns-txt/own.internal="+tenant,
			fmt.Sprintf(`external_ids:dns-mx/own.internal="10 %[1]s.example.\n20 db.internal."`, tenant),
			fmt.Sprintf(`external_ids:dns-srv/_x._tcp.own.internal="0 0 53 %s.example."`, tenant),
			`external_ids:dns-cname/to.own.internal="db.internal."`, `external_ids:dns-cname/out.own.internal="www.example.org."`,
			`external_ids:dns-cname/*.wild.own.internal="www.forward.example."`))
		n.NBCTL("add", "Logical_Switch", tenant, "dns_records", row)
	}
	first := "$ORIGIN first.rpz.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\n*.example.org CNAME .\n"
	if err := os.WriteFile(filepath.Join(dir, "first.rpz"), []byte(first), 0o644); err != nil {
		t.Fatal(err)
	}
	n.places = strings.NewReplacer(places...)
	return n
}

// fill puts the lab into a text.
func (n *isolated) fill(text string) string { return corefile(n.Lab, n.places.Replace(text)) }

// writtenPlugins returns the plugins of the binary that a random Corefile may have. Each plugin
// has phrases, or a reason to have none.
func writtenPlugins(t *testing.T) (plugins []string) {
	t.Helper()
	out, err := exec.Command(puntdns, "-plugins").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range strings.Fields(string(out)) {
		switch {
		case len(phrases[p]) > 0:
			plugins = append(plugins, p)
		case wontWrite[p] == "":
			t.Errorf("the random Corefiles know nothing of the plugin %s", p)
		}
	}
	return plugins
}

// echo is an upstream that answers with an address of its own, and over TXT with what it is told
// of who asks. Names in alias.example.org are aliases of a name of the tenants.
type echo struct {
	tenant string
	own    [2]string
}

// ServeDNS implements dns.Handler.
func (e echo) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	q := r.Question[0]
	data := ""
	switch {
	case strings.HasPrefix(strings.ToLower(q.Name), "none."):
		m.Rcode = dns.RcodeNameError
	case strings.HasSuffix(strings.ToLower(q.Name), "alias.example.org."):
		data = "CNAME target.example.org."
	case q.Qtype == dns.TypeA:
		data = "A " + e.own[0]
	case q.Qtype == dns.TypeAAAA && !strings.HasPrefix(strings.ToLower(q.Name), "www."):
		data = "AAAA " + e.own[1]
	case q.Qtype == dns.TypeTXT:
		data = fmt.Sprintf("TXT %q", e.tenant+localOptions(r))
	case q.Qtype == dns.TypePTR:
		data = "PTR " + e.tenant + ".example.org."
	}
	if data != "" {
		rr, err := dns.NewRR(q.Name + " 5 IN " + data)
		if err != nil {
			return // which the guest will tell of
		}
		m.Answer = []dns.RR{rr}
	} else {
		m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "example.org.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 5},
			Ns: e.tenant + ".example.org.", Mbox: "x.example.org.", Serial: 1, Refresh: 60, Retry: 60, Expire: 60, Minttl: 5}}
	}
	if o := r.IsEdns0(); o != nil {
		m.SetEdns0(1232, o.Do())
	}
	_ = w.WriteMsg(m) // a client that has gone is no failure
}

// localOptions is what the options of a query say.
func localOptions(r *dns.Msg) (text string) {
	o := r.IsEdns0()
	if o == nil {
		return ""
	}
	for _, option := range o.Option {
		if local, ok := option.(*dns.EDNS0_LOCAL); ok {
			text += " " + string(local.Data)
		}
	}
	return text
}

// reload has another Corefile read, and reports whether it is taken.
func (n *isolated) reload(t *testing.T, s *server, text string) bool {
	t.Helper()
	before := s.told(logReloadRefused)
	s.logsAfter(func() { s.rewrite(t, text) }, logReload+"|"+logReloadRefused)
	if s.told(logReloadRefused) == before {
		return true
	}
	log := s.Log()
	_, why, _ := strings.Cut(log[strings.LastIndex(log, logReloadRefused):], "stays in force: ")
	t.Log("refused: " + strings.Split(why, "\n")[0])
	return false
}

// isolationQuestions are what both tenants ask. No name has a secret in it.
var isolationQuestions = []dns.Question{
	{Name: "db.internal.", Qtype: dns.TypeA}, {Name: "DB.Internal.", Qtype: dns.TypeAAAA}, {Name: "db.internal.", Qtype: dns.TypeANY}, {Name: "db.internal.", Qtype: dns.TypeTXT},
	{Name: "peer.", Qtype: dns.TypeA}, {Name: "peer.internal.", Qtype: dns.TypeA}, {Name: "vm1.", Qtype: dns.TypeAAAA}, {Name: "both.internal.", Qtype: dns.TypeA}, {Name: "none.internal.", Qtype: dns.TypeA},
	{Name: "50.1.0.10.in-addr.arpa.", Qtype: dns.TypePTR}, {Name: "internal.", Qtype: dns.TypeSOA},
	{Name: "me.example.", Qtype: dns.TypeA}, {Name: "alias.example.", Qtype: dns.TypeA}, {Name: "db.svc.example.", Qtype: dns.TypeA},
	{Name: "who.example.", Qtype: dns.TypeTXT}, {Name: "maybe.example.", Qtype: dns.TypeA}, {Name: "via.example.", Qtype: dns.TypeA}, {Name: "hosts.example.", Qtype: dns.TypeAAAA},
	{Name: "www.corp.example.", Qtype: dns.TypeA}, {Name: "db.corp.example.", Qtype: dns.TypeA}, {Name: "out.corp.example.", Qtype: dns.TypeAAAA}, {Name: "x.wild.corp.example.", Qtype: dns.TypeTXT},
	{Name: "corp.example.", Qtype: dns.TypeAXFR},
	{Name: "www.example.org.", Qtype: dns.TypeA}, {Name: "WWW.example.org.", Qtype: dns.TypeAAAA}, {Name: "any.example.org.", Qtype: dns.TypeTXT}, {Name: "none.example.org.", Qtype: dns.TypeA},
	{Name: "www.forward.example.", Qtype: dns.TypeA}, {Name: "WWW.forward.example.", Qtype: dns.TypeTXT}, {Name: "none.forward.example.", Qtype: dns.TypeA},
	{Name: "own.internal.", Qtype: dns.TypeTXT}, {Name: "OWN.internal.", Qtype: dns.TypeMX}, {Name: "_x._tcp.own.internal.", Qtype: dns.TypeSRV},
	{Name: "to.own.internal.", Qtype: dns.TypeA}, {Name: "out.own.internal.", Qtype: dns.TypeAAAA}, {Name: "x.wild.own.internal.", Qtype: dns.TypeA},
	{Name: "x.alias.example.org.", Qtype: dns.TypeA}, {Name: "localhost.", Qtype: dns.TypeA},
}

// askBoth has both tenants ask everything at the same time, in an order of their own, and reports
// whether nobody was told a secret of the other. It counts in told who was told one of its own.
func (n *isolated) askBoth(t *testing.T, told map[string]int) bool {
	t.Helper()
	var (
		mu   sync.Mutex // guards told and failed
		wg   sync.WaitGroup
		fail error
	)
	for tenant, g := range map[string]*lab.Guest{"red": n.red, "blue": n.blue} {
		other := map[string]string{"red": "blue", "blue": "red"}[tenant]
		random := rand.New(rand.NewPCG(n.random.Uint64(), 2))
		wg.Go(func() {
			own, err := askAll(t.Context(), g, random, secrets[tenant], secrets[other])
			mu.Lock()
			defer mu.Unlock()
			told[tenant] += own
			if err != nil {
				fail = errors.Join(fail, fmt.Errorf("%s: %w", tenant, err))
			}
		})
	}
	wg.Wait()
	if fail != nil {
		t.Error(fail)
	}
	return fail == nil
}

// askAll asks each question some times and returns how many answers have something of the own
// secrets. An answer with one of the others is an error.
func askAll(ctx context.Context, g *lab.Guest, random *rand.Rand, own, others *regexp.Regexp) (told int, err error) {
	for range 3 {
		for _, i := range random.Perm(len(isolationQuestions)) {
			q := isolationQuestions[i]
			m := new(dns.Msg).SetQuestion(q.Name, q.Qtype)
			m.RecursionDesired = random.IntN(3) > 0
			if random.IntN(2) > 0 {
				m.SetEdns0(1232, random.IntN(2) > 0)
			}
			ask, resolver := g.Exchange, resolver4
			if random.IntN(4) == 0 {
				ask, resolver = g.ExchangeTCP, resolver6
			}
			ctx, cancel := context.WithTimeout(ctx, wait)
			r, _, err := ask(ctx, m, net.JoinHostPort(resolver, "53"))
			cancel()
			if err != nil {
				return told, fmt.Errorf("%s %s: %w", q.Name, dns.TypeToString[q.Qtype], err)
			}
			text := data(r)
			if others.MatchString(text) {
				return told, fmt.Errorf("%s %s is answered with another's data, by the expression %s:\n%v", q.Name, dns.TypeToString[q.Qtype], others, r)
			}
			if own.MatchString(text) {
				told++
			}
		}
	}
	return told, nil
}

// data is all that an answer says, but for its question.
func data(r *dns.Msg) string {
	var b strings.Builder
	for _, section := range [][]dns.RR{r.Answer, r.Ns, r.Extra} {
		for _, rr := range section {
			b.WriteString(strings.ToLower(rr.String()) + "\n")
		}
	}
	return b.String()
}

// The tables of the random Corefiles name plugins that there are.
func TestRandomCorefilePlugins(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(puntdns, "-plugins").Output()
	if err != nil {
		t.Fatal(err)
	}
	there := strings.Fields(string(out))
	for _, p := range slices.Concat(slices.Collect(maps.Keys(phrases)), slices.Collect(maps.Keys(wontWrite))) {
		if !slices.Contains(there, p) {
			t.Errorf("there is no plugin %s", p)
		}
	}
}
