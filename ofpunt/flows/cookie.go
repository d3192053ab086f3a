// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// A cookie marks a flow as puntdns's in its upper 24 bits ("pdn") and has the generation
// of its process in the lower 40.
const (
	cookieMark = uint64(0x70646e) << 40
	cookieMask = uint64(0xffffff) << 40
	exactMask  = ^uint64(0)
)

// ours reports whether the flow with that cookie is puntdns's, of whatever process.
func ours(cookie uint64) bool { return cookie&cookieMask == cookieMark }

func generationOf(cookie uint64) uint64   { return cookie &^ cookieMask }
func cookieOf(generation uint64) uint64   { return cookieMark | generation }
func isOf(cookie, generation uint64) bool { return cookie == cookieOf(generation) }

// releasedGeneration is the generation of a lease flow whose process withdraws: another process need not wait
// for its return.
const releasedGeneration = 0

// epoch is where generations count from, in milliseconds: 40 bits last for 34 years.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// generationAt is the generation of a process that starts at t.
func generationAt(t time.Time) uint64 {
	return max(1, uint64(max(0, t.Sub(epoch).Milliseconds()))&^cookieMask)
}

// nextGeneration is above highest, the highest generation that is known. Two processes
// that wait for the same one to come back must not arrive at the same number.
func nextGeneration(now time.Time, highest uint64, random *rand.Rand) uint64 {
	return max(generationAt(now), highest+1) + random.Uint64N(1000)
}
