// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/names"
)

type Addresses struct {
	Static  []netip.Addr
	MACs    []origin.MAC
	dynamic bool
}

// parsePortAddresses parses elements "MAC [IP...]" (ovn-nb(5)), for routers with prefix lengths. northd's
// choice for a "dynamic" element is in dynamic_addresses.
func parsePortAddresses(elements []string, bad names.Report) Addresses {
	var all []netip.Addr
	var macs []origin.MAC
	dynamic := false
	for _, element := range elements {
		words := names.Words(element)
		if slices.Contains(words, "dynamic") {
			dynamic = true
			continue
		}
		for i, word := range words {
			switch word {
			case "unknown", "router":
				continue
			}
			if mac, err := net.ParseMAC(word); i == 0 && err == nil {
				macs = appendMAC(macs, mac)
				continue
			}
			host, _, _ := strings.Cut(word, "/")
			a, err := names.ParseAddress(host)
			if err != nil {
				bad(element, word, err)
				continue
			}
			all = append(all, a)
		}
	}
	return Addresses{names.SortAddresses(all), macs, dynamic}
}

func appendMAC(all []origin.MAC, mac net.HardwareAddr) []origin.MAC {
	if len(mac) != len(origin.MAC{}) || slices.Contains(all, origin.MAC(mac)) {
		return all
	}
	return append(all, origin.MAC(mac))
}

// unquote returns the value of a string constant of OVN (ovn-sb(5), Logical_Flow match). northd copies DHCP
// options into logical flows unchanged, so strings have quotation marks, and may have JSON escapes.
func unquote(value string) string {
	value = strings.TrimSpace(value)
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	var s string
	if json.Unmarshal([]byte(value), &s) != nil {
		return value[1 : len(value)-1] // ovn-controller can't read it either
	}
	return s
}

func parseDomainName(value string, bad names.Report) string {
	bare := strings.TrimSpace(unquote(value))
	if bare == "." {
		return ""
	}
	return canonicalName("domain", value, bare, bad)
}

// A hostname is quoted if the port has DHCP options, as it becomes one of them.
func parseHostname(value string, bad names.Report) string {
	return canonicalName("hostname", value, unquote(value), bad)
}

func canonicalName(where, value, bare string, bad names.Report) string {
	if bare == "" {
		return ""
	}
	name, err := names.Canonical(bare)
	if err != nil {
		bad(where, value, err)
		return ""
	}
	return name
}
