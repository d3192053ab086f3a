// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// A guest gets a zone by the key of its own tenant, whole though it takes several messages. The key
// of another tenant, whose block is of the same server, is none.
func TestTransfers(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	const records = 2000 // of 60 bytes and more: over the 65,535 of a message
	keys := map[string]string{"red": "cmVkIHJlZCByZWQ=", "blue": "Ymx1ZSBibHVlIGI="}
	text := ""
	for _, tenant := range []string{"red", "blue"} {
		var zone strings.Builder
		fmt.Fprintf(&zone, "$ORIGIN corp.example.\n@ 60 IN SOA ns hostmaster 1 3600 600 86400 60\n@ 60 IN NS ns\nns 60 IN A 192.0.2.53\nwho 300 IN TXT %s\n", tenant)
		for i := range records {
			fmt.Fprintf(&zone, "host-%d 60 IN TXT \"%s %d %s\"\n", i, tenant, i, strings.Repeat("x", 30))
		}
		block := ". {\n ofpunt br-int\n"
		if tenant == "red" {
			block = ". {\n ofpunt br-int {\n openflow $MGMT\n ovsdb $OVSDB\n }\n ready " + readyAddr + " {\n monitor continuously\n }\n view red {\n expr metadata('ofpunt/switch') == 'red'\n }\n"
		}
		text += block + " metadata\n tsig {\n secret " + tenant + ".key " + keys[tenant] + "\n require AXFR IXFR\n }\n transfer {\n to *\n }\n" +
			" ovnhosts {\n southbound $SB\n fallthrough\n }\n cache\n file " + n.WriteFile(tenant+".zone", zone.String()) + " corp.example {\n reload 0\n }\n}\n"
	}
	s := serve(t, n.Lab, text)
	size := regexp.MustCompile(`XFR size: (\d+) records \(messages (\d+),`)
	unverified := regexp.MustCompile(`could not be validated|verify signature`)
	ask := func(g *lab.Guest, key string, question ...string) string {
		args := append([]string{"@" + resolver4}, question...)
		if key != "" {
			args = append(args, "-y", "hmac-sha256:"+key+".key:"+keys[key])
		}
		return g.Dig(args...).Out
	}
	for _, tt := range []struct {
		g           *lab.Guest
		tenant, key string
		want        string // of the errors, "" for the zone
	}{
		{n.red, "red", "red", ""},
		{n.red, "red", "blue", "BADKEY"},
		{n.red, "red", "", "Transfer failed"},
		{n.blue, "blue", "blue", ""},
		{n.blue, "blue", "red", "BADKEY"},
		{n.blue, "blue", "", "Transfer failed"},
	} {
		t.Run(tt.tenant+", key "+tt.key, func(t *testing.T) {
			out := ask(tt.g, tt.key, "corp.example", "AXFR")
			m := size.FindStringSubmatch(out)
			if tt.want != "" {
				if m != nil || !strings.Contains(out, tt.want) {
					t.Errorf("want %s, and no zone:\n%.2000s", tt.want, out)
				}
				return
			}
			if m == nil || m[1] != strconv.Itoa(records+5) || m[2] == "1" || unverified.MatchString(out) {
				t.Fatalf("want %d records in several messages, each signed:\n%.2000s", records+5, out)
			}
			if other := map[string]string{"red": "blue", "blue": "red"}[tt.tenant]; strings.Contains(out, "\""+other) {
				t.Errorf("it has records of %s", other)
			}
			if !regexp.MustCompile(`(?m)^who\.corp\.example\.\s+300\s`).MatchString(out) {
				t.Error("a record has not the TTL of the zone")
			}
			out = ask(tt.g, tt.key, "who.corp.example", "TXT")
			if !strings.Contains(out, "\""+tt.tenant+"\"") || !strings.Contains(out, "TSIG") || unverified.MatchString(out) {
				t.Errorf("over UDP:\n%s", out)
			}
		})
	}
	s.endWell()
}
