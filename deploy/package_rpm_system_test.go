// SPDX-License-Identifier: Apache-2.0

//go:build packages

package deploy

import (
	"strings"
	"testing"
)

// testRPM installs the package for Fedora on a Debian, by rpm(8) and without its dependencies: the
// files and the scripts are the same there, and Fedora's own packages are not to be had.
func testRPM(t *testing.T, c *chassis, rpms map[string]string) {
	for name, rpm := range rpms {
		c.copy(rpm, name+".rpm")
	}
	// As Fedora has it: the folder of licences is there, and a unit that no other file names stays
	// disabled.
	c.sh("mkdir -p /usr/share/licenses /usr/lib/systemd/system-preset; echo 'disable *' >/usr/lib/systemd/system-preset/99-default-disable.preset")
	before := c.files()

	t.Run("the installation starts nothing", func(t *testing.T) {
		c := c.of(t)
		c.sh("rpm --initdb; rpm --nodeps --install older.rpm")
		if got := c.sh("systemctl is-enabled puntdns || true; systemctl is-active puntdns || true; ls -A /etc/puntdns"); got != "disabled\ninactive" {
			t.Errorf("after the installation: %s", got)
		}
		if got := c.sh(aclOf); got != "" {
			t.Errorf("access before the service was started:\n%s", got)
		}
		// What is on the disk is what the package says: bytes, modes and owners.
		if got, err := c.try("rpm --verify --nodeps puntdns"); err != nil || got != "" {
			t.Errorf("rpm --verify: %v\n%s", err, got)
		}
		c.sh("getent passwd puntdns; puntctl --version | grep -F " + older + "; rpm --query --file /usr/bin/puntdns")
	})

	t.Run("the first start", func(t *testing.T) {
		c := c.of(t)
		c.configure()
		c.sh("systemctl enable --now puntdns")
		c.served()
		c.eventually("systemctl show --value --property StatusText puntdns", "serving")
	})

	t.Run("an upgrade under load", func(t *testing.T) {
		c := c.of(t)
		if lost := c.load(func() { c.sh("rpm --nodeps --upgrade newer.rpm") }); lost > 0 {
			t.Errorf("%d queries lost, expected none", lost)
		}
		c.running(newer(t))
		if got := c.sh("tail -n 1 /etc/puntdns/Corefile; systemctl is-enabled puntdns"); got != "# ours\nenabled" {
			t.Errorf("after the upgrade: %s", got)
		}
		c.served()
	})

	t.Run("an upgrade that refuses the Corefile", func(t *testing.T) {
		c := c.of(t)
		c.sh("cp /etc/puntdns/Corefile /tmp/right; echo 'wrong {' >/etc/puntdns/Corefile")
		var out string
		lost := c.load(func() { out = c.sh("rpm --nodeps --upgrade --oldpackage older.rpm 2>&1") })
		if lost != 0 || !strings.Contains(out, "the old one goes on") {
			t.Errorf("%d queries lost, and this was said:\n%s", lost, out)
		}
		c.running(newer(t))
		c.sh("cp /tmp/right /etc/puntdns/Corefile; /usr/libexec/puntdns/restart")
		c.running(older)
	})

	t.Run("the removal", func(t *testing.T) {
		c := c.of(t)
		if flows, access := c.flows(), c.sh(aclOf); flows == "0" || access == "" {
			t.Errorf("before the removal: %s flows, access %q", flows, access)
		}
		c.sh("rpm --nodeps --erase puntdns")
		if flows, access := c.flows(), c.sh(aclOf); flows != "0" || access != "" {
			t.Errorf("after the removal: %s flows, access:\n%s", flows, access)
		}
		if got := c.sh("systemctl list-unit-files --no-legend 'puntdns*' || true; systemctl list-units --all --no-legend 'puntdns*'; rpm --query --all"); got != "" {
			t.Errorf("after the removal: %s", got)
		}
		// The administrator's file, the logs, what snapshot has saved and the user stay, as docs/upgrade.md says.
		c.sh("test -e /etc/puntdns/Corefile; getent passwd puntdns")
		for _, file := range added(before, c.files()) {
			if !strings.HasPrefix(file, "/etc/puntdns") && !strings.HasPrefix(file, "/var/log/puntdns") && !strings.HasPrefix(file, "/var/lib/puntdns") {
				t.Errorf("it has left %s", file)
			}
		}
	})
}
