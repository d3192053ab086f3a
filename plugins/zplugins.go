// SPDX-License-Identifier: Apache-2.0

// Code generated from plugin.cfg. DO NOT EDIT.

package plugins

import (
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/auto"
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
	_ "github.com/coredns/coredns/plugin/secondary"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/timeouts"
	_ "github.com/coredns/coredns/plugin/tls"
	_ "github.com/coredns/coredns/plugin/transfer"
	_ "github.com/coredns/coredns/plugin/tsig"
	_ "github.com/coredns/coredns/plugin/view"
	_ "github.com/coredns/coredns/plugin/whoami"

	_ "github.com/puntdns/puntdns/ofpunt"
	_ "github.com/puntdns/puntdns/plugin/audit"
	_ "github.com/puntdns/puntdns/plugin/egress"
	_ "github.com/puntdns/puntdns/plugin/neutronhosts"
	_ "github.com/puntdns/puntdns/plugin/ovnforward"
	_ "github.com/puntdns/puntdns/plugin/ovnhosts"
	_ "github.com/puntdns/puntdns/plugin/passthrough"
	_ "github.com/puntdns/puntdns/plugin/private"
	_ "github.com/puntdns/puntdns/plugin/ready"
	_ "github.com/puntdns/puntdns/plugin/rpz"
)

// Directives are the names of the plugins, in the order in which they are set up and in which a
// query passes them.
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
	"tsig",
	"rewrite",
	"acl",
	"header",
	"minimal",
	"ovnhosts",
	"neutronhosts",
	"rpz",
	"egress",
	"transfer",
	"ovnforward",
	"cache",
	"template",
	"hosts",
	"file",
	"auto",
	"secondary",
	"private",
	"loop",
	"forward",
	"passthrough",
	"whoami",
	"view",
}
