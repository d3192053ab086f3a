// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/ovn"
)

// Reasons for servers over a limit; policy has the other reasons.
const (
	reasonZones   reason = "zones"   // the zone is over max_zones
	reasonServers reason = "servers" // the server is over max_servers
)

var reasons = []reason{
	reasonZones, reasonServers, reasonUnusable, reasonResolver, reasonDenied, reasonNode, reasonConnected, reasonSpecial, reasonPort,
}

const (
	// reviewInterval is for changed node addresses and unused servers.
	reviewInterval = 10 * time.Second
	// maxLogged limits the refused servers that are remembered and logged.
	maxLogged = 1000
)

// reviewer logs each refused server once, and has unnamed ones stopped.
type reviewer struct {
	handler *Handler
	cancel  context.CancelFunc
	done    chan struct{}
	// logged is for the goroutine of follow.
	logged  map[refusal]struct{}
	refused atomic.Pointer[refusals]
}

// refusals is immutable.
type refusals struct {
	// version is the ForwardsVersion of the snapshot that was reviewed.
	version uint64
	counts  map[reason]int
	// first describes one, empty for none.
	first string
}

type refusal struct {
	network, zone, namedBy string
	server                 netip.AddrPort
	why                    reason
}

func (r refusal) String() string {
	return fmt.Sprintf("network %s: %s forwards %s to %s, which is not asked: %s", r.network, r.namedBy, r.zone, r.server, explanations[r.why])
}

var explanations = map[reason]string{
	reasonUnusable:  "it is no unicast address, or one of a link; expected another one",
	reasonResolver:  "it is where guests ask their queries; expected another server",
	reasonDenied:    "the Corefile denies it",
	reasonPort:      "expected port 53, or one of the property ports",
	reasonNode:      "it is an address of this node; expected another one, or allow with that address",
	reasonConnected: "it is in a network that this node is connected to; expected another one, or allow with that network or a part of it",
	reasonSpecial:   "it is private or for special purposes; expected a public address, or one in a network of allow",
	reasonZones:     "the zone is over max_zones; expected fewer zones",
	reasonServers:   "it is over max_servers; expected fewer servers",
}

func (r *reviewer) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	r.logged = map[refusal]struct{}{}
	go func() {
		defer close(r.done)
		tick := time.NewTicker(reviewInterval)
		defer tick.Stop()
		source := r.handler.source
		for version, due := uint64(0), true; ; {
			changed := source.Changed()
			if s := source.Snapshot(); due || s.ForwardsVersion != version {
				version, due = s.ForwardsVersion, false
				r.review(s)
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-tick.C:
				due = true
			}
		}
	}()
}

func (r *reviewer) stop() {
	r.cancel()
	<-r.done
}

func (r *reviewer) counts() map[reason]int {
	if refused := r.refused.Load(); refused != nil {
		return refused.counts
	}
	return nil
}

func (h *Handler) reasonAgainst(z *ovn.Forward, i int) reason {
	switch {
	case z.Rank >= h.maxZones:
		return reasonZones
	case i >= h.maxServers:
		return reasonServers
	}
	return h.refuses(z.Servers[i])
}

func (r *reviewer) review(s *ovn.Snapshot) {
	h := r.handler
	named := map[netip.AddrPort]struct{}{}
	refused, logged, all := &refusals{version: s.ForwardsVersion, counts: map[reason]int{}}, map[refusal]struct{}{}, 0
	for n, z := range s.Forwards() {
		for i, server := range z.Servers {
			why := h.reasonAgainst(z, i)
			if why == permitted {
				named[server] = struct{}{}
				continue
			}
			refused.counts[why]++
			of := refusal{n.ID.String(), z.Zone, z.NamedBy, server, why}
			if all++; all > maxLogged {
				continue
			}
			if text := of.String(); refused.first == "" || text < refused.first {
				refused.first = text
			}
			logged[of] = struct{}{}
			if _, ok := r.logged[of]; !ok {
				log.Warning(of)
			}
		}
	}
	if all > maxLogged && len(r.logged) < maxLogged {
		log.Warningf("more than %d servers that networks name are refused; they are counted but not logged", maxLogged)
	}
	r.logged = logged
	h.pool.retain(named)
	r.refused.Store(refused)
}
