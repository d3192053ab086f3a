// SPDX-License-Identifier: Apache-2.0

// Package ofpunt is the CoreDNS plugin that takes its queries from an Open
// vSwitch bridge instead of a socket: flows punt each DNS packet of a guest to
// this process (an OpenFlow packet-in), the server blocks that name the bridge
// answer it, and the answer returns through the port it came from (a
// packet-out).
//
// The package starts, reloads and stops the servers of a Corefile. Package chain compiles the server blocks,
// package bridge serves the bridges, package admin answers the control socket, package punt takes a punted
// packet to the chains, and package tenantcache decides which guests get a stored answer.
//
// # The life of a Corefile
//
// An [instance] is one reading of a Corefile, with a server for each bridge that it names.
//
//	setup           one block is parsed                      setup.go, chain.NewBlock
//	finishParsing   blocks are checked, our handlers added   instance.go, chain.Prepare
//	build           servers are compiled                     instance.go, chain.Compile
//	takeOver        the bridges get the new servers          process.go switchTo, bridge.Registry.Serve
//	shutDown        the old servers drain                    instance.go, bridge.Registry.Stop
//
// A reload (SIGUSR1 or the plugin reload, in internal/lifecycle) calls [Try] first: it checks that what the
// new Corefile names is there (reloadtrial.go, bridge.Registry.Try). Only then caddy gets the Corefile. If a later
// plugin fails to start, rollBack gives the bridges to the old servers again.
//
// # Locks
//
// The lock of running is held during takeOver, rollBack and stop, and outside of the locks of package bridge.
// stage.mu guards the callback that is to be added behind the callbacks of all plugins. No query takes either.
package ofpunt

import clog "github.com/coredns/coredns/plugin/pkg/log"

const name = "ofpunt"

var log = clog.NewWithPlugin(name)
