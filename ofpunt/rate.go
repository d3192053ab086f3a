// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"strconv"

	"github.com/puntdns/puntdns/internal/ovn"
)

// limit is what the switch takes of one guest. The zero value is no limit.
type limit struct {
	rate  uint32 // packets per second
	burst uint32 // packets at once
}

const (
	// defaultRate is what a guest may ask a resolver address. It is what some
	// public clouds let an interface send to their resolver.
	defaultRate = 1024
	// In hijack mode a packet over the limit is lost to somebody else's server,
	// which a resolver in the guest may ask at any rate.
	defaultHijackRate, defaultHijackBurst = 10_000, 256
	// maxDefaultBurst leaves room for others in the switch's queue of 100 packet-ins.
	maxDefaultBurst = 64
	// burstPart is the part of a rate that a burst must be: Open vSwitch counts in
	// milliseconds, and a bucket that is full within one is never filled again (3.1,
	// dpif_netdev_meter_set).
	burstPart = 1000
	// maxRate keeps a bucket of Open vSwitch, which counts in thousandths of a
	// packet, within 32 bits.
	maxRate = 1 << 20
)

// newLimit is the limit of a rate that comes without a burst.
func newLimit(rate uint32) limit {
	return limit{rate, max(min(rate, maxDefaultBurst), leastBurst(rate))}
}

func leastBurst(rate uint32) uint32 { return (rate + burstPart - 1) / burstPart }

// limits reports whether any guest can have a limit.
func (o *Options) limits() bool { return !o.LimitGiven || o.Limit.rate > 0 }

// limit is that of each guest of a network, which is nil where none is known: what
// the Corefile says, else what control plane protection says of DNS on that switch,
// else the default.
//
// OVN has one meter on a chassis for all who share the policy. Here each guest has
// its own of that rate, so that none takes another's part.
func (o *Options) limit(n *ovn.Network) limit {
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

func parseRate(o *Options, args []string) error {
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
