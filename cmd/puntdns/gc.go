// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageRoom is how much garbage a process may have before it is collected, in
// bytes, however little is alive. A node's picture takes a few megabytes, and at
// that size the runtime alone would collect dozens of times a second under load.
const garbageRoom = 32 << 20

// paceGC makes room for garbage in a small heap; a large one is left to the
// runtime's default of as much garbage as is alive. GOGC in the environment has
// precedence.
func paceGC() {
	if os.Getenv("GOGC") == "" {
		collected(nil)
	}
}

// collected runs after each collection, since what is alive may have grown.
func collected(*sentinel) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	runtime.SetFinalizer(&sentinel{}, collected)
}

// sentinel is nothing that is kept, so that each collection finalizes one. It has a
// pointer: objects without one share their memory with others.
type sentinel struct{ _ *int }

// gcPercent is the garbage that may be there, in percent of what is alive.
func gcPercent(live uint64) int {
	return int(max(100, garbageRoom*100/max(live, 1<<20)))
}
