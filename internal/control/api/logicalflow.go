// SPDX-License-Identifier: Apache-2.0

package api

// PathLogicalFlow answers with the [LogicalFlow] of a flow in a switch's ingress pipeline. Its parameters are
// bridge, network (UUID), table (OpenFlow), priority and cookie. Status 404: no such row, or Southbound is
// not read.
const PathLogicalFlow = "/v1/logical-flow"

// LogicalFlow is a row of Southbound's Logical_Flow.
type LogicalFlow struct {
	// Row is the UUID.
	Row string `json:"row"`
	// Stage differs between OVN releases: ls_in_acl.
	Stage string `json:"stage"`
	// Hint is the first 8 digits of the UUID of the Northbound row, such as an ACL.
	Hint    string `json:"hint,omitempty"`
	Match   string `json:"match"`
	Actions string `json:"actions"`
}
