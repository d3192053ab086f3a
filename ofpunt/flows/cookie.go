// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"time"
)

// A cookie has a mark ("pdn") in its upper 24 bits and the process's generation in the lower 40.
const (
	cookieMark = uint64(0x70646e) << 40
	cookieMask = uint64(0xffffff) << 40
	exactMask  = ^uint64(0)
)

func ours(cookie uint64) bool { return cookie&cookieMask == cookieMark }

func generationOf(cookie uint64) uint64   { return cookie &^ cookieMask }
func cookieOf(generation uint64) uint64   { return cookieMark | generation }
func isOf(cookie, generation uint64) bool { return cookie == cookieOf(generation) }

// releasedGeneration marks a withdrawing process's lease flow: another process need not wait.
const releasedGeneration = 0

// epoch is the zero of generations, which count milliseconds: 40 bits last 34 years.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func generationAt(t time.Time) uint64 {
	return max(openingGeneration+1, uint64(max(0, t.Sub(epoch).Milliseconds()))&^cookieMask)
}

// nextGeneration is random, so that two processes that wait for the same process get different generations.
func nextGeneration(now time.Time, highest uint64, random *rand.Rand) uint64 {
	return max(generationAt(now), highest+1) + random.Uint64N(1000)
}
