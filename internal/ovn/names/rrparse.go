// SPDX-License-Identifier: Apache-2.0

package names

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// rrTypes are the types of records by the words that keys begin with.
var rrTypes = map[string]uint16{
	"dns-cname": dns.TypeCNAME, "dns-mx": dns.TypeMX, "dns-srv": dns.TypeSRV, "dns-txt": dns.TypeTXT,
}

// Bounds of the records of one type that a name has. With them an answer of all types fits into
// a DNS message, whatever name a wildcard is asked by.
const (
	maxRRs   = 100
	maxRDATA = 16 << 10 // bytes of RDATA on the wire
	// maxRRText bounds the text that is parsed, in bytes. No byte on the wire takes more than
	// four, as \DDD.
	maxRRText = 4 * maxRDATA
)

var (
	errRRType    = errors.New("expected dns-cname, dns-mx, dns-srv or dns-txt before the slash")
	errRRText    = fmt.Errorf("expected at most %d bytes", maxRRText)
	errRRs       = fmt.Errorf("expected at most %d records", maxRRs)
	errRDATA     = fmt.Errorf("expected at most %d bytes of RDATA", maxRDATA)
	errEmptyRR   = errors.New("the value is empty, expected the RDATA of one record a line")
	errNoRR      = errors.New("expected the RDATA of one record")
	errAliases   = errors.New("expected one CNAME record (RFC 2181, section 10.1)")
	errAliasRoot = errors.New("expected a target below the root")
	errAliasData = errors.New("the name has other records beside CNAME (RFC 2181, section 10.1)")
)

// isRRKey reports whether a key of a DNS row is of the form dns-TYPE/NAME.
func isRRKey(key []byte) bool {
	return bytes.HasPrefix(key, []byte("dns-")) && bytes.IndexByte(key, '/') > 0
}

// parseRRKey returns the type and the canonical name of a key for which isRRKey holds.
func parseRRKey(key string) (rrtype uint16, name string, err error) {
	word, name, _ := strings.Cut(key, "/")
	rrtype, ok := rrTypes[word]
	if !ok {
		return 0, "", errRRType
	}
	name, err = Canonical(name)
	return rrtype, name, err
}

// parseRRs reads a value: the RDATA of one record a line, in the presentation format of
// RFC 1035, section 5.1. It keeps the order. A line that it can't read it reports and leaves
// out, and all of them if they are over the bounds, or more than one CNAME record. It reports a
// value without any line too.
func parseRRs(key string, rrtype uint16, value string, bad Report) []dns.RR {
	if len(value) > maxRRText {
		bad(key, value, errRRText)
		return nil
	}
	if strings.TrimSpace(value) == "" {
		bad(key, "", errEmptyRR)
		return nil
	}
	var all []dns.RR
	size := 0
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		rr, length, err := parseRDATA(rrtype, line)
		if err != nil {
			bad(key, line, err)
			continue
		}
		if slices.ContainsFunc(all, func(have dns.RR) bool { return dns.IsDuplicate(have, rr) }) {
			continue // RFC 2181, section 5
		}
		if all = append(all, rr); len(all) > maxRRs {
			bad(key, value, errRRs)
			return nil
		}
		size += length
	}
	switch {
	case size > maxRDATA:
		bad(key, value, errRDATA)
		return nil
	case rrtype == dns.TypeCNAME && len(all) > 1:
		bad(key, value, errAliases)
		return nil
	}
	return all
}

// parseRDATA reads the RDATA of one record. Names in it are complete, with a dot at their end or
// without. length is that of the RDATA on the wire.
func parseRDATA(rrtype uint16, line string) (rr dns.RR, length int, err error) {
	// Behind an owner and a type nothing is a directive, and the parser has no $INCLUDE unless
	// it is allowed.
	parser := dns.NewZoneParser(strings.NewReader(". 0 IN "+dns.TypeToString[rrtype]+" "+line+"\n"), ".", "")
	rr, ok := parser.Next()
	if err := parser.Err(); err != nil {
		return nil, 0, fmt.Errorf("expected RDATA in presentation format: %w", err)
	}
	if !ok {
		return nil, 0, errNoRR
	}
	if _, more := parser.Next(); more || parser.Err() != nil || rr.Header().Rrtype != rrtype {
		return nil, 0, errNoRR
	}
	if txt, ok := rr.(*dns.TXT); ok && len(txt.Txt) == 0 {
		return nil, 0, errNoRR
	}
	// The parser takes some of what no message can have. What is packed and unpacked has names in
	// the form that questions have.
	wire := make([]byte, dns.Len(rr))
	n, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		return nil, 0, fmt.Errorf("expected RDATA that a message can have: %w", err)
	}
	if rr, _, err = dns.UnpackRR(wire[:n], 0); err != nil {
		return nil, 0, fmt.Errorf("expected RDATA that a message can have: %w", err)
	}
	length = int(rr.Header().Rdlength)
	*rr.Header() = dns.RR_Header{Rrtype: rrtype}
	return rr, length, checkTarget(rr)
}

// checkTarget refuses the targets of records that no record can have.
func checkTarget(rr dns.RR) error {
	target := ""
	switch rr := rr.(type) {
	case *dns.CNAME:
		if target = rr.Target; target == "." {
			return errAliasRoot
		}
	case *dns.MX:
		target = rr.Mx
	case *dns.SRV:
		target = rr.Target
	}
	if _, err := ParseAddress(strings.TrimSuffix(target, ".")); err == nil {
		return errAddressForName
	}
	return nil
}
