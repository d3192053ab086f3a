// SPDX-License-Identifier: Apache-2.0

package flows

import "github.com/puntdns/puntdns/ofpunt/openflow"

// command is an output of a [machine]: a request, a message without a reply, or a report.
type command interface{ command() }

// request is a command that the switch answers. A [reply] follows. The machine makes no other request before
// it.
type request interface {
	command
	request()
}

// The requests.
type (
	// monitor has the switch report changes of the flows of a table.
	monitor struct{ Table uint8 }
	// readFlows asks for the flows whose cookie is Cookie in the bits of Mask, in one
	// table or openflow.TableAll. Open vSwitch has an index of whole cookies; with
	// another mask it looks at every flow of the table.
	readFlows struct {
		Table        uint8
		Cookie, Mask uint64
	}
	// barrier has its reply when the switch has reported all earlier changes.
	barrier struct{}
	// apply changes flows, all of them at once and in this order, or none.
	apply struct{ Mods []openflow.FlowMod }
	// readMeters asks for the highest id of a meter and all meters.
	readMeters struct{}
	// modMeters changes meters, in this order.
	modMeters struct{ Mods []openflow.MeterMod }
	// readMeterStats asks what the meters have dropped.
	readMeterStats struct{}
)

// Messages without a reply.
type (
	// sendProbe sends a probe through the switch; probeBack follows if it comes back.
	// One that can't be sent counts as lost.
	sendProbe struct{ Token uint64 }
	// renew restarts the hard timeout of the lease flow.
	renew struct{ Lease openflow.FlowMod }
)

// retrySoon wants a retry after a while, a longer one each time in a row.
type retrySoon struct{}

// fail ends the connection: it can't be used to install the flows.
type fail struct{ Err error }

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
