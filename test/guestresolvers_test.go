// SPDX-License-Identifier: Apache-2.0

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// guestDomain is the domain of one tenant, as a resolver that validates sees it.
type guestDomain struct {
	tenant, name string
	// insecure is set if there is a proof that the domain has no keys. Without one a
	// validating resolver needs an exception for it.
	insecure bool
	db       string // the IPv4 address of the name db
}

var guestDomains = []guestDomain{
	{"red", "cloud.example.com", true, "10.0.1.101"},     // delegated without DS records
	{"gold", "private.example.com", false, "10.0.1.102"}, // not delegated in a zone that is signed
	{"green", "home.arpa", true, "10.0.1.103"},           // the tenant's domain itself is delegated so
	{"lime", "cloud.home.arpa", true, "10.0.1.105"},      // it is below that
	{"blue", "cloud.internal", false, "10.0.1.104"},      // there is no such top-level domain
}

// resolving is a lab of tenants with the same addresses and a domain each, behind puntdns with
// an upstream that is signed.
type resolving struct {
	*lab.Lab
	root   signedRoot
	guests map[string]*lab.Guest // by tenant
	server *server
}

// resolvingCorefile has other plugins before the cache.
func resolvingCorefile(root signedRoot, plugins string) string {
	return pipelineCorefile("", "northbound $NB\n        fallthrough", plugins+"\n    cache 30\n    forward . "+root.server)
}

func newResolving(t *testing.T) *resolving {
	t.Helper()
	l := lab.New(t, lab.Options{})
	n := &resolving{Lab: l, root: serveSigned(t, l), guests: make(map[string]*lab.Guest)}
	for _, d := range guestDomains {
		l.AddSwitch(d.tenant, "other_config:dns_domain="+d.name)
		l.AddRouter("r-"+d.tenant, lab.RouterPort{Switch: d.tenant, MAC: "02:00:00:00:01:01", Networks: []string{"10.0.1.1/24", "fd00:1::1/64"}})
		l.AddDNS(map[string]string{"db." + d.name: d.db}, d.tenant)
		n.guests[d.tenant] = aclGuest(l, d.tenant, 1, 1)
	}
	l.Sync()
	n.server = serve(t, l, resolvingCorefile(n.root, ""))
	return n
}

// TestGuestResolvers has what docs/guests.md says of clients in guests.
func TestGuestResolvers(t *testing.T) {
	t.Parallel()
	n := newResolving(t)
	t.Run("libraries", func(t *testing.T) { testLibraries(t, n) })
	t.Run("forwarders", func(t *testing.T) { testForwarders(t, n) })
	t.Run("validators", func(t *testing.T) { testValidators(t, n) })
	n.server.endWell()
	t.Run("dns64", func(t *testing.T) { testDNS64(t, n) })
}

// asGoClient is the environment variable that makes the test binary a client.
const asGoClient = "PUNTDNS_TEST_GO_CLIENT"

// goClient does what testdata/lookup.c does, by Go's own resolver.
func goClient(names []string) {
	resolver := &net.Resolver{PreferGo: true}
	for _, name := range names {
		addresses, err := resolver.LookupHost(context.Background(), name)
		if notFound := (*net.DNSError)(nil); errors.As(err, &notFound) && notFound.IsNotFound {
			fmt.Println("no such host")
		} else if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(strings.Join(addresses, " "))
		}
	}
}

// library is a resolver that is part of a program.
type library struct {
	name string
	argv []string // of a program that prints the addresses of each of its arguments
	none string   // what it prints of a name that does not exist
}

func libraries(t *testing.T, l *lab.Lab) []library {
	t.Helper()
	compile := func(compiler, name string) string {
		t.Helper()
		path := filepath.Join(l.Dir, name)
		if _, err := l.Node.Exec(within(t, wait), compiler, "-Wall", "-Werror", "-o", path, "testdata/lookup.c"); err != nil {
			lab.Lack(t, "%s: %v", compiler, err)
		}
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []library{
		{"glibc", []string{compile("gcc", "lookup.glibc")}, "Name or service not known"},
		{"musl", []string{compile("musl-gcc", "lookup.musl")}, "Name does not resolve"},
		{"Go", []string{"env", asGoClient + "=1", self}, "no such host"},
	}
}

// withResolvConf wraps a command, which finds text in /etc/resolv.conf.
func withResolvConf(t *testing.T, text string, argv ...string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"resolv.conf": text, "nsswitch.conf": "hosts: files dns\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `for f in resolv.conf nsswitch.conf; do mount --bind "$0/$f" /etc/$f; done; exec "$@"`
	return append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-ec", script, dir}, argv...)
}

// lookup resolves names in a guest with that resolv.conf. It returns a line for each, with the
// addresses in order.
func (lib library) lookup(t *testing.T, g *lab.Guest, resolv string, names ...string) []string {
	t.Helper()
	out, err := g.Exec(within(t, wait), withResolvConf(t, resolv, slices.Concat(lib.argv, names)...)...)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines {
		switch words := strings.Fields(line); {
		case line == lib.none:
			lines[i] = "none"
		case len(words) > 0 && net.ParseIP(words[0]) != nil:
			slices.Sort(words)
			lines[i] = strings.Join(words, " ")
		}
	}
	return lines
}

// resolvConf is what a guest is told, and what its programs find then.
type resolvConf struct {
	name      string
	servers   []string
	rest      string // of the file
	questions []lookupOf
	except    string // the library that finds none of these, or empty
}

type lookupOf struct{ name, want string }

// text is the file.
func (c resolvConf) text() string {
	var b strings.Builder
	for _, s := range c.servers {
		fmt.Fprintln(&b, "nameserver", s)
	}
	return b.String() + c.rest
}

// resolvConfs are for a tenant, one of the resolver addresses, and the address of another server
// in the guest, which has no name of ours.
func resolvConfs(d guestDomain, resolver, other string) []resolvConf {
	const self, outside = "10.0.1.11 fd00:1::11", "192.0.2.80 2001:db8::80"
	search := "search " + d.name + "\n"
	label, parent, _ := strings.Cut(d.name, ".")
	all := []lookupOf{
		{"vm1", self}, {"db", d.db}, {"VM1." + d.name, self}, {"db." + d.name, d.db},
		{"www.example.com", outside}, {"missing", "none"}, {"missing." + d.name, "none"}, {"missing.example.com", "none"},
	}
	return []resolvConf{
		{"IPv4", []string{resolver4}, search, all, ""},
		{"IPv6", []string{resolver6}, search, all, ""},
		{"both", []string{resolver4, resolver6}, search, all, ""},
		// Hostnames of ports are found bare, names of rows are not.
		{"no search domain", []string{resolver}, "", []lookupOf{{"vm1", self}, {"db", "none"}}, ""},
		{"name with a dot", []string{resolver}, "search " + parent + "\n", []lookupOf{{"vm1." + label, self}}, "musl"},
		{"name with a dot, ndots", []string{resolver}, "search " + parent + "\noptions ndots:2\n", []lookupOf{{"vm1." + label, self}}, ""},
		{"another server behind", []string{resolver, other}, search, []lookupOf{{"vm1", self}, {"missing", "none"}}, ""},
		// What musl finds here is from whichever server is first.
		{"another server before", []string{other, resolver}, search, []lookupOf{{"vm1", "none"}, {"www.example.com", "203.0.113.1"}}, ""},
	}
}

// Each C library and Go, in tenants with equal addresses.
func testLibraries(t *testing.T, n *resolving) {
	for i, d := range []guestDomain{guestDomains[0], guestDomains[len(guestDomains)-1]} {
		g := n.guests[d.tenant]
		for j, lib := range libraries(t, n.Lab) {
			// A server for each library: what musl has sent may come after it has ended.
			address := fmt.Sprintf("127.0.0.%d", 9+j)
			other := g.ServeDNS(address+":53", "www.example.com. 60 IN A 203.0.113.1")
			for _, c := range resolvConfs(d, resolvers[i], address) {
				askAll := lib.name == "musl" && slices.Contains(c.servers, address)
				if askAll && c.name == "another server before" {
					continue
				}
				t.Run(lib.name+", "+d.tenant+", "+c.name, func(t *testing.T) {
					var names, want []string
					for _, q := range c.questions {
						if lib.name == c.except {
							q.want = "none"
						}
						names, want = append(names, q.name), append(want, q.want)
					}
					before := len(other.Asked())
					if got := lib.lookup(t, g, c.text(), names...); !askAll && !slices.Equal(got, want) {
						t.Errorf("%q: %q, want %q\n%s", names, got, want, c.text())
					}
					if !askAll && c.servers[0] != address {
						if len(other.Asked()) > before {
							t.Errorf("the other server was asked\n%s", c.text())
						}
						return
					}
					n.Eventually("a question to the other server", func() error {
						if len(other.Asked()) == before {
							return errors.New(c.text())
						}
						return nil
					})
				})
			}
		}
	}
}

// askedOwn is a question to a resolver of the guest's own, and what it answers.
type askedOwn struct {
	args []string
	want string // status, data, and "ad" if it has validated them
}

func askOwn(t *testing.T, g *lab.Guest, questions []askedOwn) {
	t.Helper()
	for _, q := range questions {
		r := g.Dig(append([]string{"+time=20", "@127.0.0.1"}, q.args...)...)
		got := r.String()
		if slices.Contains(r.Flags, "ad") {
			got += " ad"
		}
		if got != q.want {
			t.Errorf("%q: %s, want %s\n%s", q.args, got, q.want, r.Out)
		}
	}
}

// Resolvers in guests that forward and do not validate.
func testForwarders(t *testing.T, n *resolving) {
	for _, daemon := range guestDaemons {
		for i, d := range guestDomains {
			resolver := resolvers[i%len(resolvers)]
			t.Run(daemon.name+", "+d.tenant, func(t *testing.T) {
				g := n.guests[d.tenant]
				daemon.run(t, n, g, daemonOptions{to: resolver})
				askOwn(t, g, []askedOwn{
					{[]string{"vm1"}, "NOERROR 10.0.1.11"},
					{[]string{"DB." + d.name}, "NOERROR " + d.db},
					{[]string{"missing." + d.name}, "NXDOMAIN"},
					{[]string{"www.example.com"}, "NOERROR 192.0.2.80"},
					{[]string{"missing.example.com"}, "NXDOMAIN"},
					{[]string{"-x", d.db}, "NOERROR db." + d.name + "."},
					{[]string{"-x", "fd00:1::11"}, "NOERROR vm1." + d.name + "."},
				})
			})
		}
	}
}

// Resolvers in guests that forward and validate: names of a domain without a proof that it has
// no keys need an exception; a single label has none either.
func testValidators(t *testing.T, n *resolving) {
	for _, daemon := range guestDaemons {
		for i, d := range guestDomains {
			resolver := resolvers[i%len(resolvers)]
			for _, excepted := range []bool{false, true} {
				if d.insecure && excepted {
					continue
				}
				name := daemon.name + ", " + d.tenant
				o := daemonOptions{to: resolver, validates: true}
				db, self, missing := "SERVFAIL", "SERVFAIL", "SERVFAIL"
				if excepted {
					name += ", excepted"
					o.except = d.name
				}
				if d.insecure || excepted {
					db, self, missing = "NOERROR "+d.db, "NOERROR fd00:1::11", "NXDOMAIN"
				}
				t.Run(name, func(t *testing.T) {
					g := n.guests[d.tenant]
					daemon.run(t, n, g, o)
					askOwn(t, g, []askedOwn{
						{[]string{"db." + d.name}, db},
						{[]string{"vm1." + d.name, "AAAA"}, self},
						{[]string{"missing." + d.name}, missing},
						{[]string{"vm1"}, "SERVFAIL"},
						{[]string{"www.example.com"}, "NOERROR 192.0.2.80 ad"},
						{[]string{"missing.example.com"}, "NXDOMAIN ad"},
						{[]string{"-x", d.db}, "NOERROR db." + d.name + "."},
					})
				})
			}
		}
	}
}

// dns64 serves who asks fd00::254, local names too, and others with allow_ipv4.
func testDNS64(t *testing.T, n *resolving) {
	const local, outside = "NOERROR 64:ff9b::a00:165", "NOERROR 64:ff9b::c000:204"
	for _, tt := range []struct {
		name, plugins string
		want4         bool // 169.254.169.254 makes addresses too
	}{
		{name: "dns64", plugins: "dns64"},
		{name: "allow_ipv4", plugins: "dns64 {\n        allow_ipv4\n    }", want4: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, n.Lab, resolvingCorefile(n.root, tt.plugins))
			for _, resolver := range resolvers {
				for name, want := range map[string]string{"db.cloud.example.com": local, "four.example.com": outside} {
					if resolver == resolver4 && !tt.want4 {
						want = "NOERROR"
					}
					expect(t, n.guests["red"], want, "@"+resolver, name, "AAAA")
				}
				expect(t, n.guests["red"], "NOERROR fd00:1::11", "@"+resolver, "vm1.cloud.example.com", "AAAA")
				expect(t, n.guests["red"], "NOERROR 2001:db8::80", "@"+resolver, "www.example.com", "AAAA")
			}
			s.endWell()
		})
	}
}
