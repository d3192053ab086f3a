// SPDX-License-Identifier: Apache-2.0

// Package process adjusts the process to a node that it shares with the guests it serves: how much
// garbage it may keep, how soon its threads run, and how the journal learns the level of a log line.
package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage a process may have before it is collected, in bytes: as much as
// is alive, within these bounds. A node's snapshot takes a few megabytes, and at that
// size the runtime alone would collect dozens of times a second under load. That of
// a large cloud takes hundreds, and garbage would double them.
const (
	minGarbage = 32 << 20
	maxGarbage = 64 << 20
)

// PaceGC bounds the garbage. GOGC in the environment has precedence.
func PaceGC() {
	if os.Getenv("GOGC") == "" {
		setGCPercent(nil)
	}
}

// setGCPercent runs after each collection, since what is alive may have grown.
func setGCPercent(*sentinel) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	runtime.SetFinalizer(&sentinel{}, setGCPercent)
}

// sentinel is never referenced, so that each collection finalizes one. It has a
// pointer: objects without one share their memory with others.
type sentinel struct{ _ *int }

// gcPercent is the garbage that may be there, in percent of what is alive.
func gcPercent(live uint64) int {
	return int(min(max(live, minGarbage), maxGarbage) * 100 / max(live, 1<<20))
}
