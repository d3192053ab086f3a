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

var rrTypes = map[string]uint16{
	"dns-cname": dns.TypeCNAME, "dns-mx": dns.TypeMX, "dns-srv": dns.TypeSRV, "dns-txt": dns.TypeTXT,
}

// With these bounds an answer for ANY fits into a DNS message.
const (
	maxRRs   = 100
	maxRDATA = 16 << 10
	// A byte on the wire takes at most four in text, as \DDD.
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

func isRRKey(key []byte) bool {
	return bytes.HasPrefix(key, []byte("dns-")) && bytes.IndexByte(key, '/') > 0
}

// ParseRRKey parses a key of external_ids with records, such as dns-mx/example.
func ParseRRKey(key string) (rrtype uint16, name string, err error) {
	word, name, _ := strings.Cut(key, "/")
	rrtype, ok := rrTypes[word]
	if !ok {
		return 0, "", errRRType
	}
	name, err = Canonical(name)
	return rrtype, name, err
}

// parseRRs reads one RDATA a line (RFC 1035, section 5.1). It skips unreadable lines, and the whole value if
// it is empty, exceeds a bound, or has several CNAME records.
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
			continue
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

// All names are absolute, with a final dot or without. length is in bytes on the wire.
func parseRDATA(rrtype uint16, line string) (rr dns.RR, length int, err error) {
	// Text after an owner and a type is no directive, and the parser refuses $INCLUDE by default.
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
	// Packing refuses RDATA that no message can have; unpacking normalizes names.
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
