// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/test/lab"
)

// A JVM caches an address for ever. The address stays open while the JVM uses it. After the idle time the switch refuses the JVM,
// until any program of the guest resolves the name.
func TestEgressJVM(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	if _, err := exec.LookPath("javac"); err != nil {
		lab.Lack(t, "%v", err)
	}
	if _, err := n.vm.Exec(within(t, wait), "javac", "-d", n.Dir, "testdata/Cached.java"); err != nil {
		t.Fatal(err)
	}
	s := serve(t, n.Lab, n.corefileOf("", "floor 1s\n grace 9s\n policy ofpunt/switch red {\n allow n1.example\n}"))
	jvm := n.vm.Start("jvm", nil, withResolvConf(t, "nameserver "+resolver4+"\n", "java", "-cp", n.Dir, "Cached", "n1.example", "443")...)
	outcome := regexp.MustCompile(`(?m)^(open|closed)$`)
	outcomes := func(want string) {
		t.Helper()
		n.Eventually("the JVM's connections are as expected", func() error {
			text, err := os.ReadFile(jvm.LogFile)
			if err != nil {
				return err
			}
			if got := strings.Join(outcome.FindAllString(string(text), -1), " "); got != want {
				return fmt.Errorf("%q, want %q", text, want)
			}
			return nil
		})
	}
	outcomes("open")
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
	outcomes("open")
	asked := s.metric("coredns_egress_verdicts_total")
	if err := jvm.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.reaches(0, "coredns_ofpunt_open_destinations")
	if err := jvm.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	outcomes("open closed")
	if got := s.metric("coredns_egress_verdicts_total"); got != asked {
		t.Errorf("the JVM has asked again: %v verdicts, %v before", got, asked)
	}
	if _, err := n.resolve(n.vm, "n1.example.", dns.TypeA); err != nil {
		t.Fatal(err)
	}
	outcomes("open closed open")
	s.endWell()
}
