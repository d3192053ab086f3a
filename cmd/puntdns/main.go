// SPDX-License-Identifier: Apache-2.0

// Command puntdns is a CoreDNS that answers the DNS queries that an Open
// vSwitch bridge punts to it. See the README for what it does and
// Corefile.example for how it is configured.
package main

import (
	"github.com/puntdns/puntdns"
	"github.com/puntdns/puntdns/plugins"
)

// version is set by the Makefile from the newest tag.
var version = "0.0.0-dev"

func main() {
	puntdns.Run(puntdns.Distribution{Version: version, Directives: plugins.Directives})
}
