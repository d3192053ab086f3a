// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// signer verifies the TSIG record of a query, and signs its answers (RFC 8945), as dns.Server does on a
// socket. The keys are the keys of the server block that the query has come to: a server has blocks of many
// tenants. One goroutine at a time uses it.
type signer struct {
	// key is the secret that the query was signed with, in base64; "" for one that is not known.
	key string
	// status is nil if the record is right; else it is one of the errors of dns.
	status error
	// mac is the MAC of the message before, in hexadecimal: first the MAC of the query.
	mac string
	// timersOnly is set for messages behind the first (section 5.3.1).
	timersOnly bool
}

// SetKeys has the query verified by the keys of its block, if it is signed, and its answers
// signed. The keys are secrets in base64, by their names in lower case. Call it before the plugin
// that asks for TsigStatus.
func (x *Exchange) SetKeys(keys map[string]string) {
	t := x.request.IsTsig()
	if t == nil {
		return
	}
	s := &signer{mac: t.MAC, status: dns.ErrSecret}
	if key, known := keys[strings.ToLower(t.Hdr.Name)]; known {
		// It changes the message, which others may read.
		s.key, s.status = key, dns.TsigVerify(bytes.Clone(x.payload), key, "", false)
	}
	x.signer.Store(s)
}

// sign returns an answer of at most limit bytes with its signature, which its last record is a
// stub of. One that is too long is sent without records, with TC set (section 5.3).
func (s *signer) sign(m *dns.Msg, limit int) ([]byte, error) {
	stub := m.IsTsig()
	if stub.Fudge == 0 {
		stub.Fudge = 300 // seconds, as section 10 recommends
	}
	if stub.TimeSigned == 0 {
		stub.TimeSigned = uint64(time.Now().Unix())
	}
	b, mac, err := dns.TsigGenerate(m, s.key, s.mac, s.timersOnly)
	if err == nil && len(b) > limit {
		cut := dns.Msg{MsgHdr: m.MsgHdr, Compress: m.Compress, Question: m.Question}
		cut.Truncated = true
		if o := m.IsEdns0(); o != nil {
			cut.Extra = append(cut.Extra, o)
		}
		cut.Extra = append(cut.Extra, stub)
		b, mac, err = dns.TsigGenerate(&cut, s.key, s.mac, s.timersOnly)
	}
	m.Extra = append(m.Extra, stub) // TsigGenerate takes it away
	if err == nil {
		s.mac = mac
	}
	return b, err
}
