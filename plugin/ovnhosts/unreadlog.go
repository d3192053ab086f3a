// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"sync"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// unreadLog logs once for each network that queries fail because its router scope is unread, and once more
// when the scope has been read.
type unreadLog struct {
	logged sync.Map     // keys are of type origin.Network
	count  atomic.Int32 // of logged; while it is zero, queries do not look into the map
}

// fails records that a query of the network has failed.
func (u *unreadLog) fails(n *ovn.Network, log ovndb.Logger) {
	if _, logged := u.logged.LoadOrStore(n.ID, nil); logged {
		return
	}
	u.count.Add(1)
	log.Warningf("what routers join to the switch %q has not been read yet: names that the switch itself does not have get SERVFAIL", n.Name)
}

// isRead records that the router scope of the network has been read.
func (u *unreadLog) isRead(n *ovn.Network, log ovndb.Logger) {
	if u.count.Load() == 0 {
		return
	}
	if _, logged := u.logged.LoadAndDelete(n.ID); logged {
		u.count.Add(-1)
		log.Infof("what routers join to the switch %q has been read", n.Name)
	}
}
