// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// mayForward reports whether a plugin, or one behind, may query another server. *rewrite* adds options of the
// operator, so it counts.
func mayForward(name string) bool {
	return name == "rewrite" || name == "cache" || traits.Has(name, traits.Recurses)
}

// hop stands before plugins that query other servers. An OPT record is for the next hop only (RFC 6891, section 6.1.1),
// so these plugins get the guest's buffer size and DO, but no options. A cookie (RFC 7873) is for this process, padding
// (RFC 7830) for this connection, and a client subnet (RFC 7871) would disclose a tenant's address. The guest gets
// Extended DNS Errors (RFC 8914), but no other options.
type hop struct {
	next plugin.Handler
	// isRewritten is set if *rewrite* is behind. It changes a query in place, and CoreDNS would return the change to
	// the guest.
	isRewritten bool
}

func (*hop) Name() string { return name }

func (h *hop) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	o := r.IsEdns0()
	w = &hopWriter{w, o != nil}
	if h.isRewritten || o != nil && (len(o.Option) > 0 || o.Hdr.Ttl&^flagDO != 0) {
		r = forNextHop(r, o)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// flagDO is EDNS' one flag in the TTL (RFC 3225, section 3).
const flagDO = 1 << 15

// The result shares the question with r.
func forNextHop(r *dns.Msg, o *dns.OPT) *dns.Msg {
	if o == nil {
		return withOPT(r, nil)
	}
	own := &dns.OPT{Hdr: o.Hdr}
	own.Hdr.Ttl &= flagDO
	return withOPT(r, own)
}

// own may be nil. A signature stays the last record (RFC 8945, section 5.1).
func withOPT(m *dns.Msg, own *dns.OPT) *dns.Msg {
	c := *m
	c.Extra = slices.DeleteFunc(slices.Clone(m.Extra), func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	if own != nil {
		c.Extra = slices.Insert(c.Extra, 0, dns.RR(own))
	}
	return &c
}

type hopWriter struct {
	dns.ResponseWriter
	// edns: without EDNS in the guest's query the answer has none (RFC 6891, section 7).
	edns bool
}

func (w *hopWriter) WriteMsg(m *dns.Msg) error {
	o := m.IsEdns0()
	switch {
	case o == nil:
	case !w.edns:
		m = withOPT(m, nil)
	default:
		if kept := errorsOf(o); len(kept) < len(o.Option) {
			m = withOPT(m, &dns.OPT{Hdr: o.Hdr, Option: kept})
		}
	}
	return w.ResponseWriter.WriteMsg(m)
}

// maxErrors bounds, in bytes, an answer's Extended DNS Errors: with the longest question they fit into 512 bytes, the
// smallest buffer.
const maxErrors = 200

func errorsOf(o *dns.OPT) (all []dns.EDNS0) {
	const head = 6 // bytes: option code, length, INFO-CODE
	room := maxErrors
	for _, option := range o.Option {
		e, ok := option.(*dns.EDNS0_EDE)
		if !ok {
			continue
		}
		if size := head + len(e.ExtraText); size <= room {
			room -= size
			all = append(all, e)
		}
	}
	return all
}
