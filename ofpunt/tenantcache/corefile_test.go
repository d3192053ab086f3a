// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/miekg/dns"
)

func parseBlock(t *testing.T, zones, text string) caddyfile.ServerBlock {
	t.Helper()
	blocks, err := caddyfile.Parse("Corefile", strings.NewReader(zones+" {\n "+text+"\n}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return blocks[0]
}

func TestSettings(t *testing.T) {
	const capacity = 2 * 9984 // 39 entries in each of 256 shards, twice
	for _, tt := range []struct {
		name, zones, text string
		want              settings
	}{
		{"no cache", ".", "log", settings{[]string{"."}, true, capacity, time.Hour, 0, false}},
		{"defaults", ".", "cache", settings{[]string{"."}, true, capacity, time.Hour, 0, false}},
		{"a TTL", "a.test b.test", "cache 30", settings{[]string{"a.test.", "b.test."}, false, capacity, 30 * time.Second, 0, false}},
		{"zones", ".", "cache c.test", settings{[]string{"c.test."}, false, capacity, time.Hour, 0, false}},
		{"a TTL and zones", "a.test", "cache 7200 c.test .", settings{[]string{"c.test.", "."}, true, capacity, 2 * time.Hour, 0, false}},
		{"a reverse zone", "10.0.0.0/8", "cache", settings{[]string{"10.in-addr.arpa."}, false, capacity, time.Hour, 0, false}},
		{"capacities", ".", "cache {\n success 5000\n denial 100 60 5\n }", settings{[]string{"."}, true, 19*256 + 4*256, time.Hour, 0, false}},
		{"a longer TTL of answers", ".", "cache 30 {\n success 5000 86400\n }", settings{[]string{"."}, true, 19*256 + 9984, 24 * time.Hour, 0, false}},
		{"prefetch", ".", "cache {\n prefetch 2 1m 10%\n }", settings{[]string{"."}, true, capacity, time.Hour, 0, true}},
		{"stale", ".", "cache {\n serve_stale\n }", settings{[]string{"."}, true, capacity, time.Hour, time.Hour, true}},
		{"stale for some time", ".", "cache {\n serve_stale 5m verify\n keepttl\n }", settings{[]string{"."}, true, capacity, time.Hour, 5 * time.Minute, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := readSettings(parseBlock(t, tt.zones, tt.text))
			if !slices.Equal(got.zones, tt.want.zones) {
				t.Errorf("zones %q, want %q", got.zones, tt.want.zones)
			}
			got.zones, tt.want.zones = nil, nil
			if got.all != tt.want.all || got.capacity != tt.want.capacity || got.ttl != tt.want.ttl || got.stale != tt.want.stale || got.refreshes != tt.want.refreshes {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestReads(t *testing.T) {
	template := func(text string) string { return "template IN TXT a.test {\n " + text + "\n }" }
	const answer = `answer "{{ .Name }} 0 IN TXT `
	for _, tt := range []struct {
		name, text string
		want       reading
	}{
		{"nothing", template(answer + `x"`), 0},
		{"the question", template(answer + `{{ .Question.Name }}{{ .Message.Question }}"`), 0},
		{"a label", template(answer + `{{ .Meta \"ofpunt/port\" }}"`), 0},
		{"the address", template(answer + `{{ .Remote }}"`), readsClient},
		{"the address by a variable", template(answer + `{{ with .Match }}{{ $.Remote }}{{ end }}"`), readsClient},
		{"in the additional section", template(answer + "x\"\n additional \"a.test. 0 IN TXT {{ .Remote }}\""), readsClient},
		{"in the authority section", template(answer + "x\"\n authority \"a.test. 0 IN TXT {{ .Remote }}\""), readsClient},
		{"in the second answer", template(answer + `x" "y 0 IN TXT {{ .Remote }}"`), readsClient},
		{"the message", template(answer + `{{ .Message.Id }}"`), readsQuery},
		{"words outside of actions", template(answer + `.Remote"`), 0},
		{"all that there is", template(answer + `{{ printf \"%v\" . }}"`), readsQuery},
		{"all by the variable", template(answer + `{{ with .Match }}{{ printf \"%v\" $ }}{{ end }}"`), readsQuery},
		{"all by another variable", template(answer + `{{ $x := . }}{{ $x }}"`), readsQuery},
		{"all in another template", template(answer + `{{ define \"t\" }}{{ .Remote }}{{ end }}{{ template \"t\" . }}"`), readsQuery | readsClient},
		{"all within with", template(answer + `{{ with . }}{{ .Name }}{{ end }}"`), readsQuery},
		{"all in a condition", template(answer + `{{ if .Name }}{{ . }}{{ end }}"`), readsQuery},
		{"all behind range", template(answer + `{{ range .Match }}{{ else }}{{ . }}{{ end }}"`), readsQuery},
		{"a part of the question by its dot", template(answer + `{{ range .Match }}{{ . }}{{ end }}{{ with .Name }}{{ . }}{{ end }}"`), 0},
		{"the address behind parentheses", template(answer + `{{ (.).Remote }}"`), readsQuery | readsClient},
		{"the address beside a string", template(answer + "{{ print `}}` .Remote }}\""), readsClient},
		{"a text that is no template", template(answer + `{{"`), readsQuery},
		{"a string with an escape", template(`expr name() == 'it\'s' or incidr(client_ip(), '10.0.0.0/8')`), readsClient},
		{"a function by its name", template("expr $env['client_' + 'ip']() == '10.0.0.5'"), readsQuery},
		{"a text that is no expression", template("expr ((("), readsQuery},
		{"an expression", template("expr incidr(client_ip(), '10.0.0.0/8')"), readsClient},
		{"a variable", template("var x server_ip() + server_port()"), readsServer},
		{"the protocol", template("expr proto() == 'udp'"), readsProtocol},
		{"the port", template("expr port() == '53'"), readsQuery},
		{"the id", template("expr id() > 5"), readsQuery},
		{"sizes", template("expr size() > 5 or bufsize() > 5"), readsQuery},
		{"words in an expression", template("expr name() == 'port.client_ip.' and type() == 'id'"), 0},
		{"all", template("expr client_ip() == server_ip() and proto() == 'tcp'"), readsClient | readsServer | readsProtocol},
		{"another name", "template IN TXT b.test {\n answer {{.Remote}}\n }", 0},
		{"another type", "template IN A a.test {\n answer {{.Remote}}\n }", 0},
		{"another class", "template CH TXT a.test {\n answer {{.Remote}}\n }", 0},
		{"any class and type", "template ANY ANY {\n answer {{.Remote}}\n }", readsClient},
		{"a match", template("match ^www[.] ^x[.]\n answer {{.Remote}}"), readsClient},
		{"another match", template("match ^mail[.]\n answer {{.Remote}}"), 0},
		{"the second template", template(answer+`x"`) + "\n" + template(answer+`{{ .Remote }}"`), readsClient},
		{"two templates", template("expr proto() == 'udp'") + "\n" + template(answer+`{{ .Remote }}"`), readsProtocol | readsClient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Options{Block: parseBlock(t, ".", tt.text)})
			if got := c.reads(question{"www.a.test.", dns.TypeTXT, dns.ClassINET}); got != tt.want {
				t.Errorf("%b, want %b", got, tt.want)
			}
		})
	}
}

// Prefixes of different key variants, and of different processes, are different. What stands before a
// name is a label and an empty one, which no message has.
func TestPrefix(t *testing.T) {
	c, other := New(Options{}), New(Options{})
	seen := map[string]string{}
	for _, keyVariant := range []string{"a", "b", "ab", string(appendPart(appendPart(nil, 'l', "a"), 'l', "b")), string(appendPart(nil, 'l', "ab")), string(appendPart(nil, 'k', "ab")),
		string(appendPart(appendPart(nil, 'l', "ab"), 'l', "")), strings.Repeat("x", 2000)} {
		p := c.prefix([]byte(keyVariant))
		if was, ok := seen[p]; ok || p != c.prefix([]byte(keyVariant)) || p == other.prefix([]byte(keyVariant)) {
			t.Errorf("%q has the prefix %q, as %q", keyVariant, p, was)
		}
		seen[p] = keyVariant
		if len(p) != 34 || p != strings.ToLower(p) || strings.Count(p, ".") != 2 || !strings.HasSuffix(p, "..") {
			t.Errorf("the prefix is %q", p)
		}
		if _, ok := dns.IsDomainName(p + "a.test."); ok {
			t.Errorf("%q is a domain name", p+"a.test.")
		}
		if buf := make([]byte, 512); true {
			if _, err := dns.PackDomainName(p+"a.test.", buf, 0, nil, false); err == nil {
				t.Errorf("%q can be in a message", p)
			}
		}
		for _, zone := range []string{".", "test.", "a.test."} {
			if !dns.IsSubDomain(zone, p+"a.test.") {
				t.Errorf("%q is not below %q", p+"a.test.", zone)
			}
		}
		if dns.IsSubDomain("b.test.", p+"a.test.") || dns.IsSubDomain("www.a.test.", p+"a.test.") {
			t.Errorf("%q is below other zones", p+"a.test.")
		}
	}
	if p := c.prefix(nil); p != "" {
		t.Errorf("no key variant has the prefix %q", p)
	}
}
