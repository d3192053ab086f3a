// SPDX-License-Identifier: Apache-2.0

package api

// PathLogicalFlow answers with the [LogicalFlow] of which ovn-controller has made a flow, in the ingress pipeline of
// a switch. Its parameters are bridge, network (the UUID of the switch), table (the OpenFlow table), priority and
// cookie, all three as numbers. Status 404 says that there is no such row, or that Southbound is not read.
const PathLogicalFlow = "/v1/logical-flow"

// LogicalFlow is a row of Southbound's table Logical_Flow.
type LogicalFlow struct {
	// Row is the UUID.
	Row string `json:"row"`
	// Stage is the name of the stage, such as ls_in_acl. It differs between releases of OVN.
	Stage string `json:"stage"`
	// Hint is the first 8 digits of the UUID of the row in Northbound by which ovn-northd has made the flow, such
	// as the one of an ACL. It is left out for a flow of the pipeline itself.
	Hint    string `json:"hint,omitempty"`
	Match   string `json:"match"`
	Actions string `json:"actions"`
}
