// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// T is what a lab asks of a test. *testing.T and *testing.B satisfy it.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// programs are those that a lab runs; the Debian packages that hold them are
// openvswitch-switch, ovn-central, ovn-host, iproute2 and bind9-dnsutils.
var programs = []string{
	"ovsdb-server", "ovsdb-tool", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl",
	"ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl", "ip", "dig", "sh", "grep",
}

// Need skips the test where no lab can run, as Lack does.
func Need(t T) {
	t.Helper()
	if err := usable(); err != nil {
		Lack(t, "no lab can run: %v", err)
	}
}

// Lack skips the test for the lack of what `make test` installs. With CI=true in
// the environment that is a failure instead, so that no test is lost unseen.
func Lack(t T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true, and "+format, args...)
	}
	t.Skipf(format, args...)
}

func usable() error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root")
	}
	for _, name := range programs {
		if _, err := program(name); err != nil {
			return err
		}
	}
	for _, name := range []string{vswitchSchema, nbSchema, sbSchema, "/dev/net/tun"} {
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	ns, err := newNetns()
	if err != nil {
		return err
	}
	return ns.close()
}

// program returns the path of an executable. The daemons stand in /usr/sbin,
// which not every PATH has.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, e := exec.LookPath(filepath.Join(dir, filepath.Base(name))); e == nil {
			return path, nil
		}
	}
	return "", err
}
