// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"maps"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Orphans are flows of processes that are dead. Which of them there are is found by trace and
// sweep; difference and withdraw remove them, as no plan wants them.

// tablesPerBeat spreads the search for flows of dead processes, since each table that is
// asked for blocks the switch's main thread.
const tablesPerBeat = 32

// trace asks where else the processes have flows of which some are known: OVN's DNS stage, or
// the Corefile's table, may have had another number. The switch has an index of whole cookies,
// so this costs it next to nothing.
func (m *machine) trace() request {
	// This process's own may be where they were on the connection before.
	generations := append(slices.Sorted(maps.Keys(m.observed.generations)), m.generation())
	for _, g := range generations {
		// Flows of a later process stay, and a released lease flow is a single flow.
		if g <= m.generation() && g != releasedGeneration && !m.traced[g] {
			m.reading = reading{purpose: forTrace, generation: g}
			return readFlows{openflow.TableAll, cookieOf(g), exactMask}
		}
	}
	return nil
}

// sweep searches the tables one by one for flows that trace does not find: entry flows of a dead process in
// another table, of whose private table nothing is left. It takes some heartbeats. After that a new process
// knows all flows.
func (m *machine) sweep() request {
	for ; m.tablesDue > 0 && m.memory.swept < int(openflow.TableAll); m.memory.swept++ {
		if table := uint8(m.memory.swept); !m.monitored[table] {
			m.tablesDue--
			m.reading = reading{purpose: forSweep}
			return readFlows{table, cookieMark, cookieMask}
		}
	}
	return nil
}
