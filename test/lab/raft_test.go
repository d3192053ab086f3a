// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// An OVN whose Southbound database is a cluster goes on without its leader, and
// takes members back.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		gone, back func(*lab.Lab, *lab.Member)
		// noticed is set if OVN notices too: it does not probe a Unix socket.
		noticed bool
	}{
		{"killed", func(l *lab.Lab, m *lab.Member) { l.Kill(m.Name) }, func(l *lab.Lab, m *lab.Member) { l.Revive(m.Name) }, true},
		{"hangs", func(_ *lab.Lab, m *lab.Member) { m.Signal(syscall.SIGSTOP) }, func(_ *lab.Lab, m *lab.Member) { m.Signal(syscall.SIGCONT) }, false},
		{"isolated", func(_ *lab.Lab, m *lab.Member) { m.Isolate() }, func(_ *lab.Lab, m *lab.Member) { m.Rejoin() }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, lab.Options{Members: 3})
			goesOn := changing(t, l)
			goesOn()
			first := l.Leader()
			tc.gone(l, first)
			l.Eventually("another leader", func() error {
				if m := l.Leader(); m == first {
					return fmt.Errorf("%s still leads", m.Name)
				}
				return nil
			})
			if tc.noticed {
				goesOn()
			}
			tc.back(l, first)
			l.AwaitCluster()
			goesOn()
		})
	}
}

// changing gives a lab a guest, and returns what changes a record and waits until the guest
// is told.
func changing(t *testing.T, l *lab.Lab) (goesOn func()) {
	l.AddSwitch("red")
	vm := l.Node.AddGuest(lab.Guest{Name: "vm", Switch: "red", MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.0.11/24")})
	l.Node.AddGuest(lab.Guest{Name: "asked", Switch: "red", MAC: "02:00:00:00:00:12", Addrs: lab.Prefixes("10.0.0.12/24")})
	row := l.AddDNS(map[string]string{"db.internal": "10.0.0.1"}, "red")
	l.Sync()
	changes := 1
	return func() {
		t.Helper()
		changes++
		want := fmt.Sprintf("10.0.0.%d", changes)
		l.SetDNS(row, map[string]string{"db.internal": want})
		l.Eventually("OVN's own DNS", func() error {
			if r := vm.Dig("+noedns", "+time=1", "@10.0.0.12", "db.internal"); r.String() != "NOERROR "+want {
				return errors.New(r.String())
			}
			return nil
		})
	}
}
