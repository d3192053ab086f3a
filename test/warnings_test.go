// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
)

// An operator is told of what was skipped and of a reload that was refused, and that all is served; and
// where zones and records of a network are from that no DNS row has in records.
func TestControlWarnings(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	socket := filepath.Join(n.Dir, "control.sock")
	o := &operator{t, n.Lab, socket}
	text := corefile(n.Lab, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        control unix:`+socket+`
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    ovnhosts {
        southbound $SB
        northbound $NB
        fallthrough
    }
    ovnforward
}
`)
	s := serve(t, n.Lab, text)
	// status waits for warnings with these codes. All is well all the while.
	status := func(codes ...string) (st api.Status) {
		t.Helper()
		n.Eventually(fmt.Sprintf("status with warnings %q", codes), func() error {
			st = api.Status{}
			exit := o.ask(&st, "status")
			got := []string{}
			for _, w := range st.Warnings {
				got = append(got, w.Code)
			}
			return errorUnless(exit == 0 && st.Well && fmt.Sprint(got) == fmt.Sprint(codes), "exit status %d, %+v, %+v", exit, st.Problems, st.Warnings)
		})
		return st
	}
	first := status()
	if first.Corefile.Path != s.path || first.Corefile.Taken == nil {
		t.Errorf("%+v", first.Corefile)
	}

	row := strings.TrimSpace(n.NBCTL("--bare", "--columns=_uuid", "find", "DNS", `records:red.internal="10.0.1.103"`))
	n.NBCTL("set", "DNS", row, `external_ids:dns-mx/red.internal="10 mail.example."`)
	n.NBCTL("set", "Logical_Switch", "red", `external_ids:dns-forward="corp.example=9.9.9.9;near.example=10.9.9.9:53"`)
	st := status(api.CodeRefusedServers)
	if !strings.Contains(st.Warnings[0].Text, "not asked: 1, such as: network ") || !strings.Contains(st.Warnings[0].Text, "forwards near.example. to 10.9.9.9:53") {
		t.Errorf("%+v", st.Warnings)
	}
	n.Eventually("names", func() error {
		out, errs, exit := o.run("names", "red")
		for _, want := range []string{
			"MX 10 mail.example.", "Northbound DNS row " + row + ", external_ids dns-mx", "FORWARDED ZONE",
			"red     corp.example.   9.9.9.9:53   external_ids:dns-forward of switch \"red\"\n", "red     near.example.   10.9.9.9:53  external_ids:dns-forward of switch \"red\"\n",
		} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("exit status %d, want %q:\n%s%s", exit, want, out, errs)
			}
		}
		return nil
	})
	if out, _, exit := o.run("names", "www.corp.example"); exit != 0 || !strings.Contains(out, "corp.example.") || strings.Contains(out, "near.example.") {
		t.Errorf("exit status %d\n%s", exit, out)
	}
	n.NBCTL("set", "Logical_Switch", "red", `external_ids:dns-forward="corp.example=9.9.9.9;wrong"`)
	st = status(api.CodeBadValues)
	if !strings.Contains(st.Warnings[0].Text, `skipped: 1, such as: OVN_Northbound: switch "red": external_ids:dns-forward: "wrong" skipped`) {
		t.Errorf("%+v", st.Warnings)
	}
	// What is mended is no longer told of, be it all or one of two.
	n.NBCTL("set", "DNS", row, `external_ids:dns-mx/red.internal="ten mail.example."`)
	n.Eventually("two bad values", func() error {
		warnings := status(api.CodeBadValues).Warnings
		return errorUnless(strings.Contains(warnings[0].Text, "skipped: 2, such as: "), "%+v", warnings)
	})
	n.NBCTL("set", "Logical_Switch", "red", `external_ids:dns-forward="corp.example=9.9.9.9"`)
	n.Eventually("one bad value", func() error {
		warnings := status(api.CodeBadValues).Warnings
		return errorUnless(strings.Contains(warnings[0].Text, "skipped: 1, such as: OVN_Northbound: DNS "+row), "%+v", warnings)
	})
	n.NBCTL("set", "DNS", row, `external_ids:dns-mx/red.internal="10 mail.example."`)
	status()

	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(text, "ovnforward", "ovnforward {\n nonsense\n}", 1))
	find := func(st *api.Status) (w api.Problem) {
		for _, w := range st.Warnings {
			if w.Code == api.CodeReload {
				return w
			}
		}
		return w
	}
	n.Eventually("the refused reload", func() error {
		st = api.Status{}
		exit := o.ask(&st, "status")
		w := find(&st)
		return errorUnless(exit == 0 && st.Well && strings.Contains(w.Text, "(SIGUSR1) was refused, and the Corefile as taken at ") && strings.Contains(w.Text, `unknown property "nonsense"`) && st.Corefile.Taken.Equal(*first.Corefile.Taken),
			"exit status %d, %+v, %+v", exit, st.Warnings, st.Corefile)
	})
	out, _, _ := o.run("status")
	t.Logf("puntctl status\n%s", out)
	reload(text)
	n.Eventually("a reload that is taken", func() error {
		st = api.Status{}
		o.ask(&st, "status")
		return errorUnless(find(&st).Code == "" && st.Corefile.Refused == nil, "%+v", st.Warnings)
	})
	s.endWell()
}

// An operator is told of upstreams that do not answer, of one and of all, as long as they do not.
func TestControlDownUpstreams(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	first, second := n.Upstream("www.example.org. 60 IN A 192.0.2.5"), n.Upstream("www.example.org. 60 IN A 192.0.2.5")
	o := &operator{t, n.Lab, filepath.Join(n.Dir, "control.sock")}
	s := serve(t, n.Lab, corefile(n.Lab, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        control unix:`+o.socket+`
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    ovnhosts {
        southbound $SB
        fallthrough
    }
    forward . `+first.Addr+` `+second.Addr+` {
        policy sequential
    }
}
`))
	silent := dns.HandlerFunc(func(dns.ResponseWriter, *dns.Msg) {})
	for _, tt := range []struct {
		name          string
		first, second dns.Handler
		warning       string // the end of its text; empty for none
		problem       string
	}{
		{"both answer", nil, nil, "", ""},
		{"the first is silent", silent, nil, "forward asks 2 servers, and of these do not answer: " + first.Addr, ""},
		{"both are silent", silent, silent, "", "no server that forward asks answers: " + min(first.Addr, second.Addr) + " " + max(first.Addr, second.Addr)},
		{"both answer again", nil, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first.SetHandler(tt.first)
			second.SetHandler(tt.second)
			n.Eventually("status", func() error {
				_, _ = exchange(within(t, wait), n.red, resolver4, "www.example.org.", dns.TypeA) // forward checks those that it has asked
				var st api.Status
				exit := o.ask(&st, "status")
				is := func(all []api.Problem, text string) bool {
					if text == "" {
						return len(all) == 0
					}
					return len(all) == 1 && all[0].Code == api.CodeUpstreams && strings.HasSuffix(all[0].Text, text)
				}
				well := tt.problem == ""
				return errorUnless(is(st.Warnings, tt.warning) && is(st.Problems, tt.problem) && st.Well == well && (exit == 0) == well, "exit status %d, %+v, %+v", exit, st.Problems, st.Warnings)
			})
		})
	}
	s.endWell()
}
