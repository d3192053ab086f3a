// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/ovsdb/ovsdbtest"
	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/internal/testkit/golden"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/chain"
	"github.com/puntdns/puntdns/ofpunt/config"
)

// A check warns of what the node does not have.
func TestNodeWarnings(t *testing.T) {
	db := ovsdbtest.Start(t, "/usr/share/openvswitch/vswitch.ovsschema")
	if out, err := exec.Command("ovs-vsctl", "--db="+db.Endpoint, "--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=node1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hangs := filepath.Join(t.TempDir(), "hangs")
	l, err := net.Listen("unix", hangs)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("OVS_RUNDIR", t.TempDir())
	t.Setenv("OVN_SYSCONFDIR", t.TempDir())
	there := "ofpunt br-int {\n openflow unix:" + hangs + "\n ovsdb " + db.Endpoint + "\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"all there", there + "}", nil},
		{"the chassis of this node", there + " chassis node1\n}", nil},
		{"another chassis", there + " chassis node2\n}", []string{"Testfile:4 - ofpunt br-int: chassis: \"node2\" "}},
		{"another chassis, without OVN", there + " placement neutron\n chassis node2\n}", nil},
		{"a database that hangs", "ofpunt br-int {\n openflow unix:" + hangs + "\n ovsdb unix:" + hangs + "\n chassis node2\n}", nil},
		{"no sockets by default", "ofpunt br-int", []string{"Testfile:1 - ofpunt br-int: openflow: unix:RUN/br-int.mgmt: ", "Testfile:1 - ofpunt br-int: ovsdb: unix:RUN/db.sock: "}},
		{"no socket", strings.Replace(there, hangs, "/nowhere/mgmt", 1) + "}", []string{"Testfile:2 - ofpunt br-int: openflow: unix:/nowhere/mgmt: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := config.Parse(caddy.NewTestController("dns", tt.text))
			if err != nil {
				t.Fatal(err)
			}
			out := testkit.CaptureLog(t)
			defer func(usual time.Duration) { checkTimeout = usual }(checkTimeout)
			if tt.name != "a database that hangs" {
				checkTimeout = time.Minute // a busy machine takes its time to answer
			}
			begin := time.Now()
			in := &instance{servers: []*server{{Server: bridge.NewServer(bridge.Config{Options: d.Bridge})}}, blocks: []*chain.Block{{Directive: d}}}
			in.warnOfNode()
			if took := time.Since(begin); took > 20*checkTimeout {
				t.Errorf("it takes %s", took)
			}
			run := config.Default("br-int").OVSDB.Address
			said := strings.ReplaceAll(out.String(), filepath.Dir(run), "RUN")
			warnings := regexp.MustCompile(`(?m)\[WARNING\] plugin/ofpunt: (.*)$`).FindAllStringSubmatch(said, -1)
			if len(warnings) != len(tt.want) {
				t.Fatalf("%q, want %q", said, tt.want)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(warnings[i][1], want) {
					t.Errorf("%q, want %q", warnings[i][1], want)
				}
			}
			if len(tt.want) > 0 {
				golden.Check(t, warnings[0][1])
			}
		})
	}
}
