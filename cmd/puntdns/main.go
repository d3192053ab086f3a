// SPDX-License-Identifier: Apache-2.0

// Command puntdns is a CoreDNS that answers the DNS queries that an Open
// vSwitch bridge punts to it. See the README and Corefile.example.
// Called by the name puntctl, as by a symbolic
// link, it is that program: both together take a sixth less room than two.
package main

import (
	"os"
	"path/filepath"

	"github.com/puntdns/puntdns"
	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/plugins"
)

// version is set by the Makefile from the newest tag.
var version = "0.0.0-dev"

func main() {
	if filepath.Base(os.Args[0]) == "puntctl" {
		os.Exit(puntctl.Run(version, os.Args[1:], os.Stdout, os.Stderr))
	}
	puntdns.Run(puntdns.Distribution{Version: version, Directives: plugins.Directives})
}
