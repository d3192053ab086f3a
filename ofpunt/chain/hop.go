// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/plugincfg/traits"
)

// mayForward reports whether a plugin, or one behind it, may send a query to another server. *rewrite*
// counts, since it adds the options of the operator.
func mayForward(name string) bool {
	return name == "rewrite" || name == "cache" || traits.Has(name, traits.Recurses)
}

// hop stands before all plugins that send queries to other servers. An OPT record is for the next hop
// only (RFC 6891, section 6.1.1). So the plugins behind get a query with the size of the
// guest's buffer and its DO, and none of its options: a cookie (RFC 7873) is for this process, padding
// (RFC 7830) for this connection, and a client subnet (RFC 7871) tells an outside server a tenant's
// address. Of the options in the answer, the guest gets Extended DNS Errors (RFC 8914).
type hop struct {
	next plugin.Handler
	// isRewritten is set if *rewrite* is behind, which changes a query in place. CoreDNS would
	// return to the guest what *rewrite* adds.
	isRewritten bool
}

// Name implements plugin.Handler.
func (*hop) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *hop) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	o := r.IsEdns0()
	w = &hopWriter{w, o != nil}
	if h.isRewritten || o != nil && (len(o.Option) > 0 || o.Hdr.Ttl&^flagDO != 0) {
		r = forNextHop(r, o)
	}
	return plugin.NextOrFailure(name, h.next, ctx, w, r)
}

// flagDO is the one flag of EDNS (RFC 3225, section 3) in the TTL of an OPT record.
const flagDO = 1 << 15

// forNextHop returns r with an OPT record of its own if o, the record of r, is not nil. The result
// shares the question with r.
func forNextHop(r *dns.Msg, o *dns.OPT) *dns.Msg {
	if o == nil {
		return withOPT(r, nil)
	}
	own := &dns.OPT{Hdr: o.Hdr}
	own.Hdr.Ttl &= flagDO
	return withOPT(r, own)
}

// withOPT returns m with one OPT record, or with none if own is nil. A signature stays the last record
// (RFC 8945, section 5.1).
func withOPT(m *dns.Msg, own *dns.OPT) *dns.Msg {
	c := *m
	c.Extra = slices.DeleteFunc(slices.Clone(m.Extra), func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	if own != nil {
		c.Extra = slices.Insert(c.Extra, 0, dns.RR(own))
	}
	return &c
}

// hopWriter is the writer behind a hop.
type hopWriter struct {
	dns.ResponseWriter
	// edns is set if the guest's query has EDNS: else the answer has none (RFC 6891, section 7).
	edns bool
}

// WriteMsg implements dns.ResponseWriter.
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

// maxErrors bounds the Extended DNS Errors of an answer, in bytes: with the longest question it fits
// into the smallest buffer, of 512.
const maxErrors = 200

// errorsOf returns the Extended DNS Errors of a record, without those that are too long.
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
