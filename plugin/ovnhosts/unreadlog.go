// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"sync"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// unreadLog logs once for each network that its router scope is unread, and once that it is read.
type unreadLog struct {
	logged sync.Map     // keys are of type origin.Network
	count  atomic.Int32 // of logged; zero spares queries the map
}

func (u *unreadLog) fails(n *ovn.Network, log ovndb.Logger) {
	if _, logged := u.logged.LoadOrStore(n.ID, nil); logged {
		return
	}
	u.count.Add(1)
	log.Warningf("what routers join to the switch %q has not been read yet: names that the switch itself does not have get SERVFAIL", n.Name)
}

func (u *unreadLog) isRead(n *ovn.Network, log ovndb.Logger) {
	if u.count.Load() == 0 {
		return
	}
	if _, logged := u.logged.LoadAndDelete(n.ID); logged {
		u.count.Add(-1)
		log.Infof("what routers join to the switch %q has been read", n.Name)
	}
}
