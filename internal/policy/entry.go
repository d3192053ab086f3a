// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

// Protocol is an IP protocol number, 0 for any.
type Protocol uint8

// Protocols of entries.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

var protocols = map[string]Protocol{"tcp": TCP, "udp": UDP, "sctp": SCTP}

// String returns the word of the protocol, "" for any.
func (p Protocol) String() string {
	for word, q := range protocols {
		if p == q {
			return word
		}
	}
	return ""
}

// Entry is a word of a policy. Entries compare with ==.
type Entry struct {
	// Name is fully qualified, lower case, A-labels, without "*."; "" for a prefix.
	Name string
	// Wildcard allows names below Name, but not Name.
	Wildcard bool
	// Prefix is invalid for a name.
	Prefix netip.Prefix
	// Port is 0 for any.
	Port     uint16
	Protocol Protocol
}

const (
	// Octets on the wire (RFC 1035, section 2.3.4).
	maxName  = 255
	maxLabel = 63
)

const wantEntry = "NAME, *.NAME or PREFIX, with :PORT or :PORT/PROTO behind it or not"

// Parse returns the entry of a word:
//
//	NAME[:PORT[/PROTO]]    *.NAME[:PORT[/PROTO]]    PREFIX[:PORT[/PROTO]]
//
// PREFIX is a network or an address; IPv6 with a port stands in brackets: [2001:db8::/32]:443. PROTO is tcp, udp or sctp.
func Parse(word string) (Entry, error) {
	e, err := parse(word)
	if err != nil {
		return Entry{}, fmt.Errorf("%q: %w", word, err)
	}
	return e, nil
}

const (
	// Tenants write the text: maxEntries bounds it, maxWord an entry in octets.
	maxEntries = 256
	maxWord    = maxName + len("*.:65535/sctp")
)

// ParseText returns the policy of entries between spaces or commas. It calls bad for each that it can't parse.
func ParseText(text string, bad func(word string, err error)) *Policy {
	var entries []Entry
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if len(entries) == maxEntries {
			bad(word, fmt.Errorf("expected at most %d entries", maxEntries))
			break
		}
		var e Entry
		err := fmt.Errorf("expected an entry of at most %d octets", maxWord)
		if len(word) <= maxWord {
			e, err = parse(word)
		}
		if err != nil {
			bad(word, err)
			continue
		}
		entries = append(entries, e)
	}
	return New(entries)
}

func parse(word string) (e Entry, err error) {
	if word == "" {
		return e, errors.New("expected " + wantEntry)
	}
	if strings.Contains(word, "://") {
		return e, errors.New("expected a name such as pypi.org, and not a URL")
	}
	host, port, hasPort, err := split(word)
	if err != nil {
		return e, err
	}
	if hasPort {
		if e.Port, e.Protocol, err = parsePort(port); err != nil {
			return e, err
		}
	}
	if isAddress(host) {
		e.Prefix, err = parsePrefix(host)
		return e, err
	}
	if suffix, ok := strings.CutPrefix(host, "*."); ok {
		e.Wildcard, host = true, suffix
	}
	e.Name, err = parseName(host)
	return e, err
}

// split cuts a word at the colon before its port.
func split(word string) (host, port string, hasPort bool, err error) {
	if rest, ok := strings.CutPrefix(word, "["); ok {
		host, port, ok = strings.Cut(rest, "]")
		if !ok || !strings.Contains(host, ":") {
			return "", "", false, errors.New("expected an IPv6 prefix in [ and ]")
		}
		if port == "" {
			return host, "", false, nil
		}
		port, hasPort = strings.CutPrefix(port, ":")
		if !hasPort {
			return "", "", false, errors.New("expected :PORT behind ]")
		}
		return host, port, true, nil
	}
	if strings.Count(word, ":") > 1 {
		return word, "", false, nil // IPv6 without a port
	}
	host, port, hasPort = strings.Cut(word, ":")
	return host, port, hasPort, nil
}

func parsePort(text string) (uint16, Protocol, error) {
	digits, word, hasProtocol := strings.Cut(text, "/")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '0' {
		return 0, 0, fmt.Errorf("port %q: expected a number from 1 to 65535", digits)
	}
	if !hasProtocol {
		return uint16(n), 0, nil
	}
	p, known := protocols[word]
	if !known {
		return 0, 0, fmt.Errorf("protocol %q: expected tcp, udp or sctp", word)
	}
	return uint16(n), p, nil
}

// isAddress: clients take a name whose last label is a number for an IPv4 address (URL standard, "ends in a number").
func isAddress(host string) bool {
	if strings.ContainsAny(host, ":/") {
		return true
	}
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	if hex, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// parsePrefix refuses bits behind the prefix: the author may have meant another length.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			return netip.Prefix{}, errors.New("expected an IPv4 or IPv6 address, or a network such as 192.0.2.0/24")
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("expected a network such as 192.0.2.0/24 or 2001:db8::/32, or NAME:PORT/PROTO")
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("expected a network without bits behind its prefix, such as %s", p.Masked())
	}
	return p, nil
}

// Labels have letters, digits, - and _, so no escapes.
func parseName(name string) (string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" {
		return "", errors.New("expected a name below the root")
	}
	if len(name)+2 > maxName {
		return "", fmt.Errorf("expected a name of at most %d octets", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	return name + ".", nil
}

func checkLabel(label string) error {
	if label == "" {
		return errors.New("expected no empty label")
	}
	if len(label) > maxLabel {
		return fmt.Errorf("label %q: expected at most %d octets", label, maxLabel)
	}
	for i := range len(label) {
		switch c := label[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '*':
			return errors.New(`expected * only as the first label of a name, as in *.example.org`)
		case c >= 0x80:
			return errors.New("expected an internationalized name in its A-label form, such as xn--bcher-kva.example (RFC 5890)")
		default:
			return fmt.Errorf("%q: expected letters, digits, - and _ in a label", string(rune(c)))
		}
	}
	return nil
}

// String returns the word, with a fully qualified name or a prefix length.
func (e Entry) String() string {
	var b strings.Builder
	switch {
	case e.Name == "" && e.Prefix.Addr().Is6() && e.Port != 0:
		fmt.Fprintf(&b, "[%s]", e.Prefix)
	case e.Name == "":
		b.WriteString(e.Prefix.String())
	case e.Wildcard:
		b.WriteString("*." + e.Name)
	default:
		b.WriteString(e.Name)
	}
	if e.Port != 0 {
		fmt.Fprintf(&b, ":%d", e.Port)
	}
	if e.Protocol != 0 {
		b.WriteString("/" + e.Protocol.String())
	}
	return b.String()
}

// Warning warns of all addresses, and of a wildcard below a public suffix, where anybody may register names; "" for
// none. The list of suffixes is the binary's.
func (e Entry) Warning() string {
	if e.Name == "" && e.Prefix.Bits() == 0 {
		return fmt.Sprintf("%s allows all addresses, private ones and the node's too", e)
	}
	if !e.Wildcard {
		return ""
	}
	name := strings.TrimSuffix(e.Name, ".")
	suffix, icann := publicsuffix.PublicSuffix(name)
	listed := suffix == name && (icann || strings.Contains(name, "."))
	// The list may lack a domain, such as ck, if all names below are suffixes.
	below, _ := publicsuffix.PublicSuffix("x." + name)
	if !listed && below != "x."+name {
		return ""
	}
	return fmt.Sprintf("%s allows names that anybody can register, as %s is a public suffix (publicsuffix.org)", e, name)
}
