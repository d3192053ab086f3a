// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"io"

	"github.com/miekg/dns"
)

// defaultTTL is the TTL, in seconds, of records before the first TTL in a file without $TTL.
const defaultTTL = 300

// Read reads the rules of a zone from a master file (RFC 1035, section 5). $INCLUDE is refused, and
// so is a file whose last line has no newline: it may be the half of one. Errors have the line, and
// file, unless that is empty.
func Read(r io.Reader, origin, file string, limits Limits) (*Rules, error) {
	b, err := NewBuilder(origin, limits)
	if err != nil {
		return nil, err
	}
	e := &ending{file: limits.Reader(r)}
	err = b.readFrom(e, origin, file)
	if e.err != nil {
		return nil, e.err
	}
	if e.torn() {
		if file != "" {
			file += ": "
		}
		return nil, fmt.Errorf("%sline %d: the file ends in the middle of a line, expected a newline", file, e.line)
	}
	if err != nil {
		return nil, err
	}
	return b.Rules()
}

// readFrom adds the records of a master file.
func (b *Builder) readFrom(r io.Reader, origin, file string) error {
	p := dns.NewZoneParser(r, origin, file)
	p.SetDefaultTTL(defaultTTL)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		if err := b.Add(rr); err != nil {
			return err
		}
	}
	return p.Err()
}
