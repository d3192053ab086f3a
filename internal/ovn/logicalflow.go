// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// FlowKey identifies a flow that ovn-controller has made of a row of Southbound's table Logical_Flow, in the
// ingress pipeline of a switch.
type FlowKey struct {
	Network origin.Network
	// Table is the OpenFlow table.
	Table, Priority int
	// Cookie is the cookie of the flow: the first 32 bits of the UUID of the row.
	Cookie uint32
}

// LogicalFlow is a row of Logical_Flow (ovn-sb(5)).
type LogicalFlow struct {
	Row ovsdb.UUID
	// Stage is external_ids:stage-name, such as ls_in_acl.
	Stage string
	// Hint is external_ids:stage-hint: the first 8 digits of the UUID of the Northbound row by which ovn-northd
	// has made the flow, empty for a flow without one.
	Hint           string
	Match, Actions string
}
