// SPDX-License-Identifier: Apache-2.0

package puntdns

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is the prefix of the packages in imports.
const module = "github.com/puntdns/puntdns"

// imports has a line for each package of this module: the packages of this module and the notable
// others that it imports. Packages import in one direction: before you add a word, see whether the
// type or the function that you need belongs into the package of the line, or below both. Tests may
// import what they like. A comment after # gives the reason for a restriction.
const imports = `
.: internal/lifecycle internal/plugincfg internal/precheck internal/process ofpunt caddy coredns coredns-log
cmd/puntctl: internal/puntctl
cmd/puntdns: . internal/puntctl plugins
plugins: ofpunt plugin/audit plugin/egress plugin/neutronhosts plugin/ovnforward plugin/ovnhosts plugin/passthrough plugin/private plugin/ready plugin/rpz coredns
plugins/generate: internal/plugincfg

internal/address: coredns-log # addresses alone
internal/auditlog: internal/endpoint internal/escape # no DNS
internal/authority: internal/control/api internal/corefile internal/explain internal/metricset internal/origin internal/ovn/names coredns dns # it knows names and guests, not the source of either
internal/cachekey: coredns
internal/control: internal/control/api internal/control/remedy caddy # whoever has something to show adds it; no DNS
internal/control/api:
internal/control/remedy: internal/control/api internal/shell # it knows codes: no OVN, no switch, no socket
internal/corefile: internal/endpoint caddy
internal/corefile/corefiletest: caddy dns
internal/endpoint:
internal/endpoint/endpointtest: internal/endpoint
internal/escape:
internal/explain: internal/shell dns
internal/label: internal/escape internal/origin internal/ovn/ovndb internal/plugincfg/traits caddy # it knows no guest
internal/lifecycle: internal/control internal/control/api internal/corefile internal/precheck ofpunt plugin/audit plugin/neutronhosts plugin/ovnhosts plugin/rpz caddy coredns-log # no plugins: it runs any list of them
internal/metricset: coredns
internal/opening:
internal/origin: internal/opening dns
internal/ovn: internal/origin internal/ovn/names internal/ovsdb internal/policy dns # it knows answers: no row, no lock, no goroutine
internal/ovn/binding: internal/origin internal/ovn internal/ovn/topology internal/ovsdb # it decides on guests: no client, no condition
internal/ovn/build: internal/origin internal/ovn internal/ovn/binding internal/ovn/interest internal/ovn/names internal/ovn/problem internal/ovn/topology internal/ovsdb # rows in, networks out: no client, no lock, no log
internal/ovn/interest: internal/origin internal/ovn internal/ovn/topology internal/ovsdb # it decides what to ask for: no client, no snapshot
internal/ovn/names: dns
internal/ovn/ovndb: internal/endpoint internal/origin internal/ovn internal/ovn/binding internal/ovn/build internal/ovn/interest internal/ovn/names internal/ovn/problem internal/ovn/saved internal/ovn/topology internal/ovsdb internal/ovsdb/rows internal/refcount # the clients, the lock and the log, and no plugin
internal/ovn/ovntest: internal/origin internal/ovn
internal/ovn/problem: internal/origin internal/ovn/names internal/ovsdb
internal/ovn/saved: internal/ovsdb
internal/ovn/topology: internal/origin internal/ovn internal/ovn/names internal/ovn/problem internal/ovsdb internal/ovsdb/rows internal/policy # it knows the schemas, and not who asks
internal/ovsdb: internal/endpoint
internal/ovsdb/ovsdbtest: internal/testkit
internal/ovsdb/rows: internal/ovsdb # it knows no schema
internal/plugincfg: internal/plugincfg/traits
internal/plugincfg/traits:
internal/policy: internal/opening # it knows names and addresses: no guest, no message, no plugin
internal/precheck: internal/corefile internal/plugincfg/traits ofpunt/config plugin/private caddy coredns coredns-log
internal/process: coredns-log
internal/puntctl: internal/control/api internal/control/remedy internal/escape internal/opening internal/shell cobra uniseg # it knows what a process shows, not how the process makes it
internal/refcount:
internal/shell: internal/escape
internal/spacesaving:
internal/testkit: dns
internal/testkit/golden:
internal/vswitch: internal/endpoint libovsdb

ofpunt: internal/control internal/corefile internal/endpoint internal/label internal/ovn/ovndb internal/vswitch ofpunt/admin ofpunt/bridge ofpunt/chain ofpunt/config ofpunt/metric ofpunt/placement ofpunt/punt ofpunt/watch caddy coredns coredns-log
ofpunt/admin: internal/control internal/control/api internal/control/remedy internal/explain internal/opening internal/origin internal/ovn internal/ovn/names internal/ovn/ovndb internal/ovsdb internal/shell ofpunt/bridge ofpunt/flows ofpunt/guests ofpunt/metric ofpunt/openflow ofpunt/placement ofpunt/punt ofpunt/refusals ofpunt/watch dns # it shows state, and changes none
ofpunt/announce:
ofpunt/bridge: internal/control internal/control/api internal/endpoint internal/metricset internal/opening internal/origin internal/ovn internal/ovn/binding internal/ovn/ovndb internal/process internal/vswitch ofpunt/announce ofpunt/config ofpunt/flows ofpunt/guests ofpunt/metric ofpunt/openflow ofpunt/placement ofpunt/ports ofpunt/punt ofpunt/refusals ofpunt/watch coredns-log # no plugin, and no text of a Corefile
ofpunt/chain: internal/control/api internal/corefile internal/explain internal/label internal/opening internal/origin internal/ovn internal/ovn/ovndb internal/plugincfg/traits ofpunt/config ofpunt/guests ofpunt/metric ofpunt/placement ofpunt/punt ofpunt/tenantcache ofpunt/watch caddy coredns coredns-log dns # it knows plugins and guests: no bridge, no connection
ofpunt/config: internal/control/api internal/corefile internal/endpoint internal/escape internal/label internal/ovn/ovndb ofpunt/guests ofpunt/placement ofpunt/tcp ofpunt/tenantcache caddy dns # no database, no plugin
ofpunt/flows: internal/endpoint internal/opening ofpunt/frame ofpunt/openflow ofpunt/placement # no DNS
ofpunt/frame:
ofpunt/guests: internal/label internal/opening internal/origin internal/ovn internal/vswitch ofpunt/openflow ofpunt/placement ofpunt/ports # no goroutine, no clock, no connection
ofpunt/lastquery: internal/control/api internal/origin ofpunt/metric coredns dns # it knows neither packets nor plugins
ofpunt/metric: internal/escape internal/metricset coredns
ofpunt/openflow:
ofpunt/placement: internal/opening ofpunt/frame ofpunt/openflow # no DNS
ofpunt/ports: internal/vswitch
ofpunt/punt: internal/opening internal/origin internal/ovn internal/vswitch ofpunt/frame ofpunt/guests ofpunt/lastquery ofpunt/metric ofpunt/openflow ofpunt/placement ofpunt/ports ofpunt/refusals ofpunt/share ofpunt/tcp ofpunt/watch coredns-log dns # a chain is all that it knows of CoreDNS
ofpunt/punttest: internal/testkit ofpunt/frame ofpunt/openflow
ofpunt/refusals:
ofpunt/share:
ofpunt/tcp: ofpunt/share ofpunt/tcp/light gvisor # no DNS
ofpunt/tcp/light: gvisor # no DNS
ofpunt/tenantcache: internal/cachekey internal/explain internal/origin ofpunt/metric caddy coredns dns # it knows guests and a cache, and no switch
ofpunt/watch: internal/control/api internal/origin internal/spacesaving coredns dns # it knows queries, and no plugin

# No plugin imports ofpunt: internal/origin has what a plugin may know of the punt.
plugin/audit: internal/auditlog internal/corefile internal/escape internal/metricset internal/origin caddy coredns coredns-log dns
plugin/egress: internal/address internal/authority internal/control internal/control/api internal/corefile internal/explain internal/label internal/metricset internal/opening internal/origin internal/ovn internal/policy caddy coredns coredns-log dns
plugin/neutronhosts: internal/authority internal/corefile internal/metricset internal/origin plugin/neutronhosts/addnhosts caddy coredns coredns-log dns
plugin/neutronhosts/addnhosts: internal/ovn/names internal/refcount dns # it knows files, and no plugin
plugin/ovnforward: internal/address internal/authority internal/cachekey internal/control internal/control/api internal/corefile internal/explain internal/metricset internal/origin internal/ovn internal/ovn/ovndb internal/shell caddy coredns coredns-log dns
plugin/ovnhosts: internal/authority internal/control internal/control/api internal/corefile internal/endpoint internal/explain internal/metricset internal/origin internal/ovn internal/ovn/names internal/ovn/ovndb internal/ovn/saved internal/ovsdb internal/shell caddy coredns coredns-log dns
plugin/passthrough: internal/corefile internal/origin caddy coredns dns
plugin/private: internal/address internal/authority internal/control/api internal/corefile internal/explain internal/metricset internal/origin internal/ovn/names caddy coredns dns
plugin/ready: internal/corefile caddy coredns coredns-log
plugin/rpz: internal/authority internal/control internal/control/api internal/corefile internal/explain internal/metricset internal/origin plugin/rpz/rules plugin/rpz/source caddy coredns coredns-log dns
plugin/rpz/rules: dns # it knows zones, and no plugin
plugin/rpz/source: internal/refcount plugin/rpz/rules dns # it knows zones, and no plugin

test:
test/bench: internal/control/api internal/origin internal/ovn internal/ovn/binding internal/ovn/ovndb internal/ovsdb internal/puntctl ofpunt/frame ofpunt/openflow ofpunt/placement test/lab dns gvisor
test/corednssuite: plugins coredns
test/demo: test/lab dns
test/docs: test/pages
test/lab: internal/endpoint internal/endpoint/endpointtest dns
test/mutations:
test/neutron:
test/pages:
test/pictures: test/svg
test/respdiff: test/lab dns
test/svg: # it does not know what it draws
`

// notable are the other modules that imports has, by the prefix of their packages; the first that
// fits counts.
var notable = []struct{ word, prefix string }{
	{"coredns-log", "github.com/coredns/coredns/plugin/pkg/log"},
	{"coredns", "github.com/coredns/coredns"},
	{"caddy", "github.com/coredns/caddy"},
	{"dns", "github.com/miekg/dns"},
	{"cobra", "github.com/spf13/cobra"},
	{"gvisor", "gvisor.dev/gvisor"},
	{"uniseg", "github.com/rivo/uniseg"},
	{"libovsdb", "github.com/ovn-kubernetes/libovsdb"},
}

// TestImports compares imports with the source, in both directions: a word that nobody needs any
// more would allow its return.
func TestImports(t *testing.T) {
	allowed := map[string][]string{}
	for line := range strings.Lines(imports) {
		line, _, _ = strings.Cut(line, "#")
		if name, words, ok := strings.Cut(line, ":"); ok {
			allowed[name] = strings.Fields(words)
		}
	}
	there := imported(t)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		words, ok := allowed[name]
		if !ok {
			t.Errorf("%s has no line in imports", name)
			continue
		}
		for _, word := range there[name] {
			if !slices.Contains(words, word) {
				t.Errorf("%s imports %s, which its line does not allow", name, word)
			}
		}
		for _, word := range words {
			if !slices.Contains(there[name], word) {
				t.Errorf("%s does not import %s, which its line allows", name, word)
			}
		}
		delete(allowed, name)
	}
	for name := range allowed {
		t.Errorf("imports has a line for %s, which is no package", name)
	}
}

// imported returns what each package of this module imports, in the words of imports.
func imported(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-tags", "neutron", "-json=Dir,ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir, ImportPath string
			Imports         []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		// The cache of test results only knows what the test itself reads.
		if _, err := os.ReadDir(p.Dir); err != nil {
			t.Fatal(err)
		}
		words := map[string]bool{}
		for _, path := range p.Imports {
			if w := wordOf(path); w != "" {
				words[w] = true
			}
		}
		all[wordOf(p.ImportPath)] = slices.Sorted(maps.Keys(words))
	}
}

// wordOf returns the word of imports for a package, "" for a package that imports leaves out.
func wordOf(path string) string {
	if path == module {
		return "."
	}
	if name, ok := strings.CutPrefix(path, module+"/"); ok {
		return name
	}
	for _, n := range notable {
		if path == n.prefix || strings.HasPrefix(path, n.prefix+"/") {
			return n.word
		}
	}
	return ""
}
