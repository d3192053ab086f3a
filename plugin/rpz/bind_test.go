// SPDX-License-Identifier: Apache-2.0

package rpz_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/tsig"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/testkit"
	_ "github.com/puntdns/puntdns/plugin/rpz"
	"github.com/puntdns/puntdns/test/lab"
)

// What differs on purpose, or is not compared; the README lists what an operator may notice.
//
//   - recursive-only: BIND applies no rule to queries without RD. All questions here have it, and
//     TestWithoutRD those without.
//   - qname-wait-recurse: BIND asks its upstream even where a rule for the name decides, and has
//     SERVFAIL where that fails. It is set to no here.
//   - any-signed: to ANY, BIND rewrites signed answers too, for those who ask for signatures. No
//     such question is asked; TestSigned has what is answered here.
//   - any-ttl: to ANY, BIND gives the TTL of policies to records that a passthru rule has let
//     pass. What ANY brings is compared without TTLs, and without the signatures that BIND has in
//     its cache.
//   - ad: BIND sets AD in some answers that it has cut short, TC and YXDOMAIN, for queries with AD
//     or DO; nothing was verified there.
//   - nested: where two zones have the same two prefixes, one within the other, and an answer has an
//     address in each, BIND 9.18 uses the shorter one of the first zone, else the longer one, as it
//     says. The last zone here has no prefixes within others.
//   - tc-rcode: an answer with TC by tcp-only is NXDOMAIN in BIND where its cache has that; without
//     asking nobody knows. Its rcode is not compared.
//   - BIND has a cache, this plugin has none: TTLs over a minute count as equal.
const cacheMinute = 60 // seconds

// bindQuestions is enough for each pair of rules to meet in each order, and takes some seconds.
const bindQuestions = 10_000

// TestAsBIND asks BIND and this plugin the same questions, with the same policy zones and the
// same authority behind them.
func TestAsBIND(t *testing.T) {
	named, err := exec.LookPath("named")
	if err != nil {
		lab.Lack(t, "there is no BIND: %v", err)
	}
	world := newWorld(rand.New(rand.NewPCG(1, 2)))
	upstream := serveAuthority(t, world)
	dir := world.writeZones(t)
	bind := startBIND(t, named, dir, upstream, world)
	ours := startServer(t, world.corefile(dir, upstream))

	questions := make(chan question)
	go func() {
		defer close(questions)
		for range bindQuestions {
			questions <- world.question()
		}
	}()
	var mu sync.Mutex
	outcomes, differences := map[string]int{}, 0
	var asking sync.WaitGroup
	for range 128 {
		asking.Go(func() {
			for q := range questions {
				want, got := q.askBoth(bind, ours)
				mu.Lock()
				outcomes[got.kind()]++
				if got.text != want.text {
					if differences++; differences <= 20 {
						t.Errorf("%s\n  BIND: %s\n  rpz:  %s", q, want.text, got.text)
					}
				}
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	t.Logf("%d questions, %d differences, outcomes %v", bindQuestions, differences, outcomes)
	for _, kind := range []string{"drop", "TC", "rewritten NXDOMAIN", "rewritten NOERROR", "NXDOMAIN", "NOERROR", "rewritten YXDOMAIN"} {
		if outcomes[kind] == 0 {
			t.Errorf("no question had the outcome %s", kind)
		}
	}
}

// policyZone is a policy zone of the world.
type policyZone struct {
	name, bind, ours string // the policy, as BIND and this plugin call it
	rules            []string
}

// world is what there is to ask for, and the rules.
type world struct {
	rng   *rand.Rand
	names []string
	zones []*policyZone
}

var worldLabels = []string{"a", "b", "c", "www", "mail"}

// newWorld makes names of a few labels, so that rules meet: names at, above, below and beside the names of
// rules.
func newWorld(rng *rand.Rand) *world {
	w := &world{rng: rng}
	for _, l1 := range worldLabels {
		for _, l2 := range worldLabels {
			for i := range 6 {
				base := fmt.Sprintf("%s.d%d.test.", l2, i)
				w.names = append(w.names, l1+"."+base, base, fmt.Sprintf("d%d.test.", i), l2+"."+l1+"."+base,
					fmt.Sprintf("alias%d.%s.%s.chain.", i, l1, l2), fmt.Sprintf("nx.%s.d%d.test.", l1, i))
			}
		}
	}
	slices.Sort(w.names)
	w.names = append(slices.Compact(w.names), strings.Repeat("long-label-of-thirty-characters.", 7)+"test.")
	for _, z := range []policyZone{
		{name: "first.rpz"}, {name: "log.rpz", bind: "disabled", ours: "log"}, {name: "addresses.rpz"},
		{name: "second.rpz"}, {name: "nx.rpz", bind: "nxdomain", ours: "nxdomain"}, {name: "nodata.rpz", bind: "nodata", ours: "nodata"},
		{name: "pass.rpz", bind: "passthru", ours: "passthru"}, {name: "drop.rpz", bind: "drop", ours: "drop"},
		{name: "tcp.rpz", bind: "tcp-only", ours: "tcp-only"}, {name: "last.rpz"},
	} {
		w.zones = append(w.zones, &z)
		w.fill(&z)
	}
	return w
}

// fill gives a zone rules for some names and addresses. A zone with rules for addresses is the
// third of them, so that there are rules for names before and behind it.
func (w *world) fill(z *policyZone) {
	owners := map[string]bool{}
	add := func(owner, data string) {
		if !owners[owner] {
			owners[owner] = true
			for _, d := range strings.Split(data, "; ") {
				z.rules = append(z.rules, owner+" "+d)
			}
		}
	}
	for range 24 {
		owner := strings.TrimSuffix(w.names[w.rng.IntN(len(w.names))], ".")
		if w.rng.IntN(3) == 0 {
			owner = "*." + owner
		}
		if len(owner) < 150 {
			add(owner, w.policy())
		}
	}
	add("*.long-label-of-thirty-characters.test", "CNAME *.a-garden-with-a-name-that-is-long.example.")
	if z.name == "addresses.rpz" || z.name == "last.rpz" {
		for range 8 {
			net := w.rng.IntN(4)
			add(fmt.Sprintf("24.0.%d.0.10.rpz-ip", w.rng.IntN(4)), w.policy())
			add(fmt.Sprintf("48.zz.%d.db8.2001.rpz-ip", 1+w.rng.IntN(4)), w.policy())
			if z.name == "last.rpz" { // nested
				continue
			}
			add(fmt.Sprintf("32.%d.%d.0.10.rpz-ip", w.rng.IntN(16), net), w.policy())
			add(fmt.Sprintf("28.0.%d.0.10.rpz-ip", net), w.policy())
			add(fmt.Sprintf("128.%x.zz.%d.db8.2001.rpz-ip", 1+w.rng.IntN(15), 1+net), w.policy())
		}
	}
}

func (w *world) policy() string {
	return []string{
		"CNAME .", "CNAME *.", "CNAME rpz-passthru.", "CNAME rpz-drop.", "CNAME rpz-tcp-only.",
		"A 192.0.2.1; A 192.0.2.2; TXT \"blocked\"", "600 AAAA 2001:db8:ff::1", "2 A 192.0.2.3",
		"CNAME garden.example.", "CNAME *.garden.example.", "CNAME nowhere.example.", "CNAME alias0.a.b.chain.",
	}[w.rng.IntN(12)]
}

// writeZones writes a file for each zone, and returns their folder.
func (w *world) writeZones(t *testing.T) string {
	dir := t.TempDir()
	// BIND gives up its rights after it has read its configuration.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, z := range w.zones {
		text := "$TTL 60\n@ SOA ns.rpz. hostmaster.rpz. 7 3600 600 86400 60\n@ NS ns.rpz.\n" + strings.Join(z.rules, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, z.name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (w *world) corefile(dir, upstream string) string {
	var b strings.Builder
	for _, z := range w.zones {
		policy := z.ours
		if policy == "" {
			policy = "given"
		}
		fmt.Fprintf(&b, "        zone %s file %s policy %s\n", z.name, filepath.Join(dir, z.name), policy)
	}
	return fmt.Sprintf(".:PORT {\n    bind 127.0.0.1\n    rpz {\n%s        required\n    }\n    forward . %s\n}\n", b.String(), upstream)
}

// setDirectives sets the order of the plugins of servers in this process.
func setDirectives(t testing.TB) {
	t.Helper()
	caddy.Quiet, dnsserver.Quiet = true, true
	if err := dnsserver.SetDirectives([]string{"bind", "metadata", "prometheus", "tsig", "rpz", "cache", "forward"}); err != nil {
		t.Fatal(err)
	}
}

// startServer starts a server of CoreDNS in this process, and returns its address.
func startServer(t *testing.T, corefile string) string {
	t.Helper()
	address := testkit.FreeAddress(t)
	startServerAt(t, address, corefile)
	return address
}

// startServerAt is startServer for an address of loopback.
func startServerAt(t *testing.T, address, corefile string) {
	t.Helper()
	setDirectives(t)
	_, port, _ := net.SplitHostPort(address)
	corefile = strings.ReplaceAll(corefile, "PORT", port)
	i := corefiletest.Start(t, caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	t.Cleanup(func() {
		i.ShutdownCallbacks()
		i.Stop()
	})
}

// startBIND starts named on loopback, and returns its address.
func startBIND(t *testing.T, named, dir, upstream string, w *world) string {
	t.Helper()
	address := testkit.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	_, upstreamPort, _ := net.SplitHostPort(upstream)
	var policies, zones strings.Builder
	for _, z := range w.zones {
		policy := ""
		if z.bind != "" {
			policy = " policy " + z.bind
		}
		fmt.Fprintf(&policies, "zone %q%s; ", z.name, policy)
		fmt.Fprintf(&zones, "zone %q { type primary; file %q; notify no; };\n", z.name, filepath.Join(dir, z.name))
	}
	text := fmt.Sprintf(`options {
	directory %q; pid-file none; session-keyfile none;
	listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; };
	recursion yes; dnssec-validation no; empty-zones-enable no; minimal-responses yes; minimal-any no;
	forward only; forwarders { 127.0.0.1 port %s; };
	tcp-clients 500; recursive-clients 10000; servfail-ttl 0;
	response-policy { %s } qname-wait-recurse no nsip-enable no nsdname-enable no;
};
controls { };
%s`, dir, port, upstreamPort, policies.String(), zones.String())
	// Its policy zones are in use some time after its sockets.
	runNamed(t, named, dir, text, func(log string) bool { return strings.Contains(log, "rpz: ") && loadedAll(log, w) })
	return address
}

// runNamed runs named with a configuration until the end of the test or a call of stop, and waits until it
// runs and its log is as wanted.
func runNamed(t *testing.T, named, dir, text string, ready func(log string) bool) (stop func()) {
	t.Helper()
	conf := filepath.Join(dir, "named.conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "named.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(named, "-g", "-4", "-n", "1", "-c", conf)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	stop = sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
	})
	t.Cleanup(stop)
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		text, _ := os.ReadFile(log.Name())
		if strings.Contains(string(text), "running") && ready(string(text)) {
			return stop
		}
		select {
		case <-ended:
			t.Fatalf("BIND has ended:\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	said, _ := os.ReadFile(log.Name())
	t.Fatalf("BIND does not start:\n%s", said)
	return nil
}

func loadedAll(log string, w *world) bool {
	for _, z := range w.zones {
		if !strings.Contains(log, "rpz: "+z.name+": reload done") {
			return false
		}
	}
	return true
}

// serveAuthority serves a handler on a port of loopback, and returns its address.
func serveAuthority(t testing.TB, h dns.Handler) string {
	t.Helper()
	address := testkit.FreeAddress(t)
	pc, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go s.ActivateAndServe()
		<-started
		t.Cleanup(func() { s.Shutdown() })
	}
	return pc.LocalAddr().String()
}

// sum is a number made of a name.
func sum(name string) (n int) {
	for _, c := range []byte(strings.ToLower(name)) {
		n = (n*31 + int(c)) & 0xffffff
	}
	return n
}

// ServeDNS implements dns.Handler: each name has addresses, or a chain of CNAME records, or is
// not there, as it says itself. Half of the names are signed.
func (w *world) ServeDNS(rw dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	do := false
	if o := r.IsEdns0(); o != nil {
		m.SetEdns0(4096, o.Do())
		do = o.Do()
	}
	name := q.Name
	add := func(format string, args ...any) {
		rr, err := dns.NewRR(fmt.Sprintf("%s 3600 %s", name, fmt.Sprintf(format, args...)))
		if err != nil {
			panic(err)
		}
		if t := rr.Header().Rrtype; t != dns.TypeCNAME && t != q.Qtype && q.Qtype != dns.TypeANY {
			return
		}
		has := slices.ContainsFunc(m.Answer, func(o dns.RR) bool { return o.Header().Rrtype == rr.Header().Rrtype && o.Header().Name == name })
		m.Answer = append(m.Answer, rr)
		if do && isSignedName(name) && !has {
			m.Answer = append(m.Answer, signature(rr))
		}
	}
	for strings.HasPrefix(strings.ToLower(name), "alias") && q.Qtype != dns.TypeCNAME && q.Qtype != dns.TypeANY && len(m.Answer) < 8 {
		target := w.target(name)
		add("CNAME %s", target)
		name = target
	}
	n := sum(name)
	switch low := strings.ToLower(name); {
	case strings.HasPrefix(low, "alias"):
		add("CNAME %s", w.target(name))
	case strings.HasPrefix(low, "nx.") || strings.HasPrefix(low, "nowhere.") || !strings.Contains(low, "test.") && !strings.Contains(low, "garden"):
		m.Rcode = dns.RcodeNameError
	default:
		add("A 10.0.%d.%d", n&3, n>>2&15)
		if n&64 == 0 && (n>>3&3 != n&3 || n>>5&15 != n>>2&15) {
			add("A 10.0.%d.%d", n>>3&3, n>>5&15)
		}
		add("AAAA 2001:db8:%d::%x", 1+n&3, 1+n>>2&15)
		add(`TXT "%d"`, n)
	}
	if !slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == q.Qtype || q.Qtype == dns.TypeANY }) {
		top := "." // BIND asks for its NS records
		if labels := dns.SplitDomainName(name); len(labels) > 0 {
			top = labels[len(labels)-1] + "."
		}
		soa, _ := dns.NewRR(top + " 3600 SOA ns.test. hostmaster.test. 1 3600 600 86400 3600")
		m.Ns = append(m.Ns, soa)
	}
	rw.WriteMsg(m)
}

// isANYName reports whether a name is asked for by the type ANY, and by no other: what BIND has in
// its cache of a name is its answer to ANY.
func isANYName(name string) bool { return sum(name)%16 == 1 }

func isSignedName(name string) bool { return sum(name)&16 == 0 }

// target is what an alias leads to: mostly a name with addresses, but other aliases too. No
// chain is a ring, since each leads to a later one.
func (w *world) target(name string) string {
	n := sum(name)
	if n%3 == 0 {
		var next int
		fmt.Sscanf(strings.ToLower(name), "alias%d", &next)
		if next < 5 {
			return fmt.Sprintf("alias%d.%s.b.chain.", next+1, worldLabels[n%5])
		}
	}
	for i := n; ; i++ {
		if t := w.names[i%len(w.names)]; !strings.HasPrefix(t, "alias") && len(t) < 100 && !isANYName(t) {
			return t
		}
	}
}

// signature only looks like a signature: no test verifies it.
func signature(rr dns.RR) dns.RR {
	h := rr.Header()
	return &dns.RRSIG{
		Hdr:         dns.RR_Header{Name: h.Name, Rrtype: dns.TypeRRSIG, Class: dns.ClassINET, Ttl: h.Ttl},
		TypeCovered: h.Rrtype, Algorithm: dns.ECDSAP256SHA256, Labels: uint8(dns.CountLabel(h.Name)), OrigTtl: h.Ttl,
		Expiration: 4000000000, Inception: 1500000000, KeyTag: 1, SignerName: "test.", Signature: "AAAA",
	}
}

// question is one question, and how it is asked.
type question struct {
	name              string
	qtype             uint16
	tcp, edns, do, ad bool
}

func (q question) String() string {
	return fmt.Sprintf("%s %s tcp=%v edns=%v do=%v ad=%v", q.name, dns.Type(q.qtype), q.tcp, q.edns, q.do, q.ad)
}

func (w *world) question() question {
	q := question{name: w.names[w.rng.IntN(len(w.names))]}
	switch w.rng.IntN(4) {
	case 0: // below it
		q.name = worldLabels[w.rng.IntN(len(worldLabels))] + "." + q.name
	case 1: // nearly it
		q.name = "x" + q.name
	}
	if len(q.name) > 200 {
		q.name = w.names[len(w.names)-1]
	}
	q.qtype = []uint16{dns.TypeA, dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeCNAME}[w.rng.IntN(8)]
	if isANYName(q.name) {
		q.qtype = dns.TypeANY
	}
	q.tcp = w.rng.IntN(4) == 0
	q.edns = w.rng.IntN(2) == 0
	q.do = q.edns && w.rng.IntN(2) == 0 && q.qtype != dns.TypeANY // any-signed
	q.ad = w.rng.IntN(4) == 0
	return q
}

func (q question) message() *dns.Msg {
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	m.AuthenticatedData = q.ad
	if q.edns {
		m.SetEdns0(1232, q.do)
	}
	return m
}

// outcome is what came back.
type outcome struct {
	msg  *dns.Msg // nil for nothing
	text string
}

// askBoth asks both, and again with patience where one has not answered.
func (q question) askBoth(bind, ours string) (want, got outcome) {
	for _, patience := range []time.Duration{700 * time.Millisecond, 10 * time.Second} {
		var both sync.WaitGroup
		both.Go(func() { want = q.ask(bind, patience) })
		got = q.ask(ours, patience)
		both.Wait()
		if (want.msg == nil) == (got.msg == nil) {
			break
		}
	}
	return want, got
}

func (q question) ask(address string, patience time.Duration) (o outcome) {
	c := dns.Client{Net: "udp", Timeout: patience, UDPSize: 4096}
	if q.tcp {
		c.Net = "tcp"
	}
	m, _, err := c.Exchange(q.message(), address)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, io.EOF):
		return outcome{text: "drop"}
	case err != nil:
		return outcome{text: err.Error()}
	}
	return outcome{m, describe(m)}
}

// describe returns the parts of an answer that the test compares.
func describe(m *dns.Msg) string {
	isANY := m.Question[0].Qtype == dns.TypeANY // any-ttl
	if m.Truncated || m.Rcode == dns.RcodeYXDomain {
		m.AuthenticatedData = false // ad
	}
	if m.Truncated {
		m.Rcode = dns.RcodeSuccess // tc-rcode
	}
	words := []string{dns.RcodeToString[m.Rcode]}
	for flag, set := range map[string]bool{"tc": m.Truncated, "aa": m.Authoritative, "ra": m.RecursionAvailable, "ad": m.AuthenticatedData} {
		if set {
			words = append(words, flag)
		}
	}
	slices.Sort(words[1:])
	for _, s := range []struct {
		name string
		rrs  []dns.RR
	}{{"answer", m.Answer}, {"authority", m.Ns}, {"additional", m.Extra}} {
		var all []string
		for _, rr := range s.rrs {
			h := rr.Header()
			if h.Rrtype == dns.TypeOPT || isANY && h.Rrtype == dns.TypeRRSIG {
				continue
			}
			if h.Ttl > cacheMinute || isANY {
				h.Ttl = 3600
			}
			all = append(all, strings.ToLower(strings.ReplaceAll(rr.String(), "\t", " ")))
		}
		slices.Sort(all)
		words = append(words, s.name)
		words = append(words, all...)
	}
	return strings.Join(words, " | ")
}

// kind is the outcome in short.
func (o outcome) kind() string {
	switch {
	case o.msg == nil:
		return o.text
	case o.msg.Truncated:
		return "TC"
	}
	for _, rr := range o.msg.Extra {
		if rr.Header().Rrtype == dns.TypeSOA {
			return "rewritten " + dns.RcodeToString[o.msg.Rcode]
		}
	}
	return dns.RcodeToString[o.msg.Rcode]
}
