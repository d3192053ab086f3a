// SPDX-License-Identifier: Apache-2.0

// Package chain compiles the server blocks of a Corefile into the plugin chains that answer the queries of
// one bridge, and has the handlers of our own in these chains. It knows CoreDNS's plugins, and neither
// bridges nor connections.
//
// A block becomes a chain in these steps:
//
//	NewBlock   the directive is parsed, and a Handler put first   block.go
//	Prepare    labels are checked, our handlers inserted          block.go, labels.go, insert.go
//	Compile    *forward*, *tsig* and *transfer* are wrapped,      wrap.go
//	           the chains made and checked                        compile.go, databases.go
//	Config     what package punt needs of the chains              compile.go
//
// A query goes through them in this order, of which a block has a part:
//
//	Handler ......... labels, zone transfers, durations   handler.go
//	unobserved ...... an explained query goes past log, audit, prometheus   unobserved.go
//	outcome ......... log and prometheus count a query without an answer    outcome.go
//	hop ............. no EDNS option of a guest goes to another server      hop.go
//	tenantcache ..... an answer that depends on the guest is cached for those it is for
//	loopGuard ....... *forward* does not ask a guest what that guest asks   forward.go
//	hedge ........... *forward* has a second server if the first is slow    hedge.go
//	noTransfers ..... *forward* gets no zone transfer                       transfer.go
//	resumeUnanswered  in hijack mode, the query goes on to its destination  resume.go
package chain

import clog "github.com/coredns/coredns/plugin/pkg/log"

// name is the directive, and the name of all handlers of this package.
const name = "ofpunt"

var log = clog.NewWithPlugin(name)
