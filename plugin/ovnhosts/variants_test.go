// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
)

// numberedNames yields so many names below one, from the last to the first, and counts them.
func numberedNames(below string, many int, count *int) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for i := many - 1; i >= 0; i-- {
			if *count++; !yield(fmt.Sprintf("%s%06d.test.", below, i), true) {
				return
			}
		}
	}
}

// However many names begin as the one that is asked for, only the shortest are kept. With all of them
// kept and compared, this test would not end.
func TestVariants(t *testing.T) {
	var v variants
	looked := 0
	if left := v.addLonger(numberedNames("app.", 500_000, &looked), "app.", maxScanned); left != 500_000 || looked != 500_000 {
		t.Errorf("looked at %d names, %d are left", looked, left)
	}
	want := variants{"app.000000.test.", "app.000001.test.", "app.000002.test.", "app.000003.test."}
	if !slices.Equal(v, want) {
		t.Errorf("%q, want %q", v, want)
	}
	looked = 0
	if left := v.addLonger(numberedNames("app.", 500_000, &looked), "app.", 10); left != 0 || looked != 10 {
		t.Errorf("looked at %d names, %d are left, want 10 and 0", looked, left)
	}
	if left := v.addLonger(numberedNames("app.", 1, &looked), "app.", 0); left != 0 || looked != 10 {
		t.Errorf("looked at %d names, %d are left, want 10 and 0", looked, left)
	}
	for _, name := range []string{"app.", "app.000001.test.", "app.x."} {
		v.add(name)
	}
	if want := (variants{"app.", "app.x.", "app.000000.test.", "app.000001.test."}); !slices.Equal(v, want) {
		t.Errorf("%q, want %q", v, want)
	}
}

// What is found where a name has no answer.
func TestExplainUnknown(t *testing.T) {
	s := ovsdbtest.Start(t, "/usr/share/ovn/ovn-nb.ovsschema")
	s.Transact(t, "OVN_Northbound",
		insert("DNS", "own", object{"records": pairs(
			"app.cloud.internal", "10.0.0.21", "web.internal", "10.0.0.22", "bad.internal", "nonsense", "half.cloud.internal", "nonsense",
		), "external_ids": pairs("dns-cname/alias.internal", "10.0.0.1", "dns-mx/web.internal", "ten mx.internal")}),
		insert("Logical_Switch", "red", object{"name": "red", "dns_records": set(named("own"))}),
		insert("DNS", "other", object{"records": pairs("theirs.internal", "10.0.1.21", "broken.internal", "nonsense")}),
		insert("DNS", "loose", object{"records": pairs("Loose.internal", "10.0.0.23"), "external_ids": pairs("dns-mx/mail.internal", "10 mx.internal")}),
		insert("Logical_Switch", "blue", object{"name": "blue", "dns_records": set(named("other"))}),
	)
	h := openFrom(t, s, "red", " domain cloud.internal\n monitor all")
	testkit.OnChange(t, h.source, "the other switch", func() bool {
		blue := h.source.Snapshot().NetworkByName("blue")
		return blue != nil && h.hasName(blue, "theirs.internal.")
	})
	awaitRead(t, h)
	row := h.source.Snapshot().NetworkByName("red").Sources("bad.internal.", "")[0].Row
	unreadable := func(name, column, key, why string) (text, command string) {
		id := ovsdb.UUID(row).String()
		return fmt.Sprintf("switch red has a record of %s whose value can't be read, so it is not in the answer: OVN_Northbound: DNS %s: %s", name, id, why),
			fmt.Sprintf(`ovn-nbctl get DNS %s '%s:"%s"'`, id, column, key)
	}
	badText, badCommand := unreadable("bad.internal.", "records", "bad.internal", `"bad.internal.": value "nonsense" skipped: `)
	aliasText, aliasCommand := unreadable("alias.internal.", "external_ids", "dns-cname/alias.internal", `"dns-cname/alias.internal": value "10.0.0.1" skipped: expected a domain name, not an address`)
	mxText, mxCommand := unreadable("web.internal.", "external_ids", "dns-mx/web.internal", `"dns-mx/web.internal": value "ten mx.internal" skipped: `)
	for _, tc := range []struct {
		qname            string
		qtype            uint16
		code, text, line string
	}{
		{qname: "none.internal."},
		{qname: "app.", code: api.CodeSearchDomain, text: "app. is no name of switch red, but app.cloud.internal. is: the guest has asked without the domain"},
		{qname: "web.internal.cloud.internal.", code: api.CodeSearchDomain, text: "web.internal.cloud.internal. is no name of switch red, but web.internal. is: the guest has put a domain behind it"},
		{qname: "theirs.internal.", code: api.CodeOtherNetwork, text: "theirs.internal. is a name of switch blue"},
		{qname: "bad.internal.", code: api.CodeUnreadable, text: badText, line: badCommand},
		{qname: "alias.internal.", code: api.CodeUnreadable, text: aliasText, line: aliasCommand},
		{qname: "web.internal.", qtype: dns.TypeMX, code: api.CodeUnreadable, text: mxText, line: mxCommand},
		{qname: "web.internal.", qtype: dns.TypeAAAA},
		{qname: "loose.internal.", code: api.CodeNoSwitch, text: "Northbound has loose.internal. in row "},
		{qname: "mail.internal.", code: api.CodeNoSwitch, text: "Northbound has mail.internal. in row "},
		{qname: "half."},
		{qname: "bad.internal.cloud.internal."},
		{qname: "broken.internal."},
	} {
		t.Run(tc.qname+dns.TypeToString[tc.qtype], func(t *testing.T) {
			e := explain.New()
			defer e.End()
			w := dnstest.NewRecorder(&test.ResponseWriter{})
			if _, err := h.ServeDNS(e.Context(context.Background()), w, new(dns.Msg).SetQuestion(tc.qname, cmp.Or(tc.qtype, dns.TypeA))); err != nil {
				t.Fatal(err)
			}
			r := e.Report()
			found := r.Findings
			for _, search := range r.Searches {
				more, err := search()
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, more...)
			}
			if tc.code == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Code != tc.code || !strings.HasPrefix(found[0].Text, tc.text) {
				t.Fatalf("%+v, want %q: %q", found, tc.code, tc.text)
			}
			if tc.line != "" && !slices.Equal(found[0].Commands, []string{tc.line}) {
				t.Errorf("%q, want %q", found[0].Commands, tc.line)
			}
		})
	}
}
