// SPDX-License-Identifier: Apache-2.0

package source

// Result is the result of asking a primary.
type Result uint8

// The results.
const (
	Whole    Result = iota // the whole zone was transferred
	Delta                  // a delta was transferred and applied
	UpToDate               // the primary had nothing new
	Fallback               // a delta was unusable, and the whole zone was requested
	Results                // their number
)

var resultNames = [Results]string{"axfr", "ixfr", "up-to-date", "fallback"}

// String returns the word in metrics.
func (r Result) String() string { return resultNames[r] }
