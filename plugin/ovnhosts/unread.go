// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"sync"
	"sync/atomic"

	"github.com/puntdns/puntdns/internal/ovn"
)

// unreadLog logs of which networks queries fail since their router scope is unread: once for
// each network, however many queries there are, and once more when the scope is read.
type unreadLog struct {
	told  sync.Map     // of origin.Network, with no value
	count atomic.Int32 // of told; zero spares queries the look at it
}

// fails is called when a query from the network has failed.
func (u *unreadLog) fails(n *ovn.Network, log ovn.Logger) {
	if _, told := u.told.LoadOrStore(n.ID, nil); told {
		return
	}
	u.count.Add(1)
	log.Warningf("what routers join to the switch %q has not been read yet: names that the switch itself does not have get SERVFAIL", n.Name)
}

// isRead is called when a query from the network has its router scope.
func (u *unreadLog) isRead(n *ovn.Network, log ovn.Logger) {
	if u.count.Load() == 0 {
		return
	}
	if _, told := u.told.LoadAndDelete(n.ID); told {
		u.count.Add(-1)
		log.Infof("what routers join to the switch %q has been read", n.Name)
	}
}
