// SPDX-License-Identifier: Apache-2.0

package tenantcache

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/cachekey"
	"github.com/puntdns/puntdns/internal/origin"
)

// A key variant has everything but the question on which an answer depends. Kind and length of each part make
// different lists differ in bytes.
//
// The key of *cache* has a name only. So *cache* gets a name after a hash of the key variant and a process secret,
// and an empty label: "k3v...q..www.example.". No message has an empty label (RFC 1035, section 3.1), so guests
// cannot ask for such a name. *cache* never packs the name.

// The kinds of a part.
const (
	partScope      = 's' // property cache_scope
	partKey        = 'k' // other plugins (internal/cachekey)
	partOptions    = 'o' // EDNS options
	partAddress    = 'a' // addresses that a template reads
	partGeneration = 'g' // varyIndex generation
	partLabels     = 'l' // a mask and the values of its labels
)

func appendPart(keyVariant []byte, kind byte, value string) []byte {
	keyVariant = binary.AppendUvarint(append(keyVariant, kind), uint64(len(value)))
	return append(keyVariant, value...)
}

// prefixEncoding uses lower case only.
var prefixEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// bytes
const hashSize = 20

// prefix returns two labels, "" for an empty key variant.
func (c *Cache) prefix(keyVariant []byte) string {
	if len(keyVariant) == 0 {
		return ""
	}
	var room [512]byte
	hash := sha256.Sum256(append(append(room[:0], c.nonce[:]...), keyVariant...))
	var text [hashSize*8/5 + 2]byte
	prefixEncoding.Encode(text[:], hash[:hashSize])
	text[len(text)-2], text[len(text)-1] = '.', '.'
	return string(text[:])
}

// keyVariant also sets q.labels and q.values, and q.reason if the answer is for this query alone.
func (c *Cache) keyVariant(keyVariant []byte, ctx context.Context, q *query, r *dns.Msg) []byte {
	if c.scope != Shared {
		keyVariant = appendPart(keyVariant, partScope, c.sharer(ctx, q))
	}
	if key := cachekey.Of(ctx); key != "" {
		keyVariant = appendPart(keyVariant, partKey, key)
	}
	if o := r.IsEdns0(); o != nil && len(o.Option) > 0 {
		options, err := packOptions(o)
		if err != nil {
			q.reason = reasonAsker
		}
		keyVariant = appendPart(keyVariant, partOptions, options)
	}
	if len(c.readers) > 0 {
		if q.reads = c.reads(q.question); q.reads != 0 {
			if q.reads&readsQuery != 0 {
				q.reason = reasonAsker
			}
			keyVariant = appendPart(keyVariant, partAddress, addressOf(q))
		}
	}
	k := c.vary.known(q.question)
	if k.generation != 0 {
		keyVariant = appendPart(keyVariant, partGeneration, strconv.FormatUint(uint64(k.generation), 10))
	}
	if q.labels = k.labels; q.labels != 0 {
		q.values = c.values(ctx, q.labels)
		var m [8]byte
		binary.BigEndian.PutUint64(m[:], uint64(q.labels))
		keyVariant = appendPart(keyVariant, partLabels, string(m[:]))
		for n, v := range q.values {
			if q.labels.has(n) {
				keyVariant = appendPart(keyVariant, partLabels, v)
			}
		}
	}
	return keyVariant
}

// values are by label number, "" for a missing label.
func (c *Cache) values(ctx context.Context, labels mask) []string {
	functions := metadata.ValueFuncs(ctx)
	names := c.labels.names()
	values := make([]string, len(names))
	for n, label := range names {
		if f := functions[label]; labels.has(n) && f != nil {
			values[n] = f()
		}
	}
	return values
}

// RFC 6891, section 6.1.2
func packOptions(o *dns.OPT) (string, error) {
	p := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}, Option: o.Option}
	buf := make([]byte, dns.Len(p))
	n, err := dns.PackRR(p, buf, 0, nil, false)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (c *Cache) sharer(ctx context.Context, q *query) string {
	o, punted := origin.FromContext(ctx)
	switch {
	case !punted:
		return "client " + hostOf(q.RemoteAddr())
	case c.scope == Network:
		return networkOf(o)
	}
	return guestOf(o)
}

// networkOf returns a unique name. A guest of an unknown network is its own network. Switch names are not unique,
// but without the OVN databases Switch may be Neutron's UUID (net_uuid).
func networkOf(o *origin.Origin) string {
	switch {
	case !o.Network.IsZero():
		return "network " + string(o.Network[:])
	case isUUID(o.Switch):
		return "switch " + o.Switch
	}
	return guestOf(o)
}

// RFC 9562, section 4
func isUUID(text string) bool {
	for i, r := range text {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if r != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			return false
		}
	}
	return len(text) == 36
}

func guestOf(o *origin.Origin) string {
	b := binary.BigEndian.AppendUint16(nil, o.VLAN)
	if o.Port == "" {
		b = binary.BigEndian.AppendUint32(b, o.InPort)
	}
	b = append(b, o.Network[:]...)
	b = append(append(b, o.Bridge...), 0) // no bridge name has a zero byte
	return "guest " + string(b) + o.Port
}

// addressOf is the part for a template that reads addresses. Guests of different networks with the same address get
// the same answer.
func addressOf(q *query) string {
	b, reads := strings.Builder{}, q.reads
	b.WriteByte(byte(reads))
	if reads&readsClient != 0 {
		b.WriteString(hostOf(q.RemoteAddr()))
	}
	if reads&readsServer != 0 {
		b.WriteByte(0)
		b.WriteString(textOf(q.LocalAddr()))
	}
	if reads&readsProtocol != 0 {
		b.WriteByte(0)
		if a := q.RemoteAddr(); a != nil {
			b.WriteString(a.Network())
		}
	}
	return b.String()
}

// A writer may reuse the memory.
func cloneAddr(a net.Addr) net.Addr {
	switch a := a.(type) {
	case *net.UDPAddr:
		return &net.UDPAddr{IP: slices.Clone(a.IP), Port: a.Port, Zone: a.Zone}
	case *net.TCPAddr:
		return &net.TCPAddr{IP: slices.Clone(a.IP), Port: a.Port, Zone: a.Zone}
	}
	return a
}

func textOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// hostOf returns the IP address, or the text without one.
func hostOf(a net.Addr) string {
	text := textOf(a)
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}
