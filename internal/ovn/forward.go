// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

// ForwardKey is the external_ids key of switches and routers for zones and their servers, puntdns' own:
//
//	ZONE=SERVER[,SERVER...][;ZONE=SERVER...]
//
// SERVER is an IP address, with a port other than 53 after a colon, as in [fd00::1]:5353. A network has the
// zones of its switch and the switch's routers.

const ForwardKey = "dns-forward"

const (
	MaxForwardZones   = 256
	MaxForwardServers = 16
	forwardPort       = 53
)

// Forward is an immutable zone with its servers.
type Forward struct {
	Zone string
	// Servers are in the order of the row, empty if none is readable.
	Servers []netip.AddrPort
	NamedBy string
	// Rank counts the zones of the network from 0, zones of the switch first.
	Rank int
	// Key differs between other networks, zones or servers.
	Key string
}

// Forwards are the zones of a network, or nil. They are immutable, and shared until their rows change.
type Forwards struct {
	rows  []ForwardRow
	all   []*Forward
	zones map[string]*Forward
}

type ForwardRow struct {
	NamedBy string
	Text    string
}

// Find returns the longest zone of a lower-case name, or nil. DS records belong to the parent (RFC 4035,
// section 3.1.4.1).
func (f *Forwards) Find(qname string, qtype uint16) *Forward {
	if f == nil {
		return nil
	}
	off, end := 0, false
	if qtype == dns.TypeDS {
		off, end = dns.NextLabel(qname, 0)
	}
	for ; !end; off, end = dns.NextLabel(qname, off) {
		if z := f.zones[qname[off:]]; z != nil {
			return z
		}
	}
	if qname == "." && qtype == dns.TypeDS {
		return nil
	}
	return f.zones["."]
}

func (f *Forwards) All() iter.Seq[*Forward] {
	if f == nil {
		return func(func(*Forward) bool) {}
	}
	return slices.Values(f.all)
}

func (f *Forwards) HasRows(rows []ForwardRow) bool { return f != nil && slices.Equal(f.rows, rows) }

// NewForwards returns the zones of rows, or nil. The first of equal zones counts.
func NewForwards(of origin.Network, rows []ForwardRow, report func(row ForwardRow) names.Report) *Forwards {
	if len(rows) == 0 {
		return nil
	}
	f := &Forwards{rows: rows, zones: make(map[string]*Forward)}
	for _, row := range rows {
		for _, z := range parseForwards(row.Text, report(row)) {
			if f.zones[z.Zone] != nil {
				continue
			}
			z.NamedBy, z.Rank = row.NamedBy, len(f.all)
			z.Key = keyOfForward(of, z)
			f.zones[z.Zone], f.all = z, append(f.all, z)
		}
	}
	return f
}

func keyOfForward(of origin.Network, z *Forward) string {
	b := append(of.AppendTo([]byte("forward ")), ' ')
	b = strconv.AppendQuote(b, z.Zone)
	for _, s := range z.Servers {
		b = s.AppendTo(append(b, ' '))
	}
	return string(b)
}

// A zone without a readable server stays, so that its names go nowhere else.
func parseForwards(text string, bad names.Report) (all []*Forward) {
	seen := make(map[string]bool)
	for entry := range strings.SplitSeq(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		zone, servers, ok := strings.Cut(entry, "=")
		name, err := forwardZone(strings.TrimSpace(zone))
		switch {
		case err != nil:
		case !ok:
			err = errors.New("expected ZONE=SERVER, with an IP address for SERVER")
		case seen[name]:
			err = errors.New("the zone is there already")
		case len(all) == MaxForwardZones:
			err = fmt.Errorf("there are more than %d zones", MaxForwardZones)
		}
		if err != nil {
			bad(ForwardKey, entry, err)
			continue
		}
		seen[name] = true
		all = append(all, &Forward{Zone: name, Servers: parseForwardServers(name, servers, bad)})
	}
	return all
}

func forwardZone(text string) (string, error) {
	if text == "." {
		return text, nil
	}
	return names.Canonical(text)
}

func parseForwardServers(zone, text string, bad names.Report) (all []netip.AddrPort) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		s, err := parseForwardServer(word)
		switch {
		case err != nil:
		case slices.Contains(all, s):
			continue
		case len(all) == MaxForwardServers:
			err = fmt.Errorf("there are more than %d servers of the zone", MaxForwardServers)
		}
		if err != nil {
			bad(ForwardKey, word, fmt.Errorf("zone %.80q: %w", zone, err))
			continue
		}
		all = append(all, s)
	}
	return all
}

var errForwardServer = errors.New("expected an IP address without a scope, or one with a port from 1 to 65535, as in 192.0.2.1:5353 or [2001:db8::1]:5353")

func parseForwardServer(word string) (netip.AddrPort, error) {
	s, err := netip.ParseAddrPort(word)
	if a, plain := netip.ParseAddr(word); plain == nil {
		s, err = netip.AddrPortFrom(a, forwardPort), nil
	}
	if err != nil || s.Addr().Zone() != "" || s.Port() == 0 {
		return netip.AddrPort{}, errForwardServer
	}
	return netip.AddrPortFrom(s.Addr().Unmap(), s.Port()), nil
}

func (s *Snapshot) Forwards() iter.Seq2[*Network, *Forward] {
	return func(yield func(*Network, *Forward) bool) {
		for _, n := range s.networks.All() {
			for z := range n.Forwards.All() {
				if !yield(n, z) {
					return
				}
			}
		}
	}
}

func ForwardsOf(n *Network) *Forwards {
	if n == nil {
		return nil
	}
	return n.Forwards
}
