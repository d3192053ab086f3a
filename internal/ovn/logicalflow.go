// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// FlowKey identifies a switch's ingress flow that ovn-controller made of a Logical_Flow row.
type FlowKey struct {
	Network         origin.Network
	Table, Priority int
	// Cookie is the first 32 bits of the row's UUID.
	Cookie uint32
}

// LogicalFlow is a row of Logical_Flow (ovn-sb(5)).
type LogicalFlow struct {
	Row ovsdb.UUID
	// Stage is external_ids:stage-name, such as ls_in_acl.
	Stage string
	// Hint is external_ids:stage-hint: the first 8 digits of the Northbound row's UUID, or "".
	Hint           string
	Match, Actions string
}
