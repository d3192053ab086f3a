// SPDX-License-Identifier: Apache-2.0

// Package plugins links the plugins of puntdns, and has their order.
package plugins

import (
	// The plugins of CoreDNS that belong on a node. What talks to a cloud's API
	// or to Kubernetes is left out: it would triple the binary.
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/cancel"
	_ "github.com/coredns/coredns/plugin/chaos"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/dns64"
	_ "github.com/coredns/coredns/plugin/dnstap"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/header"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/local"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/minimal"
	_ "github.com/coredns/coredns/plugin/nsid"
	_ "github.com/coredns/coredns/plugin/pprof"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/root"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/timeouts"
	_ "github.com/coredns/coredns/plugin/tls"
	_ "github.com/coredns/coredns/plugin/view"
	_ "github.com/coredns/coredns/plugin/whoami"

	_ "github.com/puntdns/puntdns/ofpunt"
	_ "github.com/puntdns/puntdns/plugin/audit"
	_ "github.com/puntdns/puntdns/plugin/neutronhosts"
	_ "github.com/puntdns/puntdns/plugin/ovnhosts"
	_ "github.com/puntdns/puntdns/plugin/passthrough"
	_ "github.com/puntdns/puntdns/plugin/private"
	_ "github.com/puntdns/puntdns/plugin/ready"
	_ "github.com/puntdns/puntdns/plugin/rpz"
)

// Directives is the order in which plugins are set up and in which a query
// passes them. It differs from CoreDNS's own in four places:
//
//   - ofpunt comes before every plugin with an OnStartup: metadata, ready,
//     prometheus and cache read what the punt server builds there;
//   - header and minimal stand above ovnhosts and neutronhosts, so that they see their
//     answers;
//   - ovnhosts and neutronhosts stand above cache, whose key knows no tenant;
//   - rpz stands below these, as a tenant's own names are not filtered, and above cache: policies
//     differ between blocks, and a rule that has changed counts at once.
//
// private stands below all that has names, and above all that asks others for them.
//
// Stages of OnStartup run in this order too. ofpunt adds its last one behind that of the
// last name (ofpunt.TakeOverAfter).
var Directives = []string{
	"root",
	"ofpunt",
	"metadata",
	"cancel",
	"tls",
	"timeouts",
	"reload",
	"nsid",
	"bufsize",
	"bind",
	"debug",
	"ready",
	"health",
	"pprof",
	"prometheus",
	"errors",
	"log",
	"dnstap",
	"audit",
	"local",
	"dns64",
	"any",
	"chaos",
	"loadbalance",
	"rewrite",
	"acl",
	"header",
	"minimal",
	"ovnhosts",
	"neutronhosts",
	"rpz",
	"cache",
	"template",
	"hosts",
	"file",
	"private",
	"loop",
	"forward",
	"passthrough",
	"whoami",
	"view",
}
