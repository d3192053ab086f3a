// SPDX-License-Identifier: Apache-2.0

// Package ovndb reads the OVN databases and publishes a new snapshot when rows change: see [Source].
//
// # The path of a row
//
// Indented under what calls it:
//
//	ovsdb.Client.Run                one goroutine a database, without the lock
//	  receiver.Row
//	    rows.Tables.Stage           columns parse into structs of package topology
//	  receiver.Commit               Source.mu from here
//	    rows.Tables.Apply           callbacks update indexes, and fill topology.Changes
//	    Source.update
//	      takeChanges               marks networks as dirty
//	      binding.Guests.Step       which guests are retained
//	      interest.Southbound, Northbound
//	        interest.Monitor.Want   are other conditions due?
//	          ovsdb.Client.SetConditions
//	      Southbound.UpdateCoPP     meters
//	      build                     the next snapshot, in proportion to what is dirty
//	        build.Inputs.Network    each dirty network
//	        build.Components.BuildScopes
//	        ovn.Editor.Done
//	      built                     notices for the log
//	      snapshot, changed         an atomic pointer, and a channel that is closed
//	    notices are logged          after the lock: see logMutex
//
// # Files
//
//	source, registry, config        the life of a Source, and its key
//	reader, requests, nothere, operators, status, totals
//	                                what callers request and read
//	receiver, connection            a database: rows, conditions, position
//	update, build, rowless, holders, labels, plugged, grace
//	                                the steps of an update
//	problems, notices               the log
//	restore, checkpoint             the rows of the last process, in a file (package saved)
//
// # Goroutines and locks
//
// Each database has the goroutine of its ovsdb.Client. Another goroutine reads and writes the saved state.
// Timers call update. All of them, and callers of a Source, hold Source.mu while they use rows, conditions or
// marks. The rows always belong to one transaction.
package ovndb
