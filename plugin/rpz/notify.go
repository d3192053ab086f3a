// SPDX-License-Identifier: Apache-2.0

package rpz

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/tsig"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/plugin/rpz/source"
)

// Results of a NOTIFY in metrics.
const (
	notifyTaken   = "accepted"
	notifyRefused = "refused"
)

// serveNotify handles a NOTIFY (RFC 1996). If a primary of a policy zone sends it, the source asks that
// primary at once. Any other NOTIFY for a policy zone is refused, so that it does not reach a server outside.
// The policy zone may belong to another server block.
func (h *Handler) serveNotify(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if len(r.Question) != 1 || r.Question[0].Qtype != dns.TypeSOA || r.Question[0].Qclass != dns.ClassINET {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	_, punted := origin.FromContext(ctx)
	key, signed := signerOf(ctx, w, r)
	from, _ := netip.ParseAddrPort(w.RemoteAddr().String()) // the zero value is no primary's
	zone := dns.CanonicalName(r.Question[0].Name)
	known, taken := source.Notify(zone, from.Addr(), func(k source.Key) bool {
		return !punted && (k == (source.Key{}) || signed && k.Name == key)
	})
	if !known {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	m := new(dns.Msg).SetReply(r)
	result := notifyTaken
	if taken {
		m.Authoritative = true
		if t := r.IsTsig(); t != nil && signed {
			state := request.Request{W: w, Req: r}
			state.SizeAndDo(m) // an OPT record stands before the signature
			m.SetTsig(t.Hdr.Name, t.Algorithm, t.Fudge, time.Now().Unix())
		}
	} else {
		result = notifyRefused
		m.Rcode = dns.RcodeRefused
	}
	notifies.WithLabelValues(zone, result).Inc()
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// signerOf returns the name of the key that has signed a message, and reports whether the signature is
// right. The server has verified it. Plugin tsig takes it off the message.
func signerOf(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (key string, ok bool) {
	if key, ok := tsig.ValidatedKeyName(ctx); ok {
		return key, true
	}
	t := r.IsTsig()
	if t == nil || w.TsigStatus() != nil {
		return "", false
	}
	return dns.CanonicalName(t.Hdr.Name), true
}

// shareKeys has the servers of a block verify messages that are signed by the keys of its policy zones.
func (h *Handler) shareKeys(config *dnsserver.Config) error {
	all := maps.Clone(config.TsigSecret) // the map is that of plugin tsig
	if all == nil {
		all = map[string]string{}
	}
	for _, z := range h.policies {
		k := z.config.Key
		if k == (source.Key{}) {
			continue
		}
		secret, known := all[k.Name]
		switch {
		case known && secret != k.Secret:
			return h.zoneError(z, fmt.Errorf("plugin tsig has the key %s with another secret, expected the same or another name", k.Name))
		case !known:
			h.ownKeys = append(h.ownKeys, k.Name)
		}
		all[k.Name] = k.Secret
	}
	if len(all) > 0 {
		config.TsigSecret = all
	}
	return nil
}

// OwnKeys returns the names of keys that shareKeys has added. They sign a NOTIFY, and are none of plugin
// tsig: ofpunt leaves them out for guests.
func (h *Handler) OwnKeys() []string { return h.ownKeys }
