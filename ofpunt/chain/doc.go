// SPDX-License-Identifier: Apache-2.0

// Package chain compiles the server blocks of a Corefile into the plugin chains of one bridge, with puntdns' own
// handlers. It knows CoreDNS' plugins, but no bridges or connections.
//
//	NewBlock   parse the directive, put a Handler first   block.go
//	Prepare    check labels, insert handlers              block.go, labels.go, insert.go
//	Compile    wrap *forward*, *tsig* and *transfer*,     wrap.go
//	           make and check the chains                  compile.go, databases.go
//	Config     the part of package punt                   compile.go
//
// Own handlers, in the order of a query:
//
//	Handler ......... labels, zone transfers, durations                     handler.go
//	unobserved ...... an explained query skips log, audit, prometheus       unobserved.go
//	outcome ......... log and prometheus count a query without an answer    outcome.go
//	hop ............. no EDNS option of a guest goes to another server      hop.go
//	tenantcache ..... cache an answer only for its guests
//	loopGuard ....... *forward* does not ask a guest its own question       forward.go
//	hedge ........... a second server if the first is slow                  hedge.go
//	noTransfers ..... *forward* gets no zone transfer                       transfer.go
//	resumeUnanswered  in hijack mode, the query goes on to its destination  resume.go
package chain

import clog "github.com/coredns/coredns/plugin/pkg/log"

// name is the directive, and the name of all handlers here.
const name = "ofpunt"

var log = clog.NewWithPlugin(name)
