// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"math/bits"
	"time"
)

// A bin is a quarter of a power of two wide, from 1.02 us, or below, to 17 s.
const (
	firstBit  = 10 // 1024 ns
	octaves   = 24
	bins      = 4 * octaves
	lastStart = (4 + 3) << (firstBit + octaves - 1 - 2)
)

type histogram [bins]uint32

func binOf(d time.Duration) int {
	n := uint64(max(d, 1<<firstBit))
	if n >= lastStart {
		return bins - 1
	}
	top := bits.Len64(n) - 1
	return 4*(top-firstBit) + int(n>>(top-2)&3)
}

// middleOf is at most an eighth off any duration in the bin.
func middleOf(bin int) time.Duration {
	width := time.Duration(1) << (firstBit + bin/4 - 2)
	return time.Duration(4+bin%4)*width + width/2
}

// quantile returns the least duration that a part q does not exceed, 0 without durations.
func (h *histogram) quantile(q float64) time.Duration {
	all := uint64(0)
	for _, n := range h {
		all += uint64(n)
	}
	if all == 0 {
		return 0
	}
	rank, below := uint64(q*float64(all-1)), uint64(0)
	for bin, n := range h {
		if below += uint64(n); below > rank {
			return middleOf(bin)
		}
	}
	return middleOf(bins - 1)
}
