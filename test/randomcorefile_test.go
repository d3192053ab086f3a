// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// phrases are what a random Corefile says of each plugin, one of them at a time. $TENANT is the
// tenant of the block's view, other for a block without one, and $UP the upstream of that tenant.
var phrases = map[string][]string{
	"acl": {
		"acl {\n allow\n }", "acl {\n filter type TXT net 10.0.1.0/24\n allow\n }", "acl example.org {\n block type AAAA net *\n }",
	},
	"any":     {"any"},
	"audit":   {"audit $DIR/audit.json", "audit $DIR/audit.json {\n fields default owner={/ofpunt/port}\n }"},
	"auto":    {"auto corp.example {\n directory $DIR ^$TENANT\\.(zone)$ corp.example\n reload 0\n }"},
	"bufsize": {"bufsize 512", "bufsize 1232"},
	"cache": {
		"cache", "cache", "cache", "cache 5", "cache 30 example.org example corp.example",
		"cache {\n prefetch 1 1m 90%\n serve_stale 1h immediate\n }",
		"cache {\n serve_stale 1h verify\n servfail 1s\n }",
		"cache {\n success 100 60 1\n denial 100 60 1\n prefetch 1\n }",
	},
	"cancel": {"cancel 4s"},
	"chaos":  {"chaos $TENANT-node"},
	"dns64":  {"dns64 {\n allow_ipv4\n }", "dns64 {\n allow_ipv4\n translate_all\n }"},
	"dnstap": {"dnstap unix://$DIR/none.sock full {\n extra \"{/ofpunt/port}\"\n }"},
	"egress": {
		"egress {\n strict on\n policy ofpunt/switch red {\n allow *.example.org *.example *.internal *.arpa\n }\n }",
		"egress {\n observe on\n policy ofpunt/port blue-vm1 {\n allow *.org\n }\n policy ofpunt/switch red {\n allow 192.0.2.0/24\n }\n }",
	},
	"errors":      {"errors", "errors {\n consolidate 1m \".*\"\n }"},
	"file":        {"file $DIR/$TENANT.zone corp.example {\n reload 0\n }"},
	"forward":     {"forward . $UP", "forward . $UP {\n policy round_robin\n max_fails 0\n }", "forward example.org $UP"},
	"header":      {"header {\n response set ra\n }", "header {\n response clear aa\n }", "header {\n query set rd\n }"},
	"hosts":       {"hosts {\n $OWN4 hosts.example\n $OWN6 hosts.example\n fallthrough\n }"},
	"loadbalance": {"loadbalance"},
	"local":       {"local"},
	"log":         {"log", "log . \"{remote} {/ofpunt/port} {rcode}\"", "log . \"{/ofpunt/switch} {>do}\" {\n class denial\n }"},
	"metadata":    {"metadata"},
	"minimal":     {"minimal"},
	"nsid":        {"nsid $TENANT-node"},
	"private":     {"private", "private {\n single_labels off\n rebind_protection on\n }", "private {\n except internal\n also example.org\n }"},
	"ovnforward": {
		"ovnforward {\n allow 10.1.0.0/16\n }", "ovnforward forward.example internal {\n allow 10.1.0.0/16\n max_zones 2\n }",
	},
	"ovnhosts": {
		"ovnhosts {\n $DATABASES\n fallthrough\n }", "ovnhosts {\n $DATABASES\n fallthrough\n }",
		"ovnhosts {\n $DATABASES\n scope router\n shuffle on\n fallthrough\n }",
		"ovnhosts {\n $DATABASES\n domain internal\n ttl 5\n fallthrough\n }",
		"ovnhosts internal 1.0.10.in-addr.arpa {\n $DATABASES\n }",
	},
	"rewrite": {
		"rewrite name regex ^me\\.example\\.$ {ofpunt/port}.example.org. metadata answer auto",
		"rewrite continue name exact alias.example db.internal answer auto",
		"rewrite name suffix .svc.example .internal answer auto",
		"rewrite continue edns0 local set 0xffee {ofpunt/switch}",
		"rewrite continue edns0 subnet set 32 128",
		"rewrite continue ttl regex .* 7",
		"rewrite cname exact target.example.org. db.internal.",
	},
	"rpz": {
		"rpz {\n zone $TENANT.rpz file $DIR/$TENANT.rpz\n required\n }",
		"rpz {\n zone first.rpz file $DIR/first.rpz policy log\n zone $TENANT.rpz file $DIR/$TENANT.rpz\n required\n log 5\n }",
	},
	"secondary": {"secondary second.example {\n transfer from $UP\n }"},
	"template": {
		"template IN TXT who.example {\n answer \"{{ .Name }} 60 IN TXT \\\"{{ .Meta \\\"ofpunt/switch\\\" }} {{ .Meta \\\"ofpunt/port\\\" }}\\\"\"\n }",
		"template IN TXT who.example {\n answer \"{{ .Name }} 0 IN TXT \\\"{{ .Meta \\\"ofpunt/port\\\" }} {{ .Remote }}\\\"\"\n }",
		"template ANY ANY maybe.example {\n expr \"metadata('ofpunt/switch') == 'red'\"\n answer \"{{ .Name }} 60 IN A 10.0.1.101\"\n fallthrough\n }",
		"template IN A via.example {\n answer \"{{ .Name }} 60 IN CNAME db.internal.\"\n upstream\n fallthrough\n }",
		"template IN A via.example {\n answer \"{{ .Name }} 60 IN CNAME {{ .Meta \\\"ofpunt/switch\\\" }}.internal.\"\n upstream\n fallthrough\n }",
	},
	"transfer": {"transfer corp.example {\n to *\n }", "transfer {\n to $OWN4 10.0.1.11\n }"},
	"tsig":     {"tsig {\n secret $TENANT.key cmVkIHJlZCByZWQ=\n }", "tsig corp.example {\n secret $TENANT.key cmVkIHJlZCByZWQ=\n require AXFR IXFR\n }"},
	"whoami":   {"whoami"},
}

// wontWrite are the plugins that a random Corefile does not have, with the reasons.
var wontWrite = map[string]string{
	"bind":         "the guests ask through the bridge",
	"debug":        "a panic ends the process then",
	"health":       "it answers no query",
	"loop":         "it is refused in a block without a socket",
	"neutronhosts": "no DHCP agent is there",
	"ofpunt":       "each block has it",
	"passthrough":  "nobody else answers",
	"pprof":        "it answers no query",
	"prometheus":   "it answers no query",
	"ready":        "each Corefile has it",
	"reload":       "the test reloads",
	"root":         "it names a folder",
	"timeouts":     "it answers no query",
	"tls":          "it is for sockets",
	"view":         "each block but the last has it",
}

// cacheProperties are properties of ofpunt that say who shares what of cache.
var cacheProperties = []string{"", "", "cache_scope network", "cache_scope port", "cache_share 1"}

// randomViews are expressions that hold for the red tenant, for the blue one, or for some queries of
// either.
var randomViews = []struct{ tenant, expr string }{
	{"red", "metadata('ofpunt/switch') == 'red'"},
	{"blue", "metadata('ofpunt/switch') == 'blue'"},
	{"red", "metadata('ofpunt/port') startsWith 'red-'"},
	{"blue", "metadata('ofpunt/router') == 'r-blue'"},
	{"other", "type() == 'TXT'"},
	{"other", "name() endsWith '.example.'"},
}

// randomCorefile returns a Corefile for the guests of br-int. Most of them are taken; some have
// plugins that do not go together.
func randomCorefile(r *rand.Rand, plugins []string) string {
	var b strings.Builder
	// All blocks of a bridge read the same databases. ovnforward is refused without Northbound.
	databases := "southbound $SB\n northbound $NB"
	if r.IntN(3) == 0 {
		databases = "southbound $SB"
		plugins = slices.DeleteFunc(slices.Clone(plugins), func(p string) bool { return p == "ovnforward" })
	}
	for i, last := 0, r.IntN(4); i <= last; i++ {
		block := "ofpunt br-int\n"
		if i == 0 {
			block = "ofpunt br-int {\n openflow $MGMT\n ovsdb $OVSDB\n rate off\n " + cacheProperties[r.IntN(len(cacheProperties))] + "\n }\n"
		}
		tenant := "other"
		if i < last {
			v := randomViews[r.IntN(len(randomViews))]
			tenant = v.tenant
			block += fmt.Sprintf("metadata\nview v%d {\n expr \"%s\"\n }\n", i, v.expr)
		}
		if i == 0 {
			block += "$READY\n"
		}
		for _, p := range plugins {
			block += randomPhrases(r, p, i < last)
		}
		b.WriteString(". {\n" + strings.NewReplacer("$DATABASES", databases, "$TENANT", tenant, "$UP", "$UP-"+tenant, "$OWN4", "$OWN4-"+tenant, "$OWN6", "$OWN6-"+tenant).Replace(block) + "}\n")
	}
	return b.String()
}

// randomPhrases returns what a block says of a plugin, often nothing. viewed is set if the block
// has a view, and metadata for it.
func randomPhrases(r *rand.Rand, p string, viewed bool) (text string) {
	all, times := phrases[p], 0
	switch p {
	case "ovnhosts":
		times = 1
	case "metadata":
		if !viewed && r.IntN(10) > 0 {
			times = 1
		}
	case "cache", "forward", "ovnforward":
		if r.IntN(5) > 0 {
			times = 1
		}
	case "rewrite", "template":
		times = r.IntN(3)
	case "whoami":
		if r.IntN(12) == 0 {
			times = 1
		}
	default:
		if r.IntN(4) == 0 {
			times = 1
		}
	}
	for range times {
		text += all[r.IntN(len(all))] + "\n"
	}
	return text
}
