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

const (
	notifyTaken   = "accepted"
	notifyRefused = "refused"
)

// serveNotify has the source ask a primary that sends a NOTIFY (RFC 1996). Any other NOTIFY for a policy zone
// is refused, and does not reach an outside server.
func (h *Handler) serveNotify(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if len(r.Question) != 1 || r.Question[0].Qtype != dns.TypeSOA || r.Question[0].Qclass != dns.ClassINET {
		return plugin.NextOrFailure(name, h.Next, ctx, w, r)
	}
	_, punted := origin.FromContext(ctx)
	key, signed := signerOf(ctx, w, r)
	from, _ := netip.ParseAddrPort(w.RemoteAddr().String()) // zero is no primary
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
			state.SizeAndDo(m) // OPT precedes the signature
			m.SetTsig(t.Hdr.Name, t.Algorithm, t.Fudge, time.Now().Unix())
		}
	} else {
		result = notifyRefused
		m.Rcode = dns.RcodeRefused
	}
	notifies.WithLabelValues(zone, result).Inc()
	return dns.RcodeSuccess, w.WriteMsg(m)
}

// signerOf returns the key of a signature that the server has verified; plugin tsig removes it from the
// message.
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

// shareKeys adds the zones' keys to those that the block's servers verify.
func (h *Handler) shareKeys(config *dnsserver.Config) error {
	all := maps.Clone(config.TsigSecret) // the map belongs to plugin tsig
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

// OwnKeys returns the keys that shareKeys added, which only sign NOTIFY: ofpunt leaves them out for guests.
func (h *Handler) OwnKeys() []string { return h.ownKeys }
