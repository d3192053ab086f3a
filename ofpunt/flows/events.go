// SPDX-License-Identifier: Apache-2.0

package flows

import "github.com/puntdns/puntdns/ofpunt/openflow"

// Event is an input of a [machine].
type Event interface{ event() }

// Desired says what should be installed from now on.
type Desired struct{ Want *Want }

// flowUpdates are in the switch's order, also relative to replies.
type flowUpdates struct{ Updates []openflow.FlowUpdate }

type reply struct {
	// Err is a *openflow.SwitchError if the switch has refused the request.
	Err error
	// Flows answers readFlows, MaxMeter (an id) and Meters readMeters, Stats readMeterStats.
	Flows    []openflow.FlowStats
	MaxMeter uint32
	Meters   []openflow.MeterConfig
	Stats    []openflow.MeterStats
}

// open is answered by an [opened] for each request.
type open struct{ Requests []openRequest }

// Heartbeat comes every third of the lease.
type Heartbeat struct{}

type probeBack struct{ Token uint64 }

// retry follows retrySoon.
type retry struct{}

// Withdraw withdraws the flows for good; [Withdrawn] follows. Keep leaves, for the next process, drop and entry flows
// of closed guests and all egress flows.
type Withdraw struct{ Keep bool }

func (open) event()        {}
func (Desired) event()     {}
func (flowUpdates) event() {}
func (reply) event()       {}
func (Heartbeat) event()   {}
func (probeBack) event()   {}
func (retry) event()       {}
func (Withdraw) event()    {}
