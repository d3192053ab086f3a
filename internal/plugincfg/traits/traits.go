// SPDX-License-Identifier: Apache-2.0

// Package traits has the properties of plugins that the project relies on, CoreDNS's and its own: a row for
// each plugin. Each plugin of plugin.cfg has a row. A plugin without a row, such as one of another
// distribution, has no trait: it may block, may answer any name, and is asked for nothing special.
package traits

// Trait is something that holds of a plugin.
type Trait uint16

const (
	// NeverBlocks: the plugin does not block by itself, or calls LeaveReader before (package opening), so the reader of
	// a connection to the switch may run it. A lookup by the chain does not count.
	NeverBlocks Trait = 1 << iota
	// ChangesQuestion: the plugins below get another question.
	ChangesQuestion
	// PassesOn: the plugin leaves each query to the next one, or answers it by its type or class and not by its
	// name.
	PassesOn
	// OfGuest: the plugin answers for names of the guest's own network, and private ones, alone.
	OfGuest
	// Observes: the plugin logs, counts or sends queries elsewhere, and changes nothing.
	Observes
	// Recurses: the plugin sends a query on to a server that may know the name.
	Recurses
	// HasZones: the plugin has zones, which may have private names.
	HasZones
	// AnswersDiffer: the answers differ between guests or server blocks, which the key of cache does not have.
	AnswersDiffer
	// ReadsLabels: the plugin reads labels of metadata that its lines in the Corefile name.
	ReadsLabels
	// ComputesLabels: the plugin reads labels whose names it computes.
	ComputesLabels
)

// table has the rows, in the order of plugin.cfg, and then plugins of other distributions.
var table = map[string]Trait{
	"root":         PassesOn,
	"ofpunt":       PassesOn | NeverBlocks,
	"metadata":     PassesOn | NeverBlocks,
	"cancel":       PassesOn | NeverBlocks,
	"tls":          PassesOn,
	"timeouts":     PassesOn,
	"reload":       PassesOn,
	"nsid":         PassesOn | NeverBlocks,
	"bufsize":      PassesOn | NeverBlocks,
	"bind":         PassesOn,
	"debug":        PassesOn | NeverBlocks,
	"ready":        PassesOn | NeverBlocks,
	"health":       PassesOn | NeverBlocks,
	"pprof":        PassesOn | NeverBlocks,
	"prometheus":   PassesOn | NeverBlocks | Observes,
	"errors":       PassesOn | NeverBlocks | Observes,
	"log":          PassesOn | NeverBlocks | Observes | ReadsLabels, // in its format
	"dnstap":       PassesOn | NeverBlocks | Observes | ReadsLabels, // in its property extra
	"audit":        PassesOn | NeverBlocks | Observes | ReadsLabels, // in its property fields
	"local":        NeverBlocks,
	"dns64":        PassesOn,
	"any":          PassesOn | NeverBlocks,
	"chaos":        PassesOn | NeverBlocks,
	"loadbalance":  PassesOn | NeverBlocks,
	"tsig":         PassesOn,
	"rewrite":      PassesOn | NeverBlocks | ChangesQuestion | ReadsLabels, // in edns0, and in names with the word metadata
	"acl":          PassesOn | NeverBlocks,
	"header":       PassesOn | NeverBlocks,
	"minimal":      PassesOn | NeverBlocks,
	"ovnhosts":     OfGuest | AnswersDiffer,
	"neutronhosts": OfGuest | NeverBlocks | AnswersDiffer,
	"rpz":          PassesOn | NeverBlocks | AnswersDiffer,
	"egress":       PassesOn | NeverBlocks | AnswersDiffer,
	"transfer":     PassesOn | NeverBlocks,
	"ovnforward":   PassesOn | Recurses,
	"cache":        PassesOn,
	"template":     HasZones | ReadsLabels | ComputesLabels, // in its texts and expressions
	"hosts":        HasZones,
	"file":         HasZones,
	"auto":         HasZones,
	"secondary":    HasZones,
	"private":      OfGuest,
	"loop":         PassesOn,
	"forward":      Recurses,
	"passthrough":  Recurses,
	"whoami":       0,
	"view":         PassesOn | ReadsLabels | ComputesLabels, // in its expressions

	"kubernetes": HasZones,
	"etcd":       HasZones,
	"trace":      PassesOn,
	"geoip":      PassesOn,
	"dnssec":     PassesOn,
	"grpc":       Recurses,
	"unbound":    Recurses,
	"fanout":     Recurses,
	"recursor":   Recurses,
	"alternate":  Recurses, // if the plugin behind it answers with some rcode
}

// Of returns the traits of a plugin, and reports whether there is a row for it.
func Of(plugin string) (t Trait, known bool) {
	t, known = table[plugin]
	return t, known
}

// Has reports whether a plugin has a trait.
func Has(plugin string, t Trait) bool { return table[plugin]&t != 0 }

// With returns the plugins that have a trait, in no order.
func With(t Trait) (plugins []string) {
	for name := range table {
		if Has(name, t) {
			plugins = append(plugins, name)
		}
	}
	return plugins
}
