// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
)

// puntctl warns of an ACL with persist-established, by which a connection goes on when egress closes its address.
func TestEgressPersistent(t *testing.T) {
	t.Parallel()
	n := newOutside(t)
	s := serve(t, n.Lab, n.corefile("allow n1.example"))
	warned := func(want bool) {
		t.Helper()
		n.Eventually("the warnings are as expected", func() error {
			var status api.Status
			s.operator().ask(&status, "status")
			if slices.ContainsFunc(status.Warnings, func(p api.Problem) bool { return p.Code == api.CodeEgressPersistent }) != want {
				return errors.New("they are not")
			}
			return nil
		})
	}
	warned(false)
	n.NBCTL("--id=@a", "create", "ACL", "direction=from-lport", "priority=1000", "match=ip", "action=allow-related", "options:persist-established=true",
		"--", "add", "Logical_Switch", "red", "acls", "@a")
	warned(true)
	n.NBCTL("acl-del", "red")
	warned(false)
	s.endWell()
}
