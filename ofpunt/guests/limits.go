// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// Limit is the limit of all guests whose label has a value. It replaces the limits of all guests.
type Limit struct {
	// Name is how metrics and logs name the limit: LABEL=VALUE. A bridge has each name once.
	Name string
	// Label is the whole name of the label, and Value a value in the form of label.Canonical.
	Label, Value string
	// Rate is what the switch takes of one guest, valid if RateGiven is set.
	Rate      Rate
	RateGiven bool
	// Concurrent bounds the queries in flight of all these guests together, ConcurrentGuest the queries of
	// one guest. Both are 0 unless given.
	Concurrent, ConcurrentGuest int
	// Connections bounds the open TCP connections of one guest; 0 unless given.
	Connections int
	// FailClosed replaces Config.FailClosed for these guests, if FailGiven is set.
	FailClosed, FailGiven bool
}

// LimitOf returns the limit of a guest, nil for none. o is its Origin.
func (r *Rules) LimitOf(o *origin.Origin) *Limit {
	if i := r.limits.Find(o); i >= 0 {
		return &r.Limits[i]
	}
	return nil
}

// FailsClosed reports whether a guest with a limit, nil for none, gets no DNS without puntdns.
func (c *Config) FailsClosed(l *Limit) bool {
	if l != nil && l.FailGiven {
		return l.FailClosed
	}
	return c.FailClosed
}

// Rate bounds the packets of one guest that the switch punts. The zero value is no limit.
type Rate struct {
	PerSecond uint32 // packets per second
	Burst     uint32 // packets at once
}

const (
	// defaultRate is for queries to the resolver addresses. Some public clouds let an
	// interface send as many to their resolver.
	defaultRate = 1024
	// In hijack mode a packet over the limit would have gone to another server, which a resolver in the
	// guest may ask at any rate.
	defaultHijackRate, defaultHijackBurst = 10_000, 256
	// maxDefaultBurst leaves room for others in the switch's queue of 100 packet-ins.
	maxDefaultBurst = 64
	// maxRatePerBurst is how many times its burst a rate may be: Open vSwitch counts in
	// milliseconds, and a bucket that is full within one is never filled again (3.1,
	// dpif_netdev_meter_set).
	maxRatePerBurst = 1000
)

// MaxRate bounds a rate and a burst: a bucket of Open vSwitch, which counts in thousandths of a
// packet, stays within 32 bits.
const MaxRate = 1 << 20

// NewRate returns a rate with the burst of one that names none.
func NewRate(perSecond uint32) Rate {
	return Rate{perSecond, max(min(perSecond, maxDefaultBurst), LeastBurst(perSecond))}
}

// LeastBurst returns the least burst that a rate may have.
func LeastBurst(perSecond uint32) uint32 {
	return (perSecond + maxRatePerBurst - 1) / maxRatePerBurst
}

// Metered reports whether any guest can have a rate.
func (c *Config) Metered() bool {
	return !c.RateGiven || c.Rate.PerSecond > 0 || slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Rate.PerSecond > 0 })
}

// rateOf returns the rate of the guests of a network that no limit gives another rate: the rate of the
// Corefile, else the rate of control plane protection for DNS on that switch, else the default. n is nil if
// the network is not known.
//
// OVN has one meter on a chassis for all guests of a policy. Here each guest has a meter of that rate, so that
// no guest takes the part of another.
func (c *Config) rateOf(n *ovn.Network) Rate {
	switch {
	case c.RateGiven:
		return c.Rate
	case n != nil && n.DNSMeter.Rate > 0:
		r := NewRate(min(n.DNSMeter.Rate, MaxRate))
		if b := min(n.DNSMeter.Burst, MaxRate); b > 0 {
			r.Burst = max(b, LeastBurst(r.PerSecond))
		}
		return r
	case c.Hijack():
		return Rate{defaultHijackRate, defaultHijackBurst}
	default:
		return NewRate(defaultRate)
	}
}
