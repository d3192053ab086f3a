// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DNSStage is the stage of OVN's own DNS in the logical pipeline (ovn-northd(8)).
const DNSStage = "ls_in_dns_lookup"

var tableOfCookie = regexp.MustCompile(`(?m)^ *cookie=0x([0-9a-f]+),.* table=(\d+),`)

// Stage waits until the bridge has OVN's flows of a stage, and returns their OpenFlow
// table, which is another one in each release.
func (n *Node) Stage(name string) (table int) {
	n.l.t.Helper()
	n.l.Eventually("the flows of "+name, func() (err error) {
		table, err = n.FindStage(context.Background(), name, 0)
		return err
	})
	return table
}

// FindStage returns the OpenFlow table in which the bridge has flows of a stage with that
// priority. A flow is of the stage if its cookie begins the UUID of one of the stage's
// logical flows that Southbound has now.
func (n *Node) FindStage(ctx context.Context, name string, priority int) (int, error) {
	rows, err := n.Exec(ctx, "ovn-sbctl", "--db="+n.l.SB, "--no-leader-only", timeoutFlag, "--bare", "--columns=_uuid",
		"find", "Logical_Flow", "external_ids:stage-name="+name, fmt.Sprintf("priority=%d", priority))
	if err != nil {
		return 0, err
	}
	ofStage := make(map[uint64]bool)
	for _, row := range strings.Fields(rows) {
		cookie, err := strconv.ParseUint(row[:8], 16, 64)
		if err != nil {
			return 0, fmt.Errorf("row %s: %w", row, err)
		}
		ofStage[cookie] = true
	}
	flows, err := n.Exec(ctx, "ovs-ofctl", "--protocols=OpenFlow15", "dump-flows", Bridge)
	if err != nil {
		return 0, err
	}
	for _, m := range tableOfCookie.FindAllStringSubmatch(flows, -1) {
		if cookie, err := strconv.ParseUint(m[1], 16, 64); err == nil && ofStage[cookie] {
			return strconv.Atoi(m[2])
		}
	}
	return 0, fmt.Errorf("%s has no flow of %s with priority %d, of which Southbound has %d", Bridge, name, priority, len(ofStage))
}
