// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"

	"github.com/miekg/dns"
)

// Resume ends a chain in the place of an answer: it gives the packet that brought r
// back to the switch, on to the destination that the guest had chosen. A lookup that a
// plugin makes of its own has no packet, and gets an empty answer instead (NOERROR).
// Resume reports whether it has dealt with r; it has not where the switch holds no
// packet.
//
// The rcode says in any case that there is nothing left to write: *cache* keeps a
// SERVFAIL that comes with an error, and gives it to others.
func Resume(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (handled bool, rcode int, err error) {
	o, punted := FromContext(ctx)
	switch {
	case !punted:
		return false, 0, nil
	case o.Lookup:
		return true, dns.RcodeSuccess, w.WriteMsg(new(dns.Msg).SetReply(r))
	case o.Resumer == nil:
		return false, 0, nil
	}
	return true, dns.RcodeSuccess, o.Resumer.Resume()
}
