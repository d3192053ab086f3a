// SPDX-License-Identifier: Apache-2.0

package flows

import "github.com/puntdns/puntdns/ofpunt/openflow"

// Event is an input of a [machine].
type Event interface{ event() }

// Desired says what should be installed from now on.
type Desired struct{ Want *Want }

// flowUpdates are the events of flow monitors, in the order in which the switch has sent
// them. Those that it has sent before the reply to a request come before that reply.
type flowUpdates struct{ Updates []openflow.FlowUpdate }

// reply is the switch's to the request that is outstanding.
type reply struct {
	// Err is why it failed: a *openflow.SwitchError where the switch has refused it.
	Err error
	// Flows is of readFlows, MaxMeter (an id) and Meters of readMeters, Stats of
	// readMeterStats.
	Flows    []openflow.FlowStats
	MaxMeter uint32
	Meters   []openflow.MeterConfig
	Stats    []openflow.MeterStats
}

// Heartbeat comes every third of the lease.
type Heartbeat struct{}

// probeBack is a probe that has come back.
type probeBack struct{ Token uint64 }

// retry comes some time after retrySoon.
type retry struct{}

// Withdraw withdraws the flows for good. [Withdrawn] follows. With KeepClosed the flows stay that drop the packets
// of closed guests, of this process and of processes before it. The next process removes or replaces them.
type Withdraw struct{ KeepClosed bool }

func (Desired) event()     {}
func (flowUpdates) event() {}
func (reply) event()       {}
func (Heartbeat) event()   {}
func (probeBack) event()   {}
func (retry) event()       {}
func (Withdraw) event()    {}
