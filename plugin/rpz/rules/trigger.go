// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// Trigger is what a rule matches.
type Trigger uint8

// The triggers (draft-vixie-dnsop-dns-rpz-00, section 4). ClientIP and below are not supported.
const (
	QName Trigger = iota
	ResponseIP
	ClientIP
	NSIP
	NSDName
)

var triggerNames = [...]string{"qname", "ip", "client-ip", "nsip", "nsdname"}

// String returns the word in metrics and metadata.
func (t Trigger) String() string { return triggerNames[t] }

var triggerLabels = map[string]Trigger{
	"rpz-ip":        ResponseIP,
	"rpz-client-ip": ClientIP,
	"rpz-nsip":      NSIP,
	"rpz-nsdname":   NSDName,
}

// triggerOf also cuts off the trigger's label.
func triggerOf(n *Name) Trigger {
	if n.labels == 0 {
		return QName
	}
	last := n.label(n.labels - 1)
	t := triggerLabels[string(last)] // QName for any other label
	if t != QName {
		n.labels--
		n.size -= 1 + len(last)
	}
	return t
}

// prefixOf decodes the prefix length, then the reversed bytes or words; zz is ::
// (draft-vixie-dnsop-dns-rpz-00, section 4.3).
func prefixOf(n *Name) (netip.Prefix, error) {
	if n.labels < 2 {
		return netip.Prefix{}, errors.New("expected a prefix length and an address")
	}
	bits, err := number(n.label(0), 10, 128)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("prefix length %w", err)
	}
	var a netip.Addr
	if n.labels == 5 && !hasZZ(n) {
		a, err = addr4(n)
	} else {
		a, err = addr6(n)
	}
	if err != nil {
		return netip.Prefix{}, err
	}
	p := netip.PrefixFrom(a, bits)
	switch {
	case bits == 0 || !p.IsValid():
		return netip.Prefix{}, fmt.Errorf("prefix length %d: expected 1 to %d", bits, a.BitLen())
	case p.Masked() != p:
		return netip.Prefix{}, fmt.Errorf("%s: expected zeros behind the prefix", p)
	}
	return p, nil
}

func hasZZ(n *Name) bool {
	for i := 1; i < n.labels; i++ {
		if string(n.label(i)) == "zz" {
			return true
		}
	}
	return false
}

func addr4(n *Name) (netip.Addr, error) {
	var b [4]byte
	for i := range b {
		v, err := number(n.label(4-i), 10, 0xff)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("byte %w", err)
		}
		b[i] = byte(v)
	}
	return netip.AddrFrom4(b), nil
}

func addr6(n *Name) (netip.Addr, error) {
	const words = 8
	zeros := words - (n.labels - 1)
	var b [16]byte
	at := words // the word behind the next one
	zz := false
	for i := 1; i < n.labels; i++ {
		if string(n.label(i)) == "zz" {
			if zz || zeros < 0 {
				return netip.Addr{}, errors.New("expected zz once, for zeros")
			}
			zz, at = true, at-zeros-1
			continue
		}
		v, err := number(n.label(i), 16, 0xffff)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("word %w", err)
		}
		if at--; at < 0 {
			break
		}
		binary.BigEndian.PutUint16(b[2*at:], uint16(v))
	}
	if at != 0 {
		return netip.Addr{}, errors.New("expected 4 bytes of IPv4, or 8 words of IPv6 or fewer and zz")
	}
	return netip.AddrFrom16(b), nil
}

// number decodes digits without a leading zero, up to most.
func number(label []byte, base int, most uint64) (int, error) {
	v, err := strconv.ParseUint(string(label), base, 16)
	if err != nil || v > most || string(label) != strconv.FormatUint(v, base) {
		return 0, fmt.Errorf("%q: expected a number up to %s", label, strconv.FormatUint(most, base))
	}
	return int(v), nil
}

// appendOwner inverts prefixOf in BIND's form: zz for the first longest run of two or more zeros.
func appendOwner(b []byte, p netip.Prefix) []byte {
	b = appendLabel(b, strconv.Itoa(p.Bits()))
	if a := p.Addr(); a.Is4() {
		for _, v := range reversed(a.As4()) {
			b = appendLabel(b, strconv.Itoa(int(v)))
		}
		return b
	}
	a := p.Addr().As16()
	var words [8]uint16
	for i := range words {
		words[i] = binary.BigEndian.Uint16(a[2*i:])
	}
	from, to := zeros(words)
	for i := len(words) - 1; i >= 0; i-- {
		if i == to-1 {
			b = appendLabel(b, "zz")
			i = from
			continue
		}
		b = appendLabel(b, strconv.FormatUint(uint64(words[i]), 16))
	}
	return b
}

func appendLabel(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }

func reversed(b [4]byte) [4]byte { return [4]byte{b[3], b[2], b[1], b[0]} }

// zeros returns the run for zz, from == to for none.
func zeros(words [8]uint16) (from, to int) {
	for begin := 0; begin < len(words); {
		end := begin
		for end < len(words) && words[end] == 0 {
			end++
		}
		if n := end - begin; n >= 2 && n > to-from {
			from, to = begin, end
		}
		begin = end + 1
	}
	return from, to
}
