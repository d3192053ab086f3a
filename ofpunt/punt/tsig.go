// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"bytes"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// signer verifies the TSIG record of a query and signs its answers (RFC 8945), as dns.Server does. Keys belong to a
// block, as blocks are of different tenants. One goroutine at a time uses it.
type signer struct {
	// base64 secret, "" if unknown
	key string
	// nil if the TSIG record is valid, else an error of package dns
	status error
	// MAC of the previous message in hexadecimal, first of the query
	mac string
	// for messages after the first (section 5.3.1)
	timersOnly bool
}

// SetKeys verifies a signed query and has its answers signed. keys maps lower-case names to base64 secrets. Call it
// before a plugin that asks for TsigStatus.
func (x *Exchange) SetKeys(keys map[string]string) {
	t := x.request.IsTsig()
	if t == nil {
		return
	}
	s := &signer{mac: t.MAC, status: dns.ErrSecret}
	if key, known := keys[strings.ToLower(t.Hdr.Name)]; known {
		// TsigVerify changes the message, which others may read.
		s.key, s.status = key, dns.TsigVerify(bytes.Clone(x.payload), key, "", false)
	}
	x.signer.Store(s)
}

// sign returns a signed answer, with a TSIG stub as the last record of m. Above limit bytes it has no records, and
// TC (section 5.3).
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
	m.Extra = append(m.Extra, stub) // TsigGenerate removes it
	if err == nil {
		s.mac = mac
	}
	return b, err
}
