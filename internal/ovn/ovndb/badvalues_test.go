// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/testkit"
)

// badValuesAre waits until the values that a Source can't use are those: each text has one of what is wanted.
func (r *rig) badValuesAre(name string, s *Source, want ...string) {
	r.t.Helper()
	var got problem.Summary
	right := func() bool {
		got = s.BadValues()
		if got.Count != len(want) || len(got.First) != min(len(want), problem.MaxFirst) {
			return false
		}
		return !slices.ContainsFunc(got.First, func(text string) bool {
			return !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(text, w) })
		})
	}
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s: got %+v", name, got)
		}
	}()
	testkit.Eventually(r.t, fmt.Sprintf("%s: bad values %q", name, want), right)
}

// TestBadValues: each way of reading tells what it can't use at present. A value that is mended, or
// goes with its row, no longer counts, whatever of the snapshot it is for.
func TestBadValues(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	r.nbctl("ls-add a -- lsp-add a a1 -- lsp-set-addresses a1 02:00:00:00:00:01~10.0.0.1 -- lsp-set-options a1 hostname=vm1" +
		" -- ls-add b -- lsp-add b b1 -- lsp-set-addresses b1 02:00:00:00:00:02~10.0.0.2" +
		" -- lr-add r1 -- lrp-add r1 r1-a 02:00:00:00:01:01 10.0.0.254/24 -- lrp-add r1 r1-b 02:00:00:00:01:02 10.1.0.254/24" +
		" -- lsp-add a a-r1 -- lsp-set-type a-r1 router -- lsp-set-addresses a-r1 router -- lsp-set-options a-r1 router-port=r1-a" +
		" -- lsp-add b b-r1 -- lsp-set-type b-r1 router -- lsp-set-addresses b-r1 router -- lsp-set-options b-r1 router-port=r1-b")
	dhcp := r.nbctl("dhcp-options-create 10.0.0.0/16")
	if dhcp == "" {
		dhcp = r.nbctl("--bare --columns=_uuid list DHCP_Options")
	}
	r.nbctl("lsp-set-dhcpv4-options a1 " + dhcp + " -- lsp-set-dhcpv4-options b1 " + dhcp)
	row := r.nbctl(`-- --id=@d create DNS records={"db.a"="10.0.0.2"} external_ids={"ls_name"="a"} -- add Logical_Switch a dns_records @d`)
	r.nbctl("--wait=sb sync")
	r.sbctl("lsp-bind a1 hv1 -- lsp-bind b1 hv1")
	readings := r.joinedReadings([]string{"a1", "b1"})
	var releases []func()
	for _, x := range readings {
		releases = append(releases, x.source.Request(Requests{DNSServers: true, Forwards: true, Egress: true}))
	}
	// Who has a value: all, those that read Northbound, those that read Southbound, or Northbound alone.
	const (
		all = iota
		northbound
		southbound
		alone
	)
	type bad struct {
		text string
		of   int
	}
	for _, step := range []struct {
		name, command string
		want          []bad
	}{
		{"none", "", nil},
		{"a record", `set DNS ROW records:db.a="10.0.0.300"`, []bad{{`OVN_Northbound: DNS ROW: "db.a.": value "10.0.0.300"`, all}}},
		{"two of it", `set DNS ROW records:db.a="10.0.0.300~10.0.0.301"`, []bad{{`"10.0.0.300"`, all}, {`"10.0.0.301"`, all}}},
		{"another key beside it", `set DNS ROW records:a..b=10.0.0.1`, []bad{{`"10.0.0.300"`, all}, {`"10.0.0.301"`, all}, {`a..b`, all}}},
		{"the first is mended", `set DNS ROW records:db.a=10.0.0.2`, []bad{{`a..b`, all}}},
		{"the key goes", `remove DNS ROW records a..b`, nil},
		{"another type", `set DNS ROW external_ids:dns-mx/m.a="ten~mx1\n20~mx2"`, []bad{{"ten mx1", northbound}}},
		{"an alias beside it, and one beside a port", `set DNS ROW external_ids:dns-cname/m.a=b.a external_ids:dns-cname/vm1=b.a`,
			[]bad{{"ten mx1", northbound}, {"dns-cname/m.a", northbound}, {`CNAME record of "vm1."`, northbound}}},
		{"what the alias stands beside goes", `remove DNS ROW external_ids dns-mx/m.a`, []bad{{`CNAME record of "vm1."`, northbound}}},
		{"the port has another name", `lsp-set-options a1 hostname=vm2`, nil},
		{"beside each other again", `set DNS ROW external_ids:dns-mx/m.a="10~mx1"`, []bad{{"dns-cname/m.a", northbound}}},
		{"both at once go", `clear DNS ROW external_ids`, nil},
		{"the last two keys of a row", `set DNS ROW external_ids:dns-mx/m.a="10~mx1" external_ids:dns-cname/m.a=b.a`, []bad{{"dns-cname/m.a", northbound}}},
		{"go by their names", `remove DNS ROW external_ids dns-mx/m.a dns-cname/m.a`, nil},
		{"a domain", `set Logical_Switch a other_config:dns_domain=x..y external_ids:dns_domain=z..z`, []bad{{`"x..y"`, northbound}, {`"z..z"`, northbound}}},
		{"the first of the two is mended", `set Logical_Switch a other_config:dns_domain=x.y`, nil},
		{"the domain of DHCP options", `set DHCP_Options DHCP options:domain_name="\"u..v\""`, []bad{{"u..v", northbound}}},
		{"none there", `remove DHCP_Options DHCP options domain_name`, nil},
		{"a DNS server, for two networks", `set DHCP_Options DHCP options:dns_server="{10.0.0.53,10.0.0.530}"`, []bad{{"10.0.0.530", northbound}}},
		{"one of them has other options", `clear Logical_Switch_Port a1 dhcpv4_options`, []bad{{"10.0.0.530", northbound}}},
		{"mended", `set DHCP_Options DHCP options:dns_server="{10.0.0.53}"`, nil},
		{"a hostname", `lsp-set-options a1 hostname=h..1`, []bad{{`Logical_Switch_Port "a1": "hostname": value "h..1"`, all}}},
		{"mended", `lsp-set-options a1 hostname=vm1`, nil},
		{"forwards of a router, for two networks, and of a switch", `set Logical_Router r1 external_ids:dns-forward="wrong1;x.test=192.0.2.1" -- set Logical_Switch b external_ids:dns-forward=wrong2`,
			[]bad{{"wrong1", northbound}, {"wrong2", northbound}}},
		{"one network is no longer attached", `lsp-del b-r1`, []bad{{"wrong1", northbound}, {"wrong2", northbound}}},
		{"nor the other", `lsp-del a-r1`, []bad{{"wrong2", northbound}}},
		{"the switch goes", `ls-del b`, nil},
		{"egress of a port and of a switch", `set Logical_Switch_Port a1 external_ids:dns-egress="a..b~c.test" -- set Logical_Switch a external_ids:dns-egress=10.0.0.1/8`,
			[]bad{{`Logical_Switch_Port "a1": "external_ids:dns-egress": value "a..b"`, northbound}, {`"external_ids:dns-egress": value "10.0.0.1/8"`, northbound}}},
		{"the port's is mended", `set Logical_Switch_Port a1 external_ids:dns-egress=c.test`, []bad{{`"10.0.0.1/8"`, northbound}}},
		{"the switch's goes", `remove Logical_Switch a external_ids dns-egress`, nil},
		{"egress of a group", `pg-add g a1 -- set Port_Group g external_ids:dns-egress=x..z`, []bad{{`"external_ids:dns-egress": value "x..z"`, northbound}}},
		{"the group goes", `pg-del g`, nil},
		{"a record and a domain", `set DNS ROW records:db.a="10.0.0.302" -- set Logical_Switch a other_config:dns_domain=x..y`,
			[]bad{{"10.0.0.302", all}, {"x..y", northbound}, {"z..z", northbound}}},
		{"all rows go", `ls-del a -- destroy DNS ROW`, nil},
	} {
		if step.command != "" {
			r.nbctl("--wait=sb " + strings.NewReplacer("ROW", row, "DHCP options", dhcp+" options", "DHCP_Options DHCP", "DHCP_Options "+dhcp).Replace(step.command))
		}
		for _, x := range readings {
			var want []string
			for _, b := range step.want {
				if b.of == all || b.of == northbound && x.northbound || b.of == southbound && !x.alone || b.of == alone && x.alone {
					want = append(want, strings.ReplaceAll(b.text, "ROW", row))
				}
			}
			r.badValuesAre(step.name+", "+x.name, x.source, want...)
		}
	}
	for _, release := range releases {
		release()
	}
}

// What nobody asks for any more, and rows that are read no longer, have no bad values.
func TestBadValuesThatAreNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.sbctl("chassis-add hv1 geneve 127.0.0.1")
	r.nbctl("ls-add a -- lsp-add a a1 -- lsp-set-addresses a1 02:00:00:00:00:01~10.0.0.1 -- set Logical_Switch a external_ids:dns-forward=wrong")
	for _, sw := range []string{"b", "c", "d", "e", "f", "g"} {
		r.nbctl(fmt.Sprintf(`ls-add %s -- set Logical_Switch %s other_config:dns_domain=%s..x -- --id=@d create DNS records={"db"="10.0.0.300~%s"} -- add Logical_Switch %s dns_records @d`, sw, sw, sw, sw, sw))
	}
	r.nbctl("--wait=sb sync")
	r.sbctl("lsp-bind a1 hv1")
	for _, x := range r.joinedReadings([]string{"a1"}) {
		if !x.local || !x.northbound || x.alone {
			continue
		}
		eventually(t, x.source, settled("a1"))
		before := x.source.BadValues().Count
		forwards := x.source.Request(Requests{Forwards: true})
		r.badValuesAre("forwards", x.source, "wrong")
		if before != 0 {
			t.Errorf("%d bad values that nobody asked for", before)
		}
		forwards()
		r.badValuesAre("no forwards", x.source)
		var releases []func()
		for _, sw := range []string{"b", "c", "d", "e", "f", "g"} {
			releases = append(releases, x.source.Request(Requests{Network: ovn.SwitchRef{Name: sw}}))
		}
		// Each has a domain that is none, and a record with two words that are no addresses.
		testkit.Eventually(r.t, "networks", func() bool { return x.source.BadValues().Count == 18 })
		for _, release := range releases {
			release()
		}
		narrow(x.source)
		r.badValuesAre("no networks", x.source)
	}
}

// TestBadValuesAreBounded: a tenant may write any number of bad values. All count, and a bounded number is logged.
func TestBadValuesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	const keys, words = 600, 5
	var records, half []string
	for i := range keys {
		var value []string
		for j := range words {
			value = append(value, fmt.Sprintf("x%d-%d", i, j))
		}
		records = append(records, fmt.Sprintf(`["k%d",%q]`, i, strings.Join(value, " ")))
		if i%2 == 0 {
			half = append(half, fmt.Sprintf(`"k%d"`, i))
		}
	}
	insert := rawJSON(`{"op":"insert","table":"DNS","row":{"datapaths":["uuid","` + dp + `"],"records":["map",[` + strings.Join(records, ",") + `]]}}`)
	r.server.Transact(t, "OVN_Southbound", insert)
	c := r.config(true, false)
	var log testkit.Lines
	c.Monitor, c.Log = All, &log
	s := r.acquire(c)
	is := func(count int, first string) {
		t.Helper()
		testkit.Eventually(r.t, fmt.Sprint(count, " bad values"), func() bool { return s.BadValues().Count == count })
		got := s.BadValues().First
		if len(got) != min(count, problem.MaxFirst) || slices.ContainsFunc(got, func(text string) bool { return !strings.Contains(text, first) }) {
			t.Errorf("%d bad values, of which the first %q lack %q", count, got, first)
		}
	}
	is(keys*words, "skipped: ")
	testkit.Eventually(r.t, "a snapshot", func() bool { return s.Snapshot().Stats.BadValues == keys*words })
	row := r.sbctl("--bare --columns=_uuid list DNS")
	r.server.Transact(t, "OVN_Southbound", rawJSON(`{"op":"mutate","table":"DNS","where":[["_uuid","==",["uuid","`+row+`"]]],"mutations":[["records","delete",["set",[`+strings.Join(half, ",")+`]]]]}`))
	is((keys-len(half))*words, "OVN_Northbound: DNS "+row)
	r.sbctl("destroy DNS " + row)
	is(0, "")
	left := len(badTexts(s))
	hasLogged(t, s)
	if logged := log.Count("skipped"); left != 0 || logged != problem.MaxReports {
		t.Errorf("%d bytes of texts are left, and %d lines logged", left, logged)
	}
	r.sbctl("create DNS datapaths=" + dp + ` records={vm2="10.0.0.300"}`)
	is(1, `"10.0.0.300" skipped`)
}

// What was mended during an outage is told by the contents that are read after it: of a row that has
// changed meanwhile, and of one that has gone.
func TestBadValuesMendedInOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dp := r.insertSwitch("a", uuidA, 1)
	row := r.sbctl("create DNS datapaths=" + dp + ` records={x="10.0.0.300",y="10.0.0.301"}`)
	gone := r.sbctl("create DNS datapaths=" + dp + ` records={z="10.0.0.302"}`)
	c := r.config(true, false)
	c.Monitor = All
	s := r.acquire(c)
	r.badValuesAre("before", s, "10.0.0.300", "10.0.0.301", "10.0.0.302")
	r.inOutage(s, sbFile, `["OVN_Southbound",{"op":"update","table":"DNS","where":[["_uuid","==",["uuid","`+row+`"]]],"row":{"records":["map",[["y","10.0.0.301"]]]}},`+
		`{"op":"delete","table":"DNS","where":[["_uuid","==",["uuid","`+gone+`"]]]}]`)
	r.badValuesAre("after", s, "10.0.0.301")
}
