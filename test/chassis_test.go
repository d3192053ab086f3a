// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// A chassis has the name that its ovn-controller has found: in the file before the
// database, and on its command line before both. That is known by the bridge that the
// database has for each name, or told by the Corefile. One that is not there is refused,
// and takes nothing away.
func TestChassisName(t *testing.T) {
	t.Parallel()
	n := newSurvivor(t)
	s := start(t, n.l, n.corefile("", "", 9153, 8181))
	s.ready(200)
	chassis := func(want string) {
		t.Helper()
		s.operator().shows("the chassis "+want, func(st *api.Status) bool { return st.Bridges[0].Chassis == want })
	}
	chassis("node1")
	s.rewrite(t, corefile(n.l, n.corefile("chassis hv-none", "", 9153, 8181)))
	n.l.Eventually("a chassis that is not there is refused", func() error {
		if got := briefly(n.vm.Dig("db.internal", "@169.254.169.254", "+time=5")); got != ofSurvivor {
			t.Fatalf("while a chassis is looked for that is not there: %s", got)
		}
		return errorUnless(s.told(logNoChassis, "hv-none") > 0, "not yet")
	})
	override := filepath.Join(n.l.Node.Dir, "system-id-override")
	n.l.Node.Kill("ovn-controller")
	n.l.SBCTL("chassis-del", "node1")
	for i, tt := range []struct {
		name, chassis, properties string
		prepare                   func() error
		args                      []string
	}{
		{"file", "hv-file", "", func() error { return os.WriteFile(override, []byte("hv-file\n"), 0o644) }, nil},
		{"property", "hv-property", "chassis hv-property", func() error { return nil }, []string{"-n", "hv-property"}},
		{"bridge of the name", "hv-bridge", "", func() error {
			n.l.Node.VSCTL("--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-bridge-hv-file=br-none", "external_ids:ovn-bridge-hv-bridge="+lab.Bridge)
			return nil
		}, []string{"-n", "hv-bridge"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.prepare(); err != nil {
				t.Fatal(err)
			}
			controller := n.l.Node.Start("controller-"+tt.chassis, nil, append([]string{"ovn-controller"}, append(tt.args, n.l.Node.OVSDB)...)...)
			s.rewrite(t, corefile(n.l, n.corefile(tt.properties, "", 9153, 8181)))
			chassis(tt.chassis)
			// One that comes now is known by its chassis only.
			guest := aclGuest(n.l, "red", 0, 20+i)
			expectSoon(t, n.l, guest, ofSurvivor, "db.internal", "@169.254.169.254")
			_ = controller.Stop() // by the signal
			// The next one may have its tunnel's end only when this one has none.
			n.l.SBCTL("chassis-del", tt.chassis)
		})
	}
}
