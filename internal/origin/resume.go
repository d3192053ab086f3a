// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"

	"github.com/miekg/dns"
)

// Resume ends a chain without an answer: the switch sends the packet of r on to its destination. A lookup by a plugin
// (Origin.Lookup) has no packet, and gets an empty answer (NOERROR). Resume reports false if the switch does not hold
// the packet. Errors come from Resumer or w.
//
// The rcode is NOERROR even with an error, so that no plugin writes an answer: *cache* would store a SERVFAIL, and give
// it to other guests.
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
