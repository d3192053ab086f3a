// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"strconv"

	"github.com/puntdns/puntdns/ofpunt/guests"
)

func parseRate(o *bridgeOptions, args []string) (err error) {
	o.RateGiven = true
	o.Rate, err = parseRateLimit(args)
	return err
}

// parseRateLimit parses the words of the property rate, of the bridge or of a limit.
func parseRateLimit(args []string) (r guests.Rate, err error) {
	const want = "expected off or QPS [BURST], numbers from 1 to 1048576"
	if len(args) == 1 && args[0] == "off" {
		return r, nil
	}
	if len(args) < 1 || len(args) > 2 {
		return r, fmt.Errorf("%v: %s", args, want)
	}
	n := [2]uint32{}
	for i, s := range args {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil || v < 1 || v > guests.MaxRate {
			return r, fmt.Errorf("%q: %s", s, want)
		}
		n[i] = uint32(v)
	}
	r = guests.NewRate(n[0])
	if len(args) == 2 {
		if least := guests.LeastBurst(n[0]); n[1] < least {
			return r, fmt.Errorf("%v: expected a BURST of at least %d, a thousandth of QPS", args, least)
		}
		r.Burst = n[1]
	}
	return r, nil
}
