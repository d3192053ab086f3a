// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// Limit replaces general limits for guests with a label's value.
type Limit struct {
	// Name is LABEL=VALUE in metrics and logs, unique on a bridge.
	Name string
	// Value is as of label.Canonical.
	Label, Value string
	// Rate is of one guest's punts, valid if RateGiven.
	Rate      Rate
	RateGiven bool
	// Concurrent bounds queries in flight of all these guests, ConcurrentGuest of each; 0 unless given.
	Concurrent, ConcurrentGuest int
	// Connections bounds each guest's TCP connections; 0 unless given.
	Connections int
	// FailClosed replaces Config.FailClosed if FailGiven.
	FailClosed, FailGiven bool
}

// LimitOf returns nil for no limit.
func (r *Rules) LimitOf(o *origin.Origin) *Limit {
	if i := r.limits.Find(o); i >= 0 {
		return &r.Limits[i]
	}
	return nil
}

// Rate bounds a guest's punts. Zero is no limit.
type Rate struct {
	PerSecond uint32 // packets per second
	Burst     uint32 // packets at once
}

const (
	// Some public clouds limit an interface's DNS queries to this rate.
	defaultRate = 1024
	// A guest's own resolver may query other servers at any rate.
	defaultHijackRate, defaultHijackBurst = 10_000, 256
	// Other guests need room in the switch's queue of 100 packet-ins.
	maxDefaultBurst = 64
	// OVS never refills a bucket that fills within a millisecond (3.1, dpif_netdev_meter_set).
	maxRatePerBurst = 1000
)

// MaxRate keeps an OVS bucket, in thousandths of a packet, within 32 bits.
const MaxRate = 1 << 20

// NewRate uses the default burst.
func NewRate(perSecond uint32) Rate {
	return Rate{perSecond, max(min(perSecond, maxDefaultBurst), LeastBurst(perSecond))}
}

// LeastBurst returns the minimum burst.
func LeastBurst(perSecond uint32) uint32 {
	return (perSecond + maxRatePerBurst - 1) / maxRatePerBurst
}

// Metered reports whether any guest has a rate.
func (c *Config) Metered() bool {
	return !c.RateGiven || c.Rate.PerSecond > 0 || slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Rate.PerSecond > 0 })
}

// rateOf returns the rate without a limit: the Corefile's, OVN's control plane protection for DNS (n may be nil), or
// the default. OVN's meter is for all guests of a chassis. Here each guest has a meter, so no guest uses up another's
// rate.
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
