// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// command is an output of a [machine].
type command interface{ command() }

// request is a command that the switch answers with a [reply]. The machine waits for it.
type request interface {
	command
	request()
}

type (
	monitor struct{ Table uint8 }
	// readFlows reads one table or openflow.TableAll. Open vSwitch indexes whole cookies; with another mask it
	// examines every flow of the table.
	readFlows struct {
		Table        uint8
		Cookie, Mask uint64
		// Guest limits the read to one guest's openings, nil for all flows.
		Guest *placement.Key
	}
	// barrier is answered after the switch has reported earlier changes.
	barrier struct{}
	// apply makes all changes in order, or none.
	apply          struct{ Mods []openflow.FlowMod }
	readMeters     struct{}
	modMeters      struct{ Mods []openflow.MeterMod }
	readMeterStats struct{}
)

// Messages without a reply.
type (
	// sendProbe sends a probe through the switch; probeBack follows if it returns.
	sendProbe struct{ Token uint64 }
	// renew restarts the lease flow's hard timeout.
	renew struct{ Lease openflow.FlowMod }
)

// retrySoon asks for a retry, later each time in a row.
type retrySoon struct{}

type fail struct{ Err error }

func (opened) command()         {}
func (standing) command()       {}
func (monitor) command()        {}
func (readFlows) command()      {}
func (barrier) command()        {}
func (apply) command()          {}
func (readMeters) command()     {}
func (modMeters) command()      {}
func (readMeterStats) command() {}
func (sendProbe) command()      {}
func (renew) command()          {}
func (retrySoon) command()      {}
func (fail) command()           {}

func (monitor) request()        {}
func (readFlows) request()      {}
func (barrier) request()        {}
func (apply) request()          {}
func (readMeters) request()     {}
func (modMeters) request()      {}
func (readMeterStats) request() {}
