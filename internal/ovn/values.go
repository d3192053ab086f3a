// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// report takes note of a value that cannot be read: where it stands and why.
type report func(where, value string, err error)

// fields splits a value at commas and white space, in any mix.
func fields(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	})
}

// parseAddress accepts an address without a zone.
func parseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%.80q is not an IP address", s)
	}
	if a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%.80q has a zone", s)
	}
	return a, nil
}

// parseRecord reads the value of a record of that canonical name (ovn-nb(5),
// table DNS): addresses, or domain names below in-addr.arpa and ip6.arpa. The
// order is kept within each family. What cannot be read is reported and left out.
func parseRecord(name, value string, bad report) *entry {
	var v4, v6 []netip.Addr
	var targets []string
	reverse := isReverse(name)
	for _, f := range fields(value) {
		a, err := parseAddress(f)
		switch {
		case reverse && err == nil:
			bad(name, f, fmt.Errorf("expected a domain name, not an address"))
		case reverse:
			target, err := presentation(f)
			if err != nil {
				bad(name, f, err)
			} else if !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		case err != nil:
			bad(name, f, err)
		case a.Is4():
			if !slices.Contains(v4, a) {
				v4 = append(v4, a)
			}
		default:
			if !slices.Contains(v6, a) {
				v6 = append(v6, a)
			}
		}
	}
	return newEntry(append(v4, v6...), targets)
}

// addresses is what parsePortAddresses gives.
type addresses struct {
	fixed   []netip.Addr // sorted
	dynamic bool
}

// parsePortAddresses reads Port_Binding.mac or Logical_Switch_Port.addresses,
// elements of the form "MAC [IP...]" (ovn-nb(5)). A router's addresses may have
// a prefix length. dynamic tells that an element leaves the choice to northd:
// then the addresses stand in Logical_Switch_Port.dynamic_addresses, and what
// else the element says is a wish.
func parsePortAddresses(elements []string, bad report) addresses {
	var all []netip.Addr
	dynamic := false
	for _, element := range elements {
		words := fields(element)
		if slices.Contains(words, "dynamic") {
			dynamic = true
			continue
		}
		for i, word := range words {
			switch word {
			case "unknown", "router":
				continue
			}
			if i == 0 {
				if _, err := net.ParseMAC(word); err == nil {
					continue
				}
			}
			host, _, _ := strings.Cut(word, "/")
			a, err := parseAddress(host)
			if err != nil {
				bad(element, word, err)
				continue
			}
			all = append(all, a)
		}
	}
	return addresses{sortAddresses(all), dynamic}
}

// parseDomainName reads options:domain_name of a DHCP_Options row, which stands
// in quotation marks (ovn-nb(5)), or a domain as it is.
func parseDomainName(value string, bad report) string {
	bare := strings.Trim(strings.TrimSpace(value), `"`)
	if bare == "" || bare == "." {
		return ""
	}
	name, err := canonical(bare)
	if err != nil {
		bad("domain", value, err)
		return ""
	}
	return name
}

// parseHostname reads options:hostname of a port.
func parseHostname(value string, bad report) string {
	if value == "" {
		return ""
	}
	name, err := canonical(value)
	if err != nil {
		bad("hostname", value, err)
		return ""
	}
	return name
}
