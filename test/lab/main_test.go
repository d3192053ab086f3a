// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/puntdns/puntdns/test/lab"
)

// TestMain also is the process that TestKilledLeavesNothing kills.
func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/puntdns/puntdns/test/lab.spawnLoop"))
}

// within bounds what a test waits for.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

const wait = 30 * time.Second

// tenant makes a switch with two guests, .11 and .12, whose addresses and MACs
// are the same in every tenant, behind port security and stateful ACLs, and
// router ports as gateways.
func tenant(l *lab.Lab, name string) (vm1, vm2 *lab.Guest) {
	l.AddSwitch(name)
	l.AddRouter(name+"-router", lab.RouterPort{
		Switch: name, MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24", "fd00:10::1/64"},
	})
	l.NBCTL(
		"acl-add", name, "from-lport", "1001", "ip", "allow-related",
		"--", "acl-add", name, "to-lport", "1001", "ip", "allow-related")
	return guest(l.Node, name, 11), guest(l.Node, name, 12)
}

func guest(n *lab.Node, tenant string, host int) *lab.Guest {
	return n.AddGuest(lab.Guest{
		Name:         fmt.Sprintf("%s-vm%d", tenant, host),
		Switch:       tenant,
		MAC:          fmt.Sprintf("02:00:00:00:00:%02d", host),
		Addrs:        lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", host), fmt.Sprintf("fd00:10::%d/64", host)),
		Gateway4:     lab.Addr("10.0.0.1"),
		Gateway6:     lab.Addr("fd00:10::1"),
		PortSecurity: true,
		Hostname:     fmt.Sprintf("vm%d", host),
	})
}
