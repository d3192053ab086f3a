// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/puntdns/puntdns/internal/ovn"
)

// rateLimit is on the packets of one guest that the switch punts. The zero value is no limit.
type rateLimit struct {
	rate  uint32 // packets per second
	burst uint32 // packets at once
}

const (
	// defaultRate is for queries to the resolver addresses. Some public clouds let an
	// interface send as many to their resolver.
	defaultRate = 1024
	// In hijack mode a packet over the limit would have gone to somebody else's server,
	// which a resolver in the guest may ask at any rate.
	defaultHijackRate, defaultHijackBurst = 10_000, 256
	// maxDefaultBurst leaves room for others in the switch's queue of 100 packet-ins.
	maxDefaultBurst = 64
	// maxRatePerBurst is how many times its burst a rate may be: Open vSwitch counts in
	// milliseconds, and a bucket that is full within one is never filled again (3.1,
	// dpif_netdev_meter_set).
	maxRatePerBurst = 1000
	// maxRate keeps a bucket of Open vSwitch, which counts in thousandths of a
	// packet, within 32 bits.
	maxRate = 1 << 20
)

// newRateLimit returns the limit for a rate without a burst.
func newRateLimit(rate uint32) rateLimit {
	return rateLimit{rate, max(min(rate, maxDefaultBurst), leastBurst(rate))}
}

// leastBurst returns the least burst that a rate may have.
func leastBurst(rate uint32) uint32 { return (rate + maxRatePerBurst - 1) / maxRatePerBurst }

// metered reports whether any guest can have a rate limit.
func (o *bridgeOptions) metered() bool {
	return !o.RateGiven || o.Rate.rate > 0 || slices.ContainsFunc(o.Limits, func(l limit) bool { return l.Rate.rate > 0 })
}

// rate returns the rate limit of the guests of a network that have no other one by their label:
// what the Corefile says, else what control plane protection says of DNS on that switch, else the
// default. n is nil where the network is not known.
//
// OVN has one meter on a chassis for all who share the policy. Here each guest has
// its own of that rate, so that none takes another's part.
func (o *bridgeOptions) rate(n *ovn.Network) rateLimit {
	switch {
	case o.RateGiven:
		return o.Rate
	case n != nil && n.DNSMeter.Rate > 0:
		l := newRateLimit(min(n.DNSMeter.Rate, maxRate))
		if b := min(n.DNSMeter.Burst, maxRate); b > 0 {
			l.burst = max(b, leastBurst(l.rate))
		}
		return l
	case o.hijack():
		return rateLimit{defaultHijackRate, defaultHijackBurst}
	default:
		return newRateLimit(defaultRate)
	}
}

func parseRate(o *bridgeOptions, args []string) (err error) {
	o.RateGiven = true
	o.Rate, err = parseRateLimit(args)
	return err
}

// parseRateLimit parses the words of the property rate, of the bridge or of a limit.
func parseRateLimit(args []string) (l rateLimit, err error) {
	const want = "expected off or QPS [BURST], numbers from 1 to 1048576"
	if len(args) == 1 && args[0] == "off" {
		return l, nil
	}
	if len(args) < 1 || len(args) > 2 {
		return l, fmt.Errorf("%v: %s", args, want)
	}
	n := [2]uint32{}
	for i, s := range args {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil || v < 1 || v > maxRate {
			return l, fmt.Errorf("%q: %s", s, want)
		}
		n[i] = uint32(v)
	}
	l = newRateLimit(n[0])
	if len(args) == 2 {
		if least := leastBurst(n[0]); n[1] < least {
			return l, fmt.Errorf("%v: expected a BURST of at least %d, a thousandth of QPS", args, least)
		}
		l.burst = n[1]
	}
	return l, nil
}
