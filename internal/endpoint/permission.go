// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ExplainPermission adds the missing permission (unix(7)) and the command that grants it. Other errors stay.
func (e Endpoint) ExplainPermission(err error) error {
	if e.Network != "unix" || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	who := userName(os.Geteuid())
	info, statErr := os.Stat(e.Address)
	if statErr != nil {
		return fmt.Errorf("%w: user %s may not enter a folder of the path; expected x for it there", err, who)
	}
	owner := ""
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = fmt.Sprintf(" of %s:%s", userName(int(st.Uid)), groupName(int(st.Gid)))
	}
	return fmt.Errorf("%w: the socket is %s%s, and user %s may not write it; expected w for it, as `setfacl -m u:%s:rw,m::rw %s` gives until the socket is made anew, and deploy/puntdns.tmpfiles with the path of the socket for good",
		err, info.Mode(), owner, who, who, e.Address)
}

func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

func groupName(gid int) string {
	id := strconv.Itoa(gid)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}
