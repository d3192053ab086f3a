// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"maps"
	"slices"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// Orphans are flows of dead processes. No plan wants them, so difference and withdraw remove them.

// tablesPerBeat limits the search: each table read blocks the switch's main thread.
const tablesPerBeat = 32

// trace reads the flows of known generations in all tables, since OVN's DNS stage or the Corefile's table may have
// moved. Whole cookies are cheap for the switch.
func (m *machine) trace() request {
	// This process may have used other tables on the last connection.
	generations := append(slices.Sorted(maps.Keys(m.observed.generations)), m.generation())
	for _, g := range generations {
		// A released lease flow stands alone.
		if g <= m.generation() && g != releasedGeneration && !m.traced[g] {
			m.reading = reading{purpose: forTrace, generation: g}
			return readFlows{Table: openflow.TableAll, Cookie: cookieOf(g), Mask: exactMask}
		}
	}
	return nil
}

// sweep searches tables for entry flows of dead processes that have no flow in monitored tables, once in the life of
// a process.
func (m *machine) sweep() request {
	for ; m.tablesDue > 0 && m.memory.swept < int(openflow.TableAll); m.memory.swept++ {
		if table := uint8(m.memory.swept); !m.monitored[table] {
			m.tablesDue--
			m.reading = reading{purpose: forSweep}
			return readFlows{Table: table, Cookie: cookieMark, Mask: searchMask}
		}
	}
	return nil
}
