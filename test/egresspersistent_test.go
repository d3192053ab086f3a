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
	n.NBCTL("acl-add", "red", "from-lport", "1000", "ip", "allow-related", "--", "set", "ACL",
		n.NBCTL("--bare", "--columns=_uuid", "find", "ACL", "priority=1000"), "options:persist-established=true")
	warned(true)
	n.NBCTL("acl-del", "red")
	warned(false)
	s.endWell()
}
