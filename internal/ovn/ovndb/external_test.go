// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/testkit"
)

// TestExternal binds external ports to this chassis and to another one. The chassis that has the port
// identifies its host by the localnet port and the MAC address. All chassis know its names.
func TestExternal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, command := range []string{
		"ls-add red -- lsp-add red r1 -- lsp-set-addresses r1 02:00:00:00:00:01~10.0.0.1",
		"lsp-add red x1 -- lsp-set-type x1 external -- lsp-set-addresses x1 02:00:00:00:00:11~10.0.0.11 02:00:00:00:00:12~fd00::12 -- lsp-set-options x1 hostname=host1",
		"lsp-add red x2 -- lsp-set-type x2 external -- lsp-set-addresses x2 02:00:00:00:00:13~10.0.0.13",
		"lsp-add red x3 -- lsp-set-type x3 external -- lsp-set-addresses x3 unknown",
		"lsp-add red ln1 -- lsp-set-type ln1 localnet -- lsp-set-addresses ln1 unknown -- lsp-set-options ln1 network_name=one",
		"lsp-add red ln2 -- lsp-set-type ln2 localnet -- lsp-set-addresses ln2 unknown -- lsp-set-options ln2 network_name=two -- set Logical_Switch_Port ln2 tag_request=101",
		"ls-add blue -- lsp-add blue b1 -- lsp-set-type b1 external -- lsp-set-addresses b1 02:00:00:00:00:11~10.0.0.11",
	} {
		r.nbctl(command)
	}
	r.startNorthd()
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1 -- chassis-add hv2 geneve 127.0.0.2")
	r.nbctl("--wait=sb set Logical_Switch_Port ln2 options:ethtype=802.11q -- lsp-add red ln3 -- lsp-set-type ln3 localnet -- lsp-set-addresses ln3 unknown -- lsp-set-options ln3 network_name=three ethtype=802.11ad -- set Logical_Switch_Port ln3 tag_request=102")
	for _, tt := range []struct {
		name    string
		monitor Monitor
		nb      bool
	}{{"all", All, false}, {"local", Local, false}, {"local, with Northbound", Local, true}} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.config(true, tt.nb)
			c.Monitor = tt.monitor
			told := new(testkit.Lines)
			c.Log = told
			s := r.acquire(c)
			s.nameChassis("hv1")
			are := func(want string) {
				t.Helper()
				eventually(t, s, func(s *ovn.Snapshot) string {
					if got := externalHosts(s); got != want || !s.Settled {
						return fmt.Sprintf("external hosts %q, want %q, settled %v", got, want, s.Settled)
					}
					return ""
				})
			}
			are("")
			r.sbctl("lsp-bind x1 hv1")
			are("x1 by ln1 tag 0: 02:00:00:00:00:11, x1 by ln1 tag 0: 02:00:00:00:00:12, x1 by ln2 tag 101: 02:00:00:00:00:11, x1 by ln2 tag 101: 02:00:00:00:00:12")
			eventually(t, s, lookups("red host1. = 10.0.0.11 fd00::12"))
			r.sbctl("lsp-unbind x1 -- lsp-bind x1 hv2 -- lsp-bind x2 hv1 -- lsp-bind x3 hv1 -- lsp-bind b1 hv1")
			are("x2 by ln1 tag 0: 02:00:00:00:00:13, x2 by ln2 tag 101: 02:00:00:00:00:13")
			eventually(t, s, lookups("red host1. = 10.0.0.11 fd00::12"))
			r.sbctl("lsp-unbind x1 -- lsp-unbind x2 -- lsp-unbind x3 -- lsp-unbind b1")
			are("")
			for _, why := range []string{
				`external port "b1" is not served: its switch has no localnet port`,
				`external port "x3" is not served: it has no MAC address`,
				`external port "x1" is not served by localnet port "ln3": ethtype 802.11ad, expected 802.11q`,
			} {
				if got := told.Count(why); got != 1 {
					t.Errorf("the log says %d times: %s\n%q", got, why, told.All())
				}
			}
		})
	}
}

// externalHosts lists the external ports that a snapshot finds by the MAC addresses of their hosts.
func externalHosts(s *ovn.Snapshot) string {
	var all []string
	for line := range strings.Lines(ovn.Dump(s)) {
		if host, ok := strings.CutPrefix(strings.TrimSpace(line), "external "); ok {
			all = append(all, host)
		}
	}
	return strings.Join(all, ", ")
}
