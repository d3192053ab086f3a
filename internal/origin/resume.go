// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"context"

	"github.com/miekg/dns"
)

// Resume ends a chain without an answer: it gives the packet that brought r back to the
// switch, which sends it on to the destination that the guest has chosen. A lookup that a
// plugin makes of its own (Origin.Lookup) has no packet, and gets an empty answer instead
// (NOERROR). Resume reports whether r is handled; it is not where the switch holds no
// packet. The error is that of Resumer, or of w.
//
// The rcode is NOERROR, an error or not, so that nobody writes an answer: *cache* stores a
// SERVFAIL that comes with an error, and answers others with it.
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
