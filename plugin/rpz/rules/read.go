// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"io"

	"github.com/miekg/dns"
)

// defaultTTL, in seconds, is for records before the first TTL of a file.
const defaultTTL = 300

// Read reads a master file (RFC 1035, section 5). It refuses $INCLUDE, and a missing final newline, as the
// file may be cut off. Errors have the line, and file unless empty.
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
