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

// reasons has all reasons for a refusal.
var reasons = []reason{
	reasonZones, reasonServers, reasonUnusable, reasonResolver, reasonDenied, reasonNode, reasonConnected, reasonSpecial, reasonPort,
}

const (
	// reviewInterval is the time between reviews without a new snapshot: the node's addresses may have
	// changed, and servers may be unused.
	reviewInterval = 10 * time.Second
	// maxTold bounds the refused servers that are remembered and logged.
	maxTold = 1000
)

// reviewer reviews the servers that networks name. It logs each refused server once, and has the pool stop the
// servers that no network names.
type reviewer struct {
	handler *Handler
	cancel  context.CancelFunc
	done    chan struct{}
	// told has the servers that were logged and are still refused. Only the goroutine of follow uses it.
	told map[refusal]struct{}
	// refused are the servers that are refused.
	refused atomic.Pointer[refusals]
}

// refusals has the refused servers of one review. It is immutable.
type refusals struct {
	counts map[reason]int
	// first describes one of them, empty for none.
	first string
}

// refusal is a refused server.
type refusal struct {
	network, zone, namedBy string
	server                 netip.AddrPort
	why                    reason
}

// String implements fmt.Stringer.
func (r refusal) String() string {
	return fmt.Sprintf("network %s: %s forwards %s to %s, which is not asked: %s", r.network, r.namedBy, r.zone, r.server, explanations[r.why])
}

// explanations has the reasons in words, each with the expected value.
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

// follow starts the goroutine.
func (r *reviewer) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	r.told = map[refusal]struct{}{}
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

// stop ends the goroutine.
func (r *reviewer) stop() {
	r.cancel()
	<-r.done
}

// counts returns the number of refused servers by reason.
func (r *reviewer) counts() map[reason]int {
	if refused := r.refused.Load(); refused != nil {
		return refused.counts
	}
	return nil
}

// reasonAgainst returns why the server i of a zone may not be asked now.
func (h *Handler) reasonAgainst(z *ovn.Forward, i int) reason {
	switch {
	case z.Rank >= h.maxZones:
		return reasonZones
	case i >= h.maxServers:
		return reasonServers
	}
	return h.refuses(z.Servers[i])
}

// review checks all servers that networks name.
func (r *reviewer) review(s *ovn.Snapshot) {
	h := r.handler
	named := map[netip.AddrPort]struct{}{}
	refused, told, all := &refusals{counts: map[reason]int{}}, map[refusal]struct{}{}, 0
	for n, z := range s.Forwards() {
		for i, server := range z.Servers {
			why := h.reasonAgainst(z, i)
			if why == permitted {
				named[server] = struct{}{}
				continue
			}
			refused.counts[why]++
			of := refusal{n.ID.String(), z.Zone, z.NamedBy, server, why}
			if all++; all > maxTold {
				continue
			}
			if text := of.String(); refused.first == "" || text < refused.first {
				refused.first = text
			}
			told[of] = struct{}{}
			if _, ok := r.told[of]; !ok {
				log.Warning(of)
			}
		}
	}
	if all > maxTold && len(r.told) < maxTold {
		log.Warningf("more than %d servers that networks name are refused; they are counted but not logged", maxTold)
	}
	r.told = told
	r.refused.Store(refused)
	h.pool.retain(named)
}
