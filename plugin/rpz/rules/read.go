// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"io"

	"github.com/miekg/dns"
)

// defaultTTL is that of records in a file without $TTL, in seconds, before the first TTL.
const defaultTTL = 300

// Read reads the rules of a zone from a master file (RFC 1035, section 5). $INCLUDE is refused.
// Errors have the line, and file, unless that is empty.
func Read(r io.Reader, origin, file string) (*Rules, error) {
	b, err := NewBuilder(origin)
	if err != nil {
		return nil, err
	}
	p := dns.NewZoneParser(r, origin, file)
	p.SetDefaultTTL(defaultTTL)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		if err := b.Add(rr); err != nil {
			return nil, err
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return b.Rules()
}
