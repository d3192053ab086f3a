// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/testkit"
)

// TestRRs: each way of reading that reads Northbound follows the records of DNS rows there that
// are not addresses, and the others do not see them.
func TestRRs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	for i, sw := range []string{"red", "blue"} {
		r.nbctl(fmt.Sprintf("ls-add %s -- lsp-add %s %s1 -- lsp-set-addresses %s1 02:00:00:00:00:0%d~10.0.0.1 -- lsp-set-options %s1 hostname=vm1", sw, sw, sw, sw, i, sw))
	}
	r.nbctl("set Logical_Switch red other_config:dns_domain=red.test")
	row := r.nbctl(`-- --id=@d create DNS records={"db.red.test"="10.0.0.2"} external_ids={"ls_name"="red"} -- add Logical_Switch red dns_records @d`)
	r.nbctl("--wait=sb sync")
	r.sbctl("lsp-bind red1 hv1 -- lsp-bind blue1 hv1")
	said := new(testkit.Lines)
	var readings []*joinedReading
	for _, x := range r.joinedReadings([]string{"red1", "blue1"}) {
		x.source.mu.Lock()
		x.source.mu.log = said
		x.source.mu.Unlock()
		readings = append(readings, x)
	}
	for _, step := range []struct{ name, command, want string }{
		{"addresses alone", "", `
			red db.red.test. = 10.0.0.2
			red www.red.test. =`},
		{"one key", `set DNS ROW external_ids:dns-cname/www.red.test=db.red.test`, `
			red db.red.test. = 10.0.0.2
			red www.red.test. = CNAME:db.red.test.
			blue www.red.test. =`},
		{"all types", `set DNS ROW external_ids:dns-mx/red.test="10~mx1.red.test\n20~mx2.red.test" external_ids:dns-txt/DB.red.test="\"v=spf1~-all\"" external_ids:dns-srv/_sip._tcp.red.test="10~5~5060~db.red.test" external_ids:dns-txt/*.w.red.test=wild`, `
			red red.test. = MX:10/mx1.red.test. MX:20/mx2.red.test.
			red db.red.test. = 10.0.0.2 TXT:"v=spf1/-all"
			red _sip._tcp.red.test. = SRV:10/5/5060/db.red.test.
			red x.w.red.test. = TXT:"wild"
			red www.red.test. = CNAME:db.red.test.`},
		{"another value", `set DNS ROW external_ids:dns-mx/red.test="30~mx3.red.test"`, `
			red red.test. = MX:30/mx3.red.test.`},
		{"what can't be read beside what can", `set DNS ROW external_ids:dns-mx/red.test="ten~mx1\n20~mx2" external_ids:dns-a/x=10.0.0.9`, `
			red red.test. = MX:20/mx2.
			red x. =`},
		{"an alias beside an address", `set DNS ROW external_ids:dns-cname/db.red.test=vm1 external_ids:dns-cname/vm1.red.test=db.red.test external_ids:dns-cname/red.test=vm1`, `
			red db.red.test. = 10.0.0.2 TXT:"v=spf1/-all"
			red vm1.red.test. = 10.0.0.1
			red red.test. = MX:20/mx2.`},
		{"the row is for another switch too", `add Logical_Switch blue dns_records ROW`, `
			blue www.red.test. = CNAME:db.red.test.
			blue vm1.red.test. = CNAME:db.red.test.`},
		{"and no longer", `remove Logical_Switch blue dns_records ROW`, `
			blue www.red.test. =
			blue vm1.red.test. =`},
		{"a key goes", `remove DNS ROW external_ids dns-cname/www.red.test`, `
			red www.red.test. =
			red x.w.red.test. = TXT:"wild"`},
		{"all go", `clear DNS ROW external_ids`, `
			red red.test. =
			red x.w.red.test. =
			red db.red.test. = 10.0.0.2`},
	} {
		if step.command != "" {
			r.nbctl(strings.ReplaceAll(step.command, "ROW", row))
		}
		for _, x := range readings {
			want := step.want
			if !x.northbound {
				want = `
					red db.red.test. = 10.0.0.2
					red www.red.test. =
					red red.test. =`
			}
			t.Logf("%s, %s", step.name, x.name)
			eventually(t, x.source, lookups(want))
		}
	}
	// Each once, for each of the four readings.
	for text, want := range map[string]int{
		`"dns-mx/red.test": value "ten mx1" skipped`:              4,
		`"dns-a/x" skipped`:                                       4,
		`"dns-cname/red.test" skipped`:                            4,
		`"dns-cname/db.red.test" skipped`:                         4, // beside TXT
		`CNAME record of "vm1.red.test." skipped on switch "red"`: 4,
		`switch "blue"`:                                           0,
	} {
		if got := said.Count(text); got != want {
			t.Errorf("%d lines about %s, want %d", got, text, want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(said.All(), "\n"))
	}
}
