// SPDX-License-Identifier: Apache-2.0

// Command puntdns is a CoreDNS that answers the DNS queries that an Open
// vSwitch bridge punts to it. See the README for what it does and
// Corefile.example for how it is configured.
package main

import (
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	"github.com/puntdns/puntdns/ofpunt"
)

// version is set by the Makefile from the newest tag.
var version = "0.0.0-dev"

func main() {
	paceGC()
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, "puntdns:", err)
		os.Exit(1)
	}
	ofpunt.TakeOverAfter(directives[len(directives)-1])
	caddy.AppName = "puntdns"
	caddy.AppVersion = fmt.Sprintf("%s (CoreDNS-%s)", version, coremain.CoreVersion)
	caddy.SetDefaultCaddyfileLoader("default", caddy.LoaderFunc(loadCorefile))
	coremain.Run()
	// Run returns at once when no server block opened a socket. Signals and the
	// reload plugin work on regardless; SIGTERM ends the process.
	select {}
}

// loadCorefile reads the Corefile of the working directory, where -conf names
// none. Without one CoreDNS would serve a default on port 53, which is nothing to
// do by accident on a node.
func loadCorefile(serverType string) (caddy.Input, error) {
	contents, err := os.ReadFile(caddy.DefaultConfigFile)
	if err != nil {
		return nil, fmt.Errorf("no Corefile: %w; expected one here, or -conf FILE", err)
	}
	return caddy.CaddyfileInput{Contents: contents, Filepath: caddy.DefaultConfigFile, ServerTypeName: serverType}, nil
}
