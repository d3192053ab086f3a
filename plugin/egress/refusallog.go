// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"hash/maphash"
	"sync"

	clog "github.com/coredns/coredns/plugin/pkg/log"
	"golang.org/x/time/rate"

	"github.com/puntdns/puntdns/internal/origin"
)

var log = clog.NewWithPlugin(name)

const (
	// logRate is how many lines a policy logs in a second, and at once.
	logRate = 5
	// logMemory is how many lines of a policy are remembered at least, and half of how many at most.
	logMemory = 2048
)

// refusalLog decides which refusals of a policy are logged: each once for a guest and a name, and only so many in a second. A
// guest chooses its names, so the memory is bounded: a refusal that was forgotten is logged again.
type refusalLog struct {
	limit *rate.Limiter
	seed  maphash.Seed

	mu sync.Mutex
	// recent and older are hashes of refusals that were logged or came again; guarded by mu.
	recent, older map[uint64]struct{}
}

func newRefusalLog() *refusalLog {
	return &refusalLog{limit: rate.NewLimiter(logRate, logRate), seed: maphash.MakeSeed(), recent: map[uint64]struct{}{}}
}

// isNew reports whether a refusal has to be logged. It counts a new refusal that is over the rate.
func (l *refusalLog) isNew(o *origin.Origin, verdict, qname, address string) bool {
	key := l.hash(o, verdict, qname, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.recent[key]; known {
		return false
	}
	_, known := l.older[key]
	if !known && !l.limit.Allow() {
		linesDropped.Inc()
		return false
	}
	if len(l.recent) >= logMemory {
		l.recent, l.older = map[uint64]struct{}{}, l.recent
	}
	l.recent[key] = struct{}{}
	return !known
}

// hash identifies a refusal. The seed is random, so that no guest can choose a name that hides another name.
func (l *refusalLog) hash(o *origin.Origin, verdict, qname, address string) uint64 {
	return maphash.Comparable(l.seed, struct {
		bridge, port, verdict, qname, address string
		inPort                                uint32
		vlan                                  uint16
	}{o.Bridge, o.Port, verdict, qname, address, o.InPort, o.VLAN})
}
