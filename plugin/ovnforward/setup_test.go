// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/testkit/golden"
)

func TestParseRefuses(t *testing.T) {
	// Where another package refuses, want has what the error names; else testdata/messages.golden has the error.
	for _, tt := range []struct{ name, input, want string }{
		{"unknown property", "ovnforward . {\n colour red\n}", `:2 .*"colour".*\[allow deny `},
		{"a bad zone", "ovnforward a..b", `:1 .*"a\.\.b"`},
		{"max_upstreams with two words", "ovnforward . {\n max_upstreams 1 2\n}", `:2 .* max_upstreams: \["1" "2"\].* 1 to 65536`},
		{"allow without words", "ovnforward . {\n allow\n}", ""},
		{"allow of a name", "ovnforward . {\n allow ns.test\n}", ""},
		{"allow with bits of a host", "ovnforward . {\n allow 10.0.0.1/8\n}", ""},
		{"deny of a mapped prefix", "ovnforward . {\n deny ::ffff:10.0.0.0/104\n}", ""},
		{"allow with a scope", "ovnforward . {\n allow fe80::1%eth0\n}", ""},
		{"ports without words", "ovnforward . {\n ports\n}", ""},
		{"ports with 0", "ovnforward . {\n ports 0\n}", ""},
		{"max_zones 0", "ovnforward . {\n max_zones 0\n}", ""},
		{"max_servers too large", "ovnforward . {\n max_servers 17\n}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(caddy.NewTestController("dns", tt.input))
			golden.Refusal(t, err, "Testfile", tt.want)
		})
	}
}

// names is the ovnhosts handler of a block.
type names struct {
	plugin.Handler
	database ovndb.Config
}

func (n names) Database() ovndb.Config     { return n.database }
func (names) DefaultSwitch() ovn.SwitchRef { return ovn.SwitchRef{} }

// Without a Northbound database there is nothing to forward.
func TestDatabaseRefused(t *testing.T) {
	for name, plugins := range map[string][]plugin.Plugin{
		"no ovnhosts": nil,
		"no Northbound": {func(plugin.Handler) plugin.Handler {
			return names{database: ovndb.Config{Southbound: []string{"unix:/sb"}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := parse(caddy.NewTestController("dns", "ovnforward ."))
			if err != nil {
				t.Fatal(err)
			}
			if err = h.readDatabase(plugins); err == nil {
				t.Fatal("taken")
			}
			golden.Check(t, err.Error())
		})
	}
}
