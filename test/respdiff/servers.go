// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/test/lab"
)

// records are the names of the zone example., by key and value as in the columns of a DNS row. Keys without a type are
// addresses.
var records = [][2]string{
	{"db.example", "10.0.0.9 fd00:10::9"},
	{"ns.dns.example", "10.0.0.53"},
	{"many.example", addresses(29)},
	{"huge.example", addresses(90)},
	{"*.apps.example", "10.0.0.10"},
	{"deep.empty.example", "10.0.0.11"},
	{"dns-txt/db.example", `"a text" two`},
	{"dns-mx/db.example", "10 db.example."},
	{"dns-srv/_http._tcp.example", "10 5 80 db.example."},
	{"dns-cname/www.example", "db.example."},
	{"dns-cname/miss.example", "nosuch.example."},
	{"dns-cname/out.example", "www.outside."},
	{"dns-cname/loop.example", "loop.example."},
}

// outsideZone has the names that all three ask the upstream for.
const outsideZone = `
www.outside. 300 IN A 192.0.2.1
www.outside. 300 IN AAAA 2001:db8::1
alias.outside. 300 IN CNAME www.outside.
txt.outside. 300 IN TXT "outside"
`

// resolve answers as a recursive resolver does that knows outsideZone.
func resolve(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	if len(r.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		_ = w.WriteMsg(m)
		return
	}
	q := r.Question[0]
	name, exists := dns.CanonicalName(q.Name), false
	for p := dns.NewZoneParser(strings.NewReader(outsideZone), ".", ""); ; {
		rr, ok := p.Next()
		if !ok {
			break
		}
		if rr.Header().Name != name {
			continue
		}
		exists = true
		cname, alias := rr.(*dns.CNAME)
		switch t := rr.Header().Rrtype; {
		case t == q.Qtype || q.Qtype == dns.TypeANY:
			m.Answer = append(m.Answer, rr)
		case alias:
			m.Answer = append(m.Answer, rr)
			name = cname.Target
			p = dns.NewZoneParser(strings.NewReader(outsideZone), ".", "")
		}
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		zone := "."
		if labels := dns.SplitDomainName(q.Name); len(labels) > 0 {
			zone = strings.ToLower(labels[len(labels)-1]) + "."
		}
		soa, _ := dns.NewRR(zone + " 5 IN SOA ns.upstream. lab.upstream. 1 3600 600 86400 5")
		m.Ns = []dns.RR{soa}
	}
	if o := r.IsEdns0(); o != nil {
		m.SetEdns0(1232, o.Do())
	}
	_ = w.WriteMsg(m)
}

// addresses returns so many IPv4 addresses.
func addresses(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " 10.0.2.%d", i+1)
	}
	return b.String()[1:]
}

// zoneFile is the zone as a file, with the apex of puntdns.
func zoneFile() string {
	var b strings.Builder
	b.WriteString("example. 60 IN SOA ns.dns.example. hostmaster.example. 1 7200 1800 86400 5\nexample. 60 IN NS ns.dns.example.\n")
	for _, r := range records {
		kind, name, typed := strings.Cut(r[0], "/")
		if typed {
			fmt.Fprintf(&b, "%s. 60 IN %s %s\n", name, strings.TrimPrefix(kind, "dns-"), r[1])
			continue
		}
		for address := range strings.FieldsSeq(r[1]) {
			qtype := "A"
			if strings.Contains(address, ":") {
				qtype = "AAAA"
			}
			fmt.Fprintf(&b, "%s. 60 IN %s %s\n", r[0], qtype, address)
		}
	}
	return b.String()
}

// server is one of the three.
type server struct {
	name    string
	host    *lab.Host // that it is asked from
	address string
}

// Places in the node's namespace.
const (
	corednsAddr = "127.0.0.1:5301"
	unboundAddr = "127.0.0.1:5302"
	readyAddr   = "127.0.0.1:8181"
	metricsAddr = "127.0.0.1:9153"
	// resolver is the address of puntdns, in the guest's namespace.
	resolver = "169.254.169.254:53"
)

// start starts the lab and the servers. puntdns is the first of them.
func start(t *lab.Program, puntdns, coredns string) []server {
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.AddRouter("red-router", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24"}})
	guest := l.Node.AddGuest(lab.Guest{
		Name: "red-vm", Switch: "red", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24"),
		Gateway4: lab.Addr("10.0.0.1"), PortSecurity: true,
	})
	addresses, typed := map[string]string{}, []string{}
	for _, r := range records {
		if strings.Contains(r[0], "/") {
			typed = append(typed, fmt.Sprintf("external_ids:%q=%q", r[0], r[1]))
		} else {
			addresses[r[0]] = r[1]
		}
	}
	l.NBCTL(append([]string{"set", "DNS", l.AddDNS(addresses, "red")}, typed...)...)
	upstream := l.Upstream()
	upstream.SetHandler(dns.HandlerFunc(resolve))
	l.Sync()

	zone := l.WriteFile("example.zone", zoneFile())
	launch(t, l, "puntdns", puntdns, "-conf", l.WriteFile("Corefile.puntdns", fmt.Sprintf(`. {
    ofpunt %s {
        openflow %s
        ovsdb %s
        rate off
    }
    metadata
    errors
    prometheus %s
    ready %s
    ovnhosts {
        southbound %s
        northbound %s
        domain example
        ttl 60
        fallthrough
    }
    private
    cache 30
    forward . %s
}
`, lab.Bridge, l.Node.OpenFlow, l.Node.OVSDB, metricsAddr, readyAddr, l.SB, l.NB, upstream.Addr)))
	host, port, _ := net.SplitHostPort(corednsAddr)
	launch(t, l, "coredns", coredns, "-conf", l.WriteFile("Corefile.coredns", fmt.Sprintf(
		".:%s {\n    bind %s\n    errors\n    file %s example\n    cache 30\n    forward . %s\n}\n", port, host, zone, upstream.Addr)))
	launch(t, l, "unbound", "/usr/sbin/unbound", "-d", "-c", l.WriteFile("unbound.conf", fmt.Sprintf(`
server:
	chroot: ""
	username: ""
	directory: %q
	pidfile: ""
	use-syslog: no
	interface: %s
	do-not-query-localhost: no
	module-config: "iterator"
remote-control:
	control-enable: no
auth-zone:
	name: example.
	zonefile: %q
	for-downstream: yes
	for-upstream: yes
forward-zone:
	name: "."
	forward-addr: %s
`, l.Dir, strings.Replace(unboundAddr, ":", "@", 1), zone, strings.Replace(upstream.Addr, ":", "@", 1))))

	servers := []server{{"puntdns", guest.Host, resolver}, {"CoreDNS", l.Node.Host, corednsAddr}, {"Unbound", l.Node.Host, unboundAddr}}
	for _, s := range servers {
		l.Eventually(s.name+" answers", func() error {
			// The last of the two is of the DNS row in Northbound.
			for _, name := range []string{"db.example.", "www.example.", "www.outside."} {
				b, _ := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
				if a := newAnswer(b, s.exchange(b, "udp", time.Second)); a["rcode"] != "NOERROR" || !strings.Contains(a["answer"], " A ") {
					return fmt.Errorf("%s: %v", name, a)
				}
			}
			return nil
		})
	}
	return servers
}

// launch starts a program on the node, by its path.
func launch(t *lab.Program, l *lab.Lab, name, path string, args ...string) {
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatalf("respdiff: %v", err)
	}
	l.Node.Start(name, nil, slices.Concat([]string{path}, args)...)
}

// exchange sends a message and returns the next one, nil for none within the limit.
func (s server) exchange(query []byte, network string, limit time.Duration) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := s.host.Dial(ctx, network, s.address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil
	}
	co := &dns.Conn{Conn: conn, UDPSize: dns.MaxMsgSize}
	if _, err := co.Write(query); err != nil {
		return nil
	}
	b := make([]byte, dns.MaxMsgSize)
	n, err := co.Read(b)
	if err != nil {
		return nil
	}
	return b[:n]
}
