// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/pages"
)

// root is the folder of the project.
const root = "../../.."

// constants returns the values of the constants of internal/control/api with a prefix, by their names.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, prefix) {
				return true
			}
			if literal, ok := v.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				all[v.Names[0].Name], _ = strconv.Unquote(literal.Value)
			}
			return true
		})
	}
	if len(all) == 0 {
		t.Fatalf("internal/control/api has no constant %s…", prefix)
	}
	return all
}

// Each code has one name, and one of text, peer and without.
func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range api.Codes() {
		if seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
		have := 0
		for _, s := range []string{c.Text, c.Peer, c.Without} {
			if s != "" {
				have++
			}
		}
		if have != 1 {
			t.Errorf("%s: expected one of Text, Peer and Without; if there is nothing to do about it, Without has the reason", c.Name)
		}
		if c.Without != "" && c.Commands != nil {
			t.Errorf("%s has commands without a text", c.Name)
		}
	}
}

// The section of each remedy is in the pages.
func TestDocs(t *testing.T) {
	all := []string{socketDocs, certificateDocs}
	for _, r := range api.Codes() {
		all = append(all, r.Docs)
	}
	slices.Sort(all)
	for _, section := range slices.Compact(all) {
		pages.Section(t, root, section, "")
	}
}

// full is a context that has all.
var full = Context{
	About: "br-int", Endpoint: "ssl:10.1.0.1:6642", Failure: &api.Failure{Cause: api.CauseTimeout}, Corefile: "/etc/puntdns/Corefile",
	Interface: "tap1", Port: "vm1", DHCPRow: "0b3c4d5e-0000-4000-8000-00000000000d",
}

// No line has a placeholder that stays, and a value can't leave its word of the shell.
func TestPlaceholders(t *testing.T) {
	const hostile = "x; reboot '"
	for _, r := range api.Codes() {
		for _, c := range []*Context{{}, &full, {About: hostile, Corefile: hostile, Interface: hostile, Port: hostile, DHCPRow: hostile}} {
			for _, line := range fillIn(r.Commands, c) {
				if strings.Contains(line, "{") {
					t.Errorf("%s: %s", r.Name, line)
				}
				if strings.Contains(line, " x; reboot") {
					t.Errorf("%s: %s is not one word", r.Name, line)
				}
			}
		}
	}
	c := &Context{Interface: "tap 1", Port: "vm 1"}
	want := []string{"ovs-vsctl get Interface 'tap 1' external_ids:iface-id", "ovs-vsctl get Interface 'tap 1' ofport error", "ovn-nbctl --columns=name,up,options list Logical_Switch_Port 'vm 1'", `ovn-sbctl --columns=logical_port,chassis,up find Port_Binding 'logical_port="vm 1"'`, "ovn-appctl -t ovn-controller connection-status"}
	if got := Of(api.CodeUnserved, c).Commands; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Of(api.CodeLinkDown, &Context{}); got.Text == "" || got.Commands != nil {
		t.Errorf("%+v, want a text alone", got)
	}
}

// Each cause of a connection that is down has a remedy, over a unix socket and over TCP.
func TestConnections(t *testing.T) {
	for name, cause := range constants(t, "Cause") {
		for _, endpoint := range []string{"unix:/run/x.sock", "ssl:10.1.0.1:6642"} {
			for _, code := range []string{api.CodeSwitch, api.CodeLocalDatabase, api.CodeDatabase} {
				r := Of(code, &Context{About: "br-int", Endpoint: endpoint, Failure: &api.Failure{Cause: cause}})
				if (r.Text == "") != (cause == api.CauseOther) || r.Docs == "" {
					t.Errorf("%s, api.%s at %s: %+v", code, name, endpoint, r)
				}
			}
		}
	}
	for _, tc := range []struct {
		code     string
		context  Context
		commands []string
	}{
		{api.CodeSwitch, Context{About: "br-int", Endpoint: "unix:/run/br int.mgmt", Failure: &api.Failure{Cause: api.CauseMissing}}, []string{"ls -l '/run/br int.mgmt'", "ovs-vsctl list-br    # is br-int among them?"}},
		{api.CodeLocalDatabase, Context{About: "br-int", Endpoint: "unix:/run/db.sock", Failure: &api.Failure{Cause: api.CausePermission}}, []string{"ls -l /run/db.sock", "systemd-tmpfiles --create puntdns.conf"}},
		{api.CodeDatabase, full, []string{"ip route get 10.1.0.1", "timeout 3 bash -c '</dev/tcp/10.1.0.1/6642' && echo open", "nft list ruleset | grep -n 6642"}},
		{api.CodeDatabase, Context{Endpoint: "ssl:10.1.0.1:6642"}, nil},
	} {
		if got := Of(tc.code, &tc.context).Commands; !slices.Equal(got, tc.commands) {
			t.Errorf("%s, %+v: %q, want %q", tc.code, tc.context, got, tc.commands)
		}
	}
}

func TestFillStatus(t *testing.T) {
	refused := &api.Failure{Cause: api.CauseRefused}
	s := &api.Status{
		Corefile: api.Corefile{Path: "/etc/puntdns/Corefile"},
		Bridges: []api.Bridge{
			{Name: "br-ext"},
			{Name: "br-int", Connection: api.Connection{Endpoint: "unix:/run/br-int.mgmt", Failure: refused}, LocalDatabase: api.LocalDatabase{Endpoint: "unix:/run/db.sock", Failure: refused}},
		},
		Databases: []api.Database{{Name: "OVN_Southbound", Endpoint: "ssl:10.1.0.9:6642", Synced: true}, {Name: "OVN_Southbound", Endpoint: "ssl:10.1.0.1:6642", Failure: full.Failure}},
		Problems: []api.Problem{
			{Code: api.CodeSwitch, About: "br-int"}, {Code: api.CodeLocalDatabase, About: "br-int"}, {Code: api.CodeDatabase, About: "OVN_Southbound"},
			{Code: api.CodeSwitch, About: "br-none"}, {Code: "of-a-newer-version"},
			{Code: api.CodeLease, Remedy: "the finder's", Commands: []string{"mine"}},
			{Code: api.CodeLease, Docs: "docs/of-another-version.md"},
		},
		Warnings: []api.Problem{{Code: api.CodeReload}},
	}
	for range 2 { // a second time changes nothing
		FillStatus(s)
	}
	want := []api.Problem{
		{Remedy: "ovs-vswitchd has ended and left its socket", Commands: []string{"ls -l /run/br-int.mgmt", "ovs-vsctl list-br    # is br-int among them?"}, Docs: find(api.CodeSwitch).Docs},
		{Remedy: "ovsdb-server has ended and left its socket", Commands: []string{"ls -l /run/db.sock"}, Docs: "docs/alerts.md#puntdnslocaldatabasedown"},
		{Remedy: "no packet comes back: a firewall between this node and the database, or no route", Commands: reach("ssl:10.1.0.1:6642"), Docs: "docs/alerts.md#puntdnsdatabasedown"},
		{Docs: find(api.CodeSwitch).Docs},
		{},
		{Remedy: "the finder's", Commands: []string{"mine"}, Docs: "docs/alerts.md#puntdnsleaselapsed"},
		{Docs: "docs/of-another-version.md"},
	}
	for i, p := range s.Problems {
		p.Code, p.About = "", ""
		if !reflect.DeepEqual(p, want[i]) {
			t.Errorf("%s: %+v, want %+v", s.Problems[i].Code, p, want[i])
		}
	}
	if w := s.Warnings[0]; !slices.Equal(w.Commands, []string{"puntdns -check -conf /etc/puntdns/Corefile", "systemctl reload puntdns"}) {
		t.Errorf("%+v", w)
	}
}

func TestFillExplanation(t *testing.T) {
	e := &api.Explanation{
		Guest: api.Guest{Interface: "tap1", Port: "vm1", DHCP: &api.DHCP{Row: full.DHCPRow}},
		Findings: []api.Problem{
			{Code: api.CodeNotAnnounced}, {Code: api.CodeUpstream, Commands: []string{"dig @192.0.2.1"}}, {Code: api.CodeNoData, Remedy: "the finder's"},
		},
	}
	FillExplanation(e)
	for i, want := range [][]string{{"ovn-nbctl list DHCP_Options " + full.DHCPRow}, {"dig @192.0.2.1"}, nil} {
		if f := e.Findings[i]; !slices.Equal(f.Commands, want) || f.Remedy == "" || f.Docs == "" {
			t.Errorf("%+v, want the commands %q", f, want)
		}
	}
}

func TestWell(t *testing.T) {
	for _, tc := range []struct {
		codes []string
		want  bool
	}{
		{nil, true},
		{[]string{api.CodeNoRoute}, true},
		{[]string{api.CodeNoRoute, api.CodeNoData}, false},
		{[]string{"of-a-newer-version"}, false},
	} {
		var all []api.Problem
		for _, code := range tc.codes {
			all = append(all, api.Problem{Code: code})
		}
		if got := Well(all); got != tc.want {
			t.Errorf("%q: %v, want %v", tc.codes, got, tc.want)
		}
	}
}
