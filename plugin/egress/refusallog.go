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
	// Lines of a policy per second, and at once.
	logRate = 5
	// A policy remembers up to twice as many refusals.
	logMemory = 2048
)

// refusalLog decides which refusals of a policy are logged: each guest and name once, at logRate. Guests choose names,
// so memory is bounded, and a forgotten refusal is logged again.
type refusalLog struct {
	limit *rate.Limiter
	seed  maphash.Seed

	mu sync.Mutex
	// recent and older are hashes, guarded by mu.
	recent, older map[uint64]struct{}
}

func newRefusalLog() *refusalLog {
	return &refusalLog{limit: rate.NewLimiter(logRate, logRate), seed: maphash.MakeSeed(), recent: map[uint64]struct{}{}}
}

// isNew reports whether to log a refusal, and counts one over the rate.
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

// The seed is random, so that no name can hide another.
func (l *refusalLog) hash(o *origin.Origin, verdict, qname, address string) uint64 {
	return maphash.Comparable(l.seed, struct {
		bridge, port, verdict, qname, address string
		inPort                                uint32
		vlan                                  uint16
	}{o.Bridge, o.Port, verdict, qname, address, o.InPort, o.VLAN})
}
