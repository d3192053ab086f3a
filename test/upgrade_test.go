// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// An upgrade of OVN moves its DNS stage to another table while puntdns runs. No
// second OVN is to be had here, so the test speaks for northd and ovn-controller:
// it writes the Southbound rows and the pipeline by itself, in the real database
// and the real switch.
func TestUpgradeMovesTheStage(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	vm := plainGuest(l, "vm1", "", 11, 0)
	l.Node.VSCTL("set", "Open_vSwitch", ".", "external_ids:system-id=node1")
	dp := strings.TrimSpace(l.SBCTL("create", "Datapath_Binding", "tunnel_key=5",
		"external_ids:name=red", "external_ids:logical-switch=00000000-0000-0000-0000-00000000000a"))
	l.SBCTL("chassis-add", "node1", "geneve", "192.0.2.1")
	l.SBCTL("create", "Port_Binding", "logical_port=vm1", "datapath="+dp, "tunnel_key=3",
		`mac="02:00:00:00:00:0b 10.0.0.11"`, "options:hostname=vm1", "--", "lsp-bind", "vm1", "node1")

	// pipeline is what ovn-controller makes of a stage in that logical table. It
	// returns the row of the logical flow.
	pipeline := func(logical int) (flow string) {
		flow = strings.TrimSpace(l.SBCTL("create", "Logical_Flow", "logical_datapath="+dp, "pipeline=ingress",
			fmt.Sprintf("table_id=%d", logical), "priority=0", `match="1"`, `actions="next;"`,
			"external_ids:stage-name=ls_in_dns_lookup"))
		table := 8 + logical
		l.Node.OFCTL("add-flow", lab.Bridge, fmt.Sprintf("cookie=0x%s,table=%d,priority=0,metadata=5,actions=drop", flow[:8], table))
		l.Node.OFCTL("add-flow", lab.Bridge, fmt.Sprintf("table=%d,priority=0,metadata=5,actions=resubmit(,%d)", table-1, table))
		l.Node.OFCTL("add-flow", lab.Bridge, fmt.Sprintf(
			"table=0,priority=100,in_port=%d,actions=set_field:5->metadata,set_field:3->reg14,resubmit(,%d)", vm.OFPort, table-1))
		return flow
	}
	old := pipeline(22)
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        control $CONTROL
    }
    ovnhosts {
        southbound $SB
    }
    ready `+readyAddr+` {
        monitor continuously
    }
}`)
	ours := func(table int) int {
		return strings.Count(l.Node.OFCTL("dump-flows", lab.Bridge,
			fmt.Sprintf("table=%d,cookie=0x70646e0000000000/0xffffff0000000000", table)), "cookie=")
	}
	expectSoon(t, l, vm, "NOERROR 10.0.0.11", "vm1", "@169.254.169.254")
	if n := ours(29); n != guestFlows {
		t.Errorf("%d entry flows in table 29, want %d", n, guestFlows)
	}
	stage := func(want uint8) {
		t.Helper()
		if p := s.operator().eventually().Bridges[0].Placement; p.StageTable == nil || *p.StageTable != want {
			t.Errorf("%+v, want OVN's DNS stage in table %d", p, want)
		}
	}
	stage(30)

	// The database first, as it is with northd: the flows stay until the switch
	// has the new stage.
	l.SBCTL("destroy", "Logical_Flow", old)
	s.ready(503)
	expect(t, vm, "NOERROR 10.0.0.11", "vm1", "@169.254.169.254", "+time=1")
	pipeline(29)
	l.Node.OFCTL("--strict", "del-flows", lab.Bridge, "table=30,priority=0,metadata=5")
	l.Eventually("moved", func() error {
		if a, b := ours(29), ours(36); a != 0 || b != guestFlows {
			return fmt.Errorf("%d entry flows in table 29 and %d in 36, want 0 and %d", a, b, guestFlows)
		}
		return nil
	})
	expectSoon(t, l, vm, "NOERROR 10.0.0.11", "vm1", "@169.254.169.254")
	if onward := l.Node.OFCTL("dump-flows", lab.Bridge, "table=200"); !strings.Contains(onward, "resubmit(,37)") || strings.Contains(onward, "resubmit(,30)") {
		t.Errorf("the way on is not to table 37:\n%s", onward)
	}
	s.ready(200)
	stage(37)
}
