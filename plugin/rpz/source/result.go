// SPDX-License-Identifier: Apache-2.0

package source

// Result is how primaries were asked with success, or what did not succeed.
type Result uint8

// The results.
const (
	Whole    Result = iota // the whole zone was transferred
	Delta                  // a delta was transferred and applied
	UpToDate               // the primary had nothing new
	Fallback               // a delta could not be used, and the whole zone was asked for
	Results                // how many there are
)

var resultNames = [Results]string{"axfr", "ixfr", "up-to-date", "fallback"}

// String implements fmt.Stringer: the word in metrics.
func (r Result) String() string { return resultNames[r] }
