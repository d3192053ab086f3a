// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"os"
)

// saveScript is the script by which ovs-ctl(8) saves flows, as Open vSwitch's packages install it.
const saveScript = "/usr/share/openvswitch/scripts/ovs-save"

// RestartAsOVSCtl restarts database and switch of the node as `ovs-ctl restart` does
// (utilities/ovs-lib.in, restart): it saves flows and groups before, and the new switch forwards
// nothing until they are restored. Like ovs-ctl it goes on where the restore fails.
func (n *Node) RestartAsOVSCtl() {
	n.l.t.Helper()
	script := n.file("restore.sh")
	if err := os.WriteFile(script, []byte(n.must(saveScript, "save-flows", Bridge)), 0o600); err != nil {
		n.l.t.Fatalf("lab: %v", err)
	}
	n.Restart("ovsdb-server")
	n.VSCTL("--no-wait", "set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
	n.Restart("ovs-vswitchd")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, _ = n.Exec(ctx, "sh", script)
	n.VSCTL("--no-wait", "remove", "Open_vSwitch", ".", "other_config", "flow-restore-wait=true")
}
