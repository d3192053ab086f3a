// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Protocol is the transport protocol of an Entry, by its number in an IP header. The zero value is any protocol.
type Protocol uint8

// Protocols that an entry may name.
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

// Entry is what one word of a policy allows: a name or a prefix, at a port or at all ports. Entries compare with ==.
type Entry struct {
	// Name is fully qualified, in lower case and in A-label form, without "*.". It is "" for a prefix.
	Name string
	// Wildcard is set if the entry is for the names below Name, and not for Name itself.
	Wildcard bool
	// Prefix is invalid for a name.
	Prefix netip.Prefix
	// Port is the destination port, 0 for any.
	Port uint16
	// Protocol is the zero value for any.
	Protocol Protocol
}

const (
	// maxName is the longest name in octets on the wire (RFC 1035, section 2.3.4).
	maxName = 255
	// maxLabel is the longest label in octets (RFC 1035, section 2.3.4).
	maxLabel = 63
)

// wantEntry is what errors say was expected of an entry as a whole.
const wantEntry = "NAME, *.NAME or PREFIX, with :PORT or :PORT/PROTO behind it or not"

// Parse returns the entry of a word:
//
//	NAME[:PORT[/PROTO]]    *.NAME[:PORT[/PROTO]]    PREFIX[:PORT[/PROTO]]
//
// PREFIX is a network or an address. An IPv6 prefix with a port stands in brackets: [2001:db8::/32]:443. PROTO is tcp, udp
// or sctp. The error says what was found and what was expected.
func Parse(word string) (Entry, error) {
	e, err := parse(word)
	if err != nil {
		return Entry{}, fmt.Errorf("%q: %w", word, err)
	}
	return e, nil
}

func parse(word string) (e Entry, err error) {
	if word == "" {
		return e, errors.New("expected " + wantEntry)
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

// split divides a word at the colon before its port.
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

// parsePort parses PORT[/PROTO].
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

// isAddress reports whether a text is meant as an address or a network. A name whose last label is a number is no
// name that anybody could resolve: clients take it for an IPv4 address (URL standard, "ends in a number").
func isAddress(host string) bool {
	if strings.ContainsAny(host, ":/") {
		return true
	}
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// parsePrefix parses a network or an address. It refuses a network with bits behind its prefix, since its author may have
// meant a longer or a shorter one.
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
		return netip.Prefix{}, errors.New("expected a network such as 192.0.2.0/24 or 2001:db8::/32")
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("expected a network without bits behind its prefix, such as %s", p.Masked())
	}
	return p, nil
}

// parseName returns a name in the form of Entry.Name. Labels have letters, digits, - and _, so a name has no escapes.
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
			return errors.New(`expected * only as the first label, as in *.example.org`)
		case c >= 0x80:
			return errors.New("expected an internationalized name in its A-label form, such as xn--bcher-kva.example (RFC 5890)")
		default:
			return fmt.Errorf("%q: expected letters, digits, - and _ in a label", string(rune(c)))
		}
	}
	return nil
}

// String returns the word of the entry in the form that is compared: fully qualified names, prefixes with a length.
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

// Warning says why an entry allows more than its author may expect, "" for none: the names below a public suffix belong to
// anybody who registers one. The list of suffixes is the one that the binary was built with.
func (e Entry) Warning() string {
	if !e.Wildcard {
		return ""
	}
	name := strings.TrimSuffix(e.Name, ".")
	suffix, icann := publicsuffix.PublicSuffix(name)
	listed := suffix == name && (icann || strings.Contains(name, "."))
	// Where the names below a domain are suffixes, such as ck, the list may not have the domain itself.
	below, _ := publicsuffix.PublicSuffix("x." + name)
	if !listed && below != "x."+name {
		return ""
	}
	return fmt.Sprintf("%s allows names that anybody can register, as %s is a public suffix (publicsuffix.org)", e, name)
}
