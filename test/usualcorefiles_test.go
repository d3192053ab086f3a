// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/hex"
	"fmt"

	"github.com/miekg/dns"
)

// usualCorefiles are the Corefiles of TestUsualCorefiles.
var usualCorefiles = []usualCorefile{
	{
		name: "forward and cache",
		text: `. {
    $OFPUNT
    errors
    log
    $READY
    loadbalance round_robin
    $OVNHOSTS
    cache 30
    forward . $UP
}`,
		wrong: [3]string{"cache 30", "cash 30", `Unknown directive 'cash'`},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{tenant: "red", name: "blue.internal.", qtype: dns.TypeA, want: "NXDOMAIN"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
			{name: "none.example.org.", qtype: dns.TypeA, want: "NXDOMAIN"},
		},
	},
	{
		name: "rewrite chain",
		text: `. {
    $OFPUNT
    errors
    $READY
    rewrite continue name exact database.internal store.internal answer auto
    rewrite name exact store.internal db.internal answer auto
    rewrite stop name regex (.*)\.svc\.local svc-{1}.example.org answer auto
    rewrite name suffix .corp.example .example.org answer auto
    rewrite stop type AAAA A
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{`(.*)\.svc`, `(.*\.svc`, "rewrite"},
		right: [2]string{"name suffix .corp.example .example.org", "name suffix .corp.example .example.net"},
		asked: []usualQuestion{
			{tenant: "red", name: "database.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101", check: ownersAre("database.internal.")},
			{tenant: "blue", name: "database.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201", check: ownersAre("database.internal.")},
			{name: "a.svc.local.", qtype: dns.TypeA, want: "NOERROR 192.0.2.7", check: ownersAre("a.svc.local.")},
			{name: "www.corp.example.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.2", check: ownersAre("www.corp.example.")},
		},
	},
	{
		name: "rewrite of ttl and cname",
		text: `. {
    $OFPUNT
    errors
    $READY
    rewrite continue ttl regex .*\.example\.org 5
    rewrite cname exact www.example.org. red.internal.
    $OVNHOSTS
    forward . $UP
}`,
		wrong: [3]string{"ttl regex", "ttl wildcard", "rewrite"},
		right: [2]string{"red.internal.", "blue.internal."},
		asked: []usualQuestion{
			// The target is looked up in the asker's own network.
			{tenant: "red", name: "old.example.org.", qtype: dns.TypeA, want: "NOERROR red.internal. 10.0.1.103", then: "NOERROR blue.internal."},
			{tenant: "blue", name: "old.example.org.", qtype: dns.TypeA, want: "NOERROR red.internal.", then: "NOERROR blue.internal. 10.0.1.203"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", check: func(r *dns.Msg) error {
				if ttl := r.Answer[0].Header().Ttl; ttl != 5 {
					return fmt.Errorf("TTL %d, want 5", ttl)
				}
				return nil
			}},
		},
	},
	{
		name: "template by tenant",
		text: `. {
    $OFPUNT
    metadata
    errors
    $READY
    $OVNHOSTS
    template IN TXT whoami.example {
        answer "{{ .Name }} 60 IN TXT \"{{ .Meta \"ofpunt/switch\" }} {{ .Remote }}\""
    }
    template IN A ip-(?P<a>\d+)-(?P<b>\d+)\.example {
        match "ip-(?P<a>\d+)-(?P<b>\d+)\.example\.$"
        answer "{{ .Name }} 60 IN A 10.0.{{ .Group.a }}.{{ .Group.b }}"
        fallthrough
    }
    forward . $UP
}`,
		wrong: [3]string{"{{ .Remote }}", "{{ .Remote", "template"},
		right: [2]string{"{{ .Remote }}", "on {{ .Meta \\\"ofpunt/bridge\\\" }}"},
		asked: []usualQuestion{
			{tenant: "red", name: "whoami.example.", qtype: dns.TypeTXT, want: `NOERROR "red 10.0.1.11"`, then: `NOERROR "red on br-int"`, udp: true},
			{tenant: "blue", name: "whoami.example.", qtype: dns.TypeTXT, want: `NOERROR "blue 10.0.1.11"`, then: `NOERROR "blue on br-int"`, udp: true},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1"},
		},
	},
	{
		name: "dns64",
		text: `. {
    $OFPUNT
    errors
    $READY
    dns64 {
        prefix 64:ff9b::/96
        translate_all
        allow_ipv4
    }
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"64:ff9b::/96", "64:ff9b::/33", "dns64"},
		right: [2]string{"64:ff9b::/96", "2001:db8:64::/96"},
		asked: []usualQuestion{
			{tenant: "red", name: "red.internal.", qtype: dns.TypeAAAA, want: "NOERROR 64:ff9b::a00:167", then: "NOERROR 2001:db8:64::a00:167"},
			{tenant: "blue", name: "blue.internal.", qtype: dns.TypeAAAA, want: "NOERROR 64:ff9b::a00:1cb", then: "NOERROR 2001:db8:64::a00:1cb"},
			{name: "www.example.org.", qtype: dns.TypeAAAA, want: "NOERROR 64:ff9b::c000:201", then: "NOERROR 2001:db8:64::c000:201"},
		},
	},
	{
		name: "views with forward and cache",
		text: `(common) {
    $OFPUNT
    metadata
    errors
    $READY
    $OVNHOSTS
    cache
}
. {
    import common
    view red {
        expr metadata('ofpunt/switch') == 'red'
    }
    forward . $UP
}
. {
    import common
    view blue {
        expr metadata('ofpunt/switch') == 'blue' && type() in ['A', 'AAAA']
    }
    forward . $UP2
}
. {
    import common
    template ANY ANY {
        rcode REFUSED
    }
}`,
		wrong: [3]string{"== 'red'", "== 'red", "view"},
		right: [2]string{"forward . $UP2", "forward . $UP"},
		asked: []usualQuestion{
			{tenant: "red", name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1"},
			{tenant: "blue", name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.101", then: "NOERROR 192.0.2.1"},
			{tenant: "blue", name: "www.example.org.", qtype: dns.TypeTXT, want: "REFUSED"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
		},
	},
	{
		name: "file zone for a tenant",
		text: `. {
    $OFPUNT
    metadata
    errors
    $READY
    view red {
        expr metadata('ofpunt/switch') == 'red'
    }
    $OVNHOSTS
    cache
    file $DIR/corp.zone corp.example {
        reload 0
    }
    forward . $UP
}
. {
    $OFPUNT
    metadata
    $OVNHOSTS
    cache
    forward . $UP
}`,
		files: map[string]string{"corp.zone": `$ORIGIN corp.example.
@ 60 IN SOA ns hostmaster 1 3600 600 86400 60
@ 60 IN NS ns
@ 60 IN MX 10 mail
ns 60 IN A 192.0.2.53
mail 60 IN A 192.0.2.25
db 60 IN CNAME db.internal.
out 60 IN CNAME www.example.org.
_ldap._tcp 60 IN SRV 0 0 389 ns
`, "other.zone": `$ORIGIN corp.example.
@ 60 IN SOA ns hostmaster 2 3600 600 86400 60
@ 60 IN NS ns
@ 60 IN MX 20 mail
ns 60 IN A 192.0.2.53
db 60 IN CNAME db.internal.
out 60 IN CNAME www.example.net.
_ldap._tcp 60 IN SRV 0 0 389 ns
`},
		wrong: [3]string{"reload 0", "reload soon", "file"},
		right: [2]string{"corp.zone", "other.zone"},
		asked: []usualQuestion{
			{tenant: "red", name: "corp.example.", qtype: dns.TypeMX, want: "NOERROR 10 mail.corp.example.", then: "NOERROR 20 mail.corp.example."},
			{tenant: "red", name: "db.corp.example.", qtype: dns.TypeA, want: "NOERROR db.internal. 10.0.1.101"},
			{tenant: "red", name: "out.corp.example.", qtype: dns.TypeA, want: "NOERROR www.example.org. 192.0.2.1", then: "NOERROR www.example.net. 192.0.2.2"},
			{tenant: "red", name: "_ldap._tcp.corp.example.", qtype: dns.TypeSRV, want: "NOERROR 0 0 389 ns.corp.example."},
			{tenant: "blue", name: "corp.example.", qtype: dns.TypeMX, want: "NXDOMAIN"},
			{tenant: "blue", name: "db.corp.example.", qtype: dns.TypeA, want: "NXDOMAIN"},
		},
	},
	{
		name: "acl",
		text: `. {
    $OFPUNT
    errors
    $READY
    acl db.internal {
        filter type AAAA net 10.0.1.0/24 fd00:1::/64
    }
    acl {
        block type TXT net *
        allow net 10.0.1.0/24 fd00:1::/64
        block
    }
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"block type TXT", "bloc type TXT", "acl"},
		right: [2]string{"block type TXT net *", "block type MX net *"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{name: "db.internal.", qtype: dns.TypeAAAA, want: "NOERROR"},
			{name: "www.example.org.", qtype: dns.TypeTXT, want: "REFUSED", then: "NOERROR"},
		},
	},
	{
		name: "header",
		text: `. {
    $OFPUNT
    errors
    $READY
    header {
        response set ra
        response clear aa
    }
    $OVNHOSTS
    hosts {
        192.0.2.9 printer.example
    }
}`,
		wrong: [3]string{"clear aa", "clear zz", "header"},
		right: [2]string{"192.0.2.9", "192.0.2.10"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101", check: flags(false, true)},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201", check: flags(false, true)},
			{name: "printer.example.", qtype: dns.TypeA, want: "NOERROR 192.0.2.9", then: "NOERROR 192.0.2.10", check: flags(false, true)},
		},
	},
	{
		name: "nsid and chaos",
		text: `. {
    $OFPUNT
    errors
    $READY
    nsid node1
    chaos puntdns-1 ops@example.org
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"cache", "cache 0 0 0 x {", "Corefile"},
		right: [2]string{"puntdns-1", "puntdns-2"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101", query: withNSID, check: nsidIs("node1")},
			{tenant: "blue", name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", query: withNSID, check: nsidIs("node1")},
			{name: "version.bind.", qtype: dns.TypeTXT, want: `NOERROR "puntdns-1"`, then: `NOERROR "puntdns-2"`,
				query: func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }},
		},
	},
	{
		name: "dnstap without a collector",
		text: `. {
    $OFPUNT
    metadata
    errors
    log . "{remote} {/ofpunt/port} {name} {rcode}" {
        class denial error
    }
    dnstap unix://$DIR/none.sock full {
        extra "{/ofpunt/switch}/{/ofpunt/port}"
    }
    $READY
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"class denial error", "class silly", "log"},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
		},
	},
	{
		name: "hosts file",
		text: `. {
    $OFPUNT
    errors
    $READY
    $OVNHOSTS
    cache {
        disable success example
    }
    hosts $DIR/hosts example {
        192.0.2.12 inline.example
        ttl 60
        reload 0
        fallthrough
    }
    forward . $UP
}`,
		files: map[string]string{"hosts": "192.0.2.11 file.example\n192.0.2.14 db.internal\n"},
		wrong: [3]string{"ttl 60", "ttl minute", "hosts"},
		right: [2]string{"192.0.2.12", "192.0.2.13"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{name: "file.example.", qtype: dns.TypeA, want: "NOERROR 192.0.2.11"},
			{name: "inline.example.", qtype: dns.TypeA, want: "NOERROR 192.0.2.12", then: "NOERROR 192.0.2.13"},
			{name: "12.2.0.192.in-addr.arpa.", qtype: dns.TypePTR, want: "NOERROR inline.example.", then: "NXDOMAIN"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1"},
		},
	},
	{
		name: "any and minimal",
		text: `. {
    $OFPUNT
    errors
    $READY
    any
    minimal
    bufsize 1232
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"bufsize 1232", "bufsize big", "bufsize"},
		right: [2]string{"    any\n", ""},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeANY, want: `NOERROR "ANY obsoleted" "See RFC 8482"`, then: "NOERROR 10.0.1.101 fd00:1::101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{tenant: "red", name: "db.internal.", qtype: dns.TypeTXT, want: "NOERROR", check: func(r *dns.Msg) error {
				if len(r.Ns) != 1 {
					return fmt.Errorf("%d records in the authority section, want the SOA", len(r.Ns))
				}
				return nil
			}},
		},
	},
	{
		name: "cache with everything",
		text: `. {
    $OFPUNT
    errors {
        consolidate 5m ".* i/o timeout$" warning
    }
    prometheus 127.0.0.1:9153
    $READY
    $OVNHOSTS
    cache {
        success 5000 3600 5
        denial 2500 600 5
        prefetch 1 1m 90%
        serve_stale 1h immediate
        servfail 5s
        keepttl
    }
    forward . $UP {
        policy round_robin
        max_fails 3
        health_check 1s
        expire 20s
        max_concurrent 1000
    }
}`,
		wrong: [3]string{"serve_stale 1h immediate", "serve_stale 1h whenever", "cache"},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
			{name: "none.example.org.", qtype: dns.TypeA, want: "NXDOMAIN"},
		},
	},
	{
		name: "split horizon",
		text: `example.net 1.0.10.in-addr.arpa {
    $OFPUNT
    errors
    $READY
    $OVNHOSTS
    forward . $UP2
}
. {
    $OFPUNT
    errors
    $OVNHOSTS
    cache
    forward example.org $UP {
        except ads.example.org
    }
    forward . $UP2
}`,
		wrong: [3]string{"example.net 1.0", "example.net example.net 1.0", "example.net"},
		right: [2]string{"forward example.org $UP", "forward example.org $UP2"},
		asked: []usualQuestion{
			{name: "www.example.net.", qtype: dns.TypeA, want: "NOERROR 192.0.2.102"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
			{name: "ads.example.org.", qtype: dns.TypeA, want: "NXDOMAIN"},
			{tenant: "red", name: "50.1.0.10.in-addr.arpa.", qtype: dns.TypePTR, want: "NOERROR left.internal."},
			{tenant: "blue", name: "50.1.0.10.in-addr.arpa.", qtype: dns.TypePTR, want: "NOERROR right.internal."},
		},
	},
	{
		name: "reverse zone by prefix",
		text: `10.0.1.0/24 fd00:1::/64 {
    $OFPUNT
    errors
    $READY
    ovnhosts {
        southbound $SB
    }
}
. {
    $OFPUNT
    errors
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"southbound $SB", "southbound", "southbound"},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{tenant: "red", name: "50.1.0.10.in-addr.arpa.", qtype: dns.TypePTR, want: "NOERROR left.internal."},
			{tenant: "blue", name: "203.1.0.10.in-addr.arpa.", qtype: dns.TypePTR, want: "NOERROR blue.internal."},
			{tenant: "red", name: "203.1.0.10.in-addr.arpa.", qtype: dns.TypePTR, want: "NXDOMAIN"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
		},
	},
	{
		name: "blocklist by template",
		text: `. {
    $OFPUNT
    errors
    $READY
    cancel 4s
    timeouts {
        read 5s
        idle 10s
    }
    $OVNHOSTS
    cache
    template ANY ANY ads.example.org tracker.example {
        rcode NXDOMAIN
        authority "{{ .Zone }} 60 IN SOA ns.{{ .Zone }} hostmaster.{{ .Zone }} 1 60 60 60 60"
    }
    forward . $UP
}`,
		wrong: [3]string{"rcode NXDOMAIN", "rcode NODOMAIN", "template"},
		right: [2]string{"ads.example.org tracker.example", "tracker.example"},
		asked: []usualQuestion{
			{name: "ads.example.org.", qtype: dns.TypeA, want: "NXDOMAIN", then: "NOERROR 192.0.2.6"},
			{name: "x.tracker.example.", qtype: dns.TypeAAAA, want: "NXDOMAIN"},
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
		},
	},
	{
		name: "a socket beside the bridge",
		text: `. {
    $OFPUNT
    bind 127.0.0.54
    errors
    $READY
    local
    ovnhosts {
        southbound $SB
        default_switch red
        fallthrough
    }
    cache
    forward . $UP
}`,
		wrong: [3]string{"bind 127.0.0.54", "bind 192.0.2.250", "192.0.2.250"},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{name: "localhost.", qtype: dns.TypeA, want: "NOERROR 127.0.0.1"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
		},
	},
	{
		name: "whoami in a zone",
		text: `me.example {
    $OFPUNT
    errors
    $READY
    whoami
}
. {
    $OFPUNT
    errors
    debug
    $OVNHOSTS
    cache
    forward . $UP
}`,
		wrong: [3]string{"whoami", "whoami {\n x\n }", "whoami"},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{name: "me.example.", qtype: dns.TypeA, want: "NOERROR", udp: true, check: func(r *dns.Msg) error {
				if len(r.Extra) != 2 || r.Extra[0].(*dns.A).A.String() != "10.0.1.11" {
					return fmt.Errorf("additional section %v", r.Extra)
				}
				return nil
			}},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
		},
	},
	{
		name: "imports",
		text: `(upstream) {
    cache 30
    forward . $UP
}
. {
    import $DIR/*.conf
    $READY
    import upstream
}`,
		files: map[string]string{"1.conf": "$OFPUNT\nerrors\n", "2.conf": "$OVNHOSTS\n"},
		wrong: [3]string{"import upstream", "import downstream", "downstream"},
		right: [2]string{"$UP", "$UP2"},
		asked: []usualQuestion{
			{tenant: "red", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.101"},
			{tenant: "blue", name: "db.internal.", qtype: dns.TypeA, want: "NOERROR 10.0.1.201"},
			{name: "www.example.org.", qtype: dns.TypeA, want: "NOERROR 192.0.2.1", then: "NOERROR 192.0.2.101"},
		},
	},
}

// ownersAre checks the owner of each record of the answer.
func ownersAre(name string) func(*dns.Msg) error {
	return func(r *dns.Msg) error {
		for _, rr := range r.Answer {
			if rr.Header().Name != name {
				return fmt.Errorf("owner %s, want %s", rr.Header().Name, name)
			}
		}
		return nil
	}
}

// withNSID asks for the name of the server (RFC 5001).
func withNSID(m *dns.Msg) {
	m.SetEdns0(1232, false)
	o := m.IsEdns0()
	o.Option = append(o.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
}

func nsidIs(want string) func(*dns.Msg) error {
	return func(r *dns.Msg) error {
		if o := r.IsEdns0(); o != nil {
			for _, option := range o.Option {
				if n, ok := option.(*dns.EDNS0_NSID); ok && n.Nsid == hex.EncodeToString([]byte(want)) {
					return nil
				}
			}
		}
		return fmt.Errorf("no NSID %s", want)
	}
}
