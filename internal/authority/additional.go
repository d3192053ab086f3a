// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

const (
	// maxDatagram is the largest UDP answer in bytes.
	maxDatagram = 1232
	// ednsRoom is for the server's OPT record, in bytes.
	ednsRoom = 64
)

// addTargets adds addresses of MX and SRV targets (RFC 2782, RFC 5321) in scope, while there is room.
func (p *Policy) addTargets(m *dns.Msg, q *Question) {
	room := 0
	seen := make(map[string]struct{}, len(m.Answer))
	for _, rr := range m.Answer {
		target := ""
		switch rr := rr.(type) {
		case *dns.MX:
			target = rr.Mx
		case *dns.SRV:
			target = rr.Target
		}
		qname := dns.CanonicalName(target)
		if _, done := seen[qname]; done || target == "" || plugin.Zones(q.Zones).Matches(qname) == "" {
			continue
		}
		if len(seen) == 0 {
			room = roomFor(m, q)
		}
		seen[qname] = struct{}{}
		known, _ := q.Asker.Scope.Lookup(qname, p.Domain)
		for _, rr := range p.addresses(target, dns.TypeANY, known) {
			if room -= dns.Len(rr); room < 0 {
				return
			}
			m.Extra = append(m.Extra, rr)
		}
	}
}

// roomFor returns the bytes left.
func roomFor(m *dns.Msg, q *Question) int {
	size := q.State.Size()
	if q.State.Proto() == "udp" {
		size = min(size, maxDatagram)
	}
	return size - m.Len() - ednsRoom
}
