// SPDX-License-Identifier: Apache-2.0

// Command puntdns is a CoreDNS that answers the DNS queries that an Open
// vSwitch bridge punts to it. See the README for what it does and
// Corefile.example for how it is configured.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	"github.com/puntdns/puntdns/ofpunt"
)

// version is set by the Makefile from the newest tag.
var version = "0.0.0-dev"

func main() {
	if err := shortenSlices(); err != nil {
		fmt.Fprintln(os.Stderr, "puntdns: guests that use up their processors may delay answers:", err)
	}
	paceGC()
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, "puntdns:", err)
		os.Exit(1)
	}
	ofpunt.TakeOverAfter(directives[len(directives)-1])
	caddy.AppName = "puntdns"
	caddy.AppVersion = fmt.Sprintf("%s (CoreDNS-%s)", version, coremain.CoreVersion)
	// CoreDNS's own loader of -conf has precedence over ours, so it is not told.
	conf := confFlag(caddy.DefaultConfigFile)
	flag.Lookup("conf").Value = &conf
	caddy.SetDefaultCaddyfileLoader("default", caddy.LoaderFunc(conf.load))
	coremain.Run()
	// Run returns at once when no server block opened a socket. Signals and the
	// reload plugin work on regardless; SIGTERM ends the process.
	select {}
}

// confFlag is the Corefile's path, or "stdin".
type confFlag string

// String and Set implement flag.Value.
func (f *confFlag) String() string     { return string(*f) }
func (f *confFlag) Set(s string) error { *f = confFlag(s); return nil }

// load reads the Corefile, at the start and on each reload. Without one, or a server
// block in it, CoreDNS would serve a default on port 53, which is nothing to do by
// accident on a node: an editor may empty a file before it writes it.
func (f *confFlag) load(serverType string) (caddy.Input, error) {
	path := string(*f)
	if path == "stdin" {
		return caddy.CaddyfileFromPipe(os.Stdin, serverType)
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("no Corefile: %w; expected one here, or -conf FILE", err)
	}
	if blocks, err := caddyfile.Parse(path, bytes.NewReader(contents), nil); err == nil && len(blocks) == 0 {
		return nil, fmt.Errorf("%s: no server block; expected at least one", path)
	}
	return caddy.CaddyfileInput{Contents: contents, Filepath: path, ServerTypeName: serverType}, nil
}
