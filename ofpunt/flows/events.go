// SPDX-License-Identifier: Apache-2.0

package flows

import "github.com/puntdns/puntdns/ofpunt/openflow"

// Event is what a [machine] is told.
type Event interface{ event() }

// Desired says what should stand from now on.
type Desired struct{ Want *Want }

// told has events of flow monitors, in the order in which the switch has sent them. Those
// that it has sent before the reply to a request come before its done.
type told struct{ Updates []openflow.FlowUpdate }

// done is the reply to the request that is outstanding.
type done struct {
	// Err is why it failed: a *openflow.SwitchError where the switch has refused it.
	Err error
	// Flows is of readFlows, MaxMeter (an id) and Meters of readMeters, Stats of
	// readMeterStats.
	Flows    []openflow.FlowStats
	MaxMeter uint32
	Meters   []openflow.MeterConfig
	Stats    []openflow.MeterStats
}

// Beat comes every third of the lease.
type Beat struct{}

// probeBack is a probe that has come back.
type probeBack struct{ Token uint64 }

// retry comes some time after retrySoon.
type retry struct{}

// Leave has the flows withdrawn, for good. left follows.
type Leave struct{}

func (Desired) event()   {}
func (told) event()      {}
func (done) event()      {}
func (Beat) event()      {}
func (probeBack) event() {}
func (retry) event()     {}
func (Leave) event()     {}
