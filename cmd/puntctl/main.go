// SPDX-License-Identifier: Apache-2.0

// Command puntctl asks a running puntdns how it is, over its control socket. docs/puntctl.md says
// how it is used.
package main

import (
	"os"

	"github.com/puntdns/puntdns/internal/puntctl"
)

// version is set by the Makefile from the newest tag.
var version = "0.0.0-dev"

func main() { os.Exit(puntctl.Run(version, os.Args[1:], os.Stdout, os.Stderr)) }
