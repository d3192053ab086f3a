// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// A JVM that keeps an address for ever reaches it while it uses it. Once it has not for the idle time, the JVM is refused until the
// name is resolved again, in this test by another program.
func TestEgressJVM(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	if _, err := n.vm.Exec(within(t, wait), "javac", "-d", n.Dir, "testdata/Cached.java"); err != nil {
		lab.Lack(t, "%v", err)
	}
	s := serve(t, n.Lab, n.corefileOf("", "floor 1s\n grace 9s\n policy ofpunt/switch red {\n allow n1.example\n}"))
	jvm := n.vm.Start("jvm", nil, withResolvConf(t, "nameserver "+resolver4+"\n", "java", "-cp", n.Dir, "Cached", "n1.example", "443")...)
	outcomes := func(want string) {
		t.Helper()
		n.Eventually("the JVM's connections are as expected", func() error {
			got, err := os.ReadFile(jvm.LogFile)
			if err == nil && string(got) != want {
				err = fmt.Errorf("%q, want %q", got, want)
			}
			return err
		})
	}
	outcomes("open\n")
	n.Eventually("the address is open for longer than its idle time", func() error {
		var listed api.Egress
		s.operator().ask(&listed, "egress", "list", "red-vm")
		for _, o := range listed.Openings {
			if o.Packets > 0 && o.OpenedSecondsAgo > 10 {
				return nil
			}
		}
		return fmt.Errorf("%+v", listed.Openings)
	})
	outcomes("open\n")
	if err := jvm.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.reaches(0, "coredns_ofpunt_open_destinations")
	if err := jvm.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	outcomes("open\nclosed\n")
	s.reaches(2, "coredns_egress_verdicts_total") // of A and AAAA, once
	if _, err := n.resolve(n.vm, "n1.example.", dns.TypeA); err != nil {
		t.Fatal(err)
	}
	outcomes("open\nclosed\nopen\n")
	s.endWell()
}
