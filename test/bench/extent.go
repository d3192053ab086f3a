// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// extent is how much the suites measure.
type extent struct {
	// rounds is how often each peer is measured. The medians count.
	rounds int
	// length bounds one measurement under load.
	length time.Duration
	// passes bounds how often a measurement under load goes through its questions;
	// 0 is no bound.
	passes int
	// tcpConnections is how many TCP connections are made, in each round, for one query each.
	tcpConnections int
	// victimQueries is how many queries the guest beside a flood asks.
	victimQueries int
	// changes is how many changes of a record are measured in each round.
	changes int
	// guests are the numbers of guests that nodes have beside each other, in ascending
	// order, and changeSpan is how long records change there.
	guests     []int
	changeSpan time.Duration
	// openConnections is how many TCP connections guests of one network leave open, which may have
	// half of all 1,024.
	openConnections int
	// openings is how many openings the switch has, of how many guests without a process behind them.
	openings, openingGuests int
	// datapathFlows are the sizes of the switch's datapath.
	datapathFlows []int
	// leaseSpan is how long the switch is watched with each of them.
	leaseSpan time.Duration
	// sizes of the database, in ascending order.
	sizes []size
	// benchTime is the -benchtime of the benchmarks in Go.
	benchTime string
	// outsideNames is how many names are asked for that are not OVN's.
	outsideNames int
	// cloudSize is the database of the suite cloud, cloudNodes how many clients it has in turn, in
	// ascending order, cloudCold how many of ovn-controller's shape begin with nothing, and
	// cloudSpan is for how long each situation has changes, as far as the server keeps up.
	cloudSize  cloudSize
	cloudNodes []int
	cloudCold  int
	cloudSpan  time.Duration
	// cloudController is the ovn-controller whose shape its clients have.
	cloudController controllerRelease
	// settling is how long the switch may take for what new flows cost it once.
	settling time.Duration
}

// full is what `make bench` measures. Its largest database is that of a large cloud,
// and its leaseSpan has some twenty beats of a lease of 3 s.
var full = extent{
	rounds: 5, length: 4 * time.Second, tcpConnections: 9000, victimQueries: 1000, changes: 20,
	guests: []int{20, 1000}, changeSpan: 5 * time.Second,
	openConnections: 500,
	openings:        20000, openingGuests: 100,
	datapathFlows: []int{1000, 10000, 100000}, leaseSpan: 20 * time.Second,
	sizes: []size{{20, 100, 1000}, {100, 100, 1000}, {1000, 100, 1000}}, benchTime: "0.5s",
	outsideNames: 1000, settling: time.Second,
	cloudSize: cloudSize{nodes: 1000, flows: 3, fewest: 20, most: 100}, cloudNodes: []int{30, 100}, cloudCold: 20, cloudSpan: 10 * time.Second,
}

// smallest runs each line of the suites once. Its figures mean nothing: it tells that
// the benchmarks still fit what they measure.
var smallest = extent{
	rounds: 1, length: 200 * time.Millisecond, passes: 1, tcpConnections: 50, victimQueries: 20, changes: 2,
	guests: []int{2, 3}, changeSpan: 200 * time.Millisecond,
	openConnections: 3,
	openings:        20, openingGuests: 2,
	datapathFlows: []int{100}, leaseSpan: time.Second,
	sizes: []size{{20, 20, 120}, {21, 20, 120}}, benchTime: "1x",
	outsideNames: 100, settling: 100 * time.Millisecond,
	cloudSize: cloudSize{nodes: 10, flows: 2, fewest: 20, most: 100}, cloudNodes: []int{2, 4}, cloudCold: 2, cloudSpan: 1200 * time.Millisecond,
}

// large is the largest database.
func (e *extent) large() size { return e.sizes[len(e.sizes)-1] }

// setNodes sets cloudNodes to a list, unless that is empty.
func (e *extent) setNodes(list string) error {
	if list == "" {
		return nil
	}
	e.cloudNodes = nil
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > e.cloudSize.nodes {
			return fmt.Errorf("%q: expected a number from 1 to %d", word, e.cloudSize.nodes)
		}
		e.cloudNodes = append(e.cloudNodes, n)
	}
	slices.Sort(e.cloudNodes)
	return nil
}
