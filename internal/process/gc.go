// SPDX-License-Identifier: Apache-2.0

// Package process adjusts the process to a node that it shares with guests: its garbage, the time slices of
// its threads, its log for journald, and its status for systemd.
package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Bounds of the garbage that a process may have before a collection, in bytes. Between the bounds, garbage
// may be as large as the live heap. The snapshot of a node takes a few megabytes: the runtime alone would
// collect dozens of times a second under load. The snapshot of a large cloud takes hundreds, which garbage
// would double.
const (
	minGarbage = 32 << 20
	maxGarbage = 64 << 20
)

// PaceGC bounds the garbage of the process. GOGC in the environment has precedence.
func PaceGC() {
	if os.Getenv("GOGC") == "" {
		setGCPercent(nil)
	}
}

// setGCPercent runs after each collection, since the size of the live heap may have changed.
func setGCPercent(*sentinel) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	runtime.SetFinalizer(&sentinel{}, setGCPercent)
}

// sentinel is never referenced, so that each collection finalizes one. It has a pointer: small objects
// without a pointer share a block of memory, which may delay the finalizer.
type sentinel struct{ _ *int }

// gcPercent returns the allowed garbage, in percent of the live heap.
func gcPercent(live uint64) int {
	return int(min(max(live, minGarbage), maxGarbage) * 100 / max(live, 1<<20))
}
