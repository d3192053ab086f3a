// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"strconv"

	"github.com/puntdns/puntdns/internal/ovn"
)

// limit is on the packets of one guest that the switch punts. The zero value is no limit.
type limit struct {
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

// newLimit returns the limit for a rate without a burst.
func newLimit(rate uint32) limit {
	return limit{rate, max(min(rate, maxDefaultBurst), leastBurst(rate))}
}

// leastBurst returns the least burst that a rate may have.
func leastBurst(rate uint32) uint32 { return (rate + maxRatePerBurst - 1) / maxRatePerBurst }

// limits reports whether any guest can have a limit.
func (o *bridgeOptions) limits() bool { return !o.LimitGiven || o.Limit.rate > 0 }

// limit returns that of each guest of a network: what the Corefile says, else what control
// plane protection says of DNS on that switch, else the default. n is nil where the network is
// not known.
//
// OVN has one meter on a chassis for all who share the policy. Here each guest has
// its own of that rate, so that none takes another's part.
func (o *bridgeOptions) limit(n *ovn.Network) limit {
	switch {
	case o.LimitGiven:
		return o.Limit
	case n != nil && n.DNSMeter.Rate > 0:
		l := newLimit(min(n.DNSMeter.Rate, maxRate))
		if b := min(n.DNSMeter.Burst, maxRate); b > 0 {
			l.burst = max(b, leastBurst(l.rate))
		}
		return l
	case o.hijack():
		return limit{defaultHijackRate, defaultHijackBurst}
	default:
		return newLimit(defaultRate)
	}
}

func parseRate(o *bridgeOptions, args []string) error {
	const want = "expected off or QPS [BURST], numbers from 1 to 1048576"
	o.LimitGiven = true
	if len(args) == 1 && args[0] == "off" {
		o.Limit = limit{}
		return nil
	}
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("%v: %s", args, want)
	}
	n := [2]uint32{}
	for i, s := range args {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil || v < 1 || v > maxRate {
			return fmt.Errorf("%q: %s", s, want)
		}
		n[i] = uint32(v)
	}
	o.Limit = newLimit(n[0])
	if len(args) == 2 {
		if least := leastBurst(n[0]); n[1] < least {
			return fmt.Errorf("%v: expected a BURST of at least %d, a thousandth of QPS", args, least)
		}
		o.Limit.burst = n[1]
	}
	return nil
}
