// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/problem"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type DHCPOptions struct {
	problem.Set
	Raw, RawServers string // options:domain_name and dns_server
	Domain          string // canonical, or ""
	Router, Routes  string
	CIDR            string
}

// DHCPRows are the DHCP_Options rows of a port, zero for none.
type DHCPRows struct{ V4, V6 ovsdb.UUID }

func dhcpColumns() []rows.Column[DHCPOptions] {
	return []rows.Column[DHCPOptions]{
		rows.Key("options", "domain_name", func(d *DHCPOptions) *string { return &d.Raw }).Then(func(id ovsdb.UUID, d *DHCPOptions) {
			d.Domain = parseDomainName(d.Raw, d.Report(NorthboundName, TableDHCP, id, "options:domain_name"))
		}),
		rows.Key("options", "dns_server", func(d *DHCPOptions) *string { return &d.RawServers }),
		rows.String("cidr", func(d *DHCPOptions) *string { return &d.CIDR }),
		rows.Key("options", "router", func(d *DHCPOptions) *string { return &d.Router }),
		rows.Key("options", "classless_static_route", func(d *DHCPOptions) *string { return &d.Routes }),
	}
}

func (n *Northbound) dhcpChanged(id ovsdb.UUID, old, next *DHCPOptions) {
	was, is := DHCPOptions{}, DHCPOptions{}
	if old != nil {
		was = *old
	}
	if next != nil {
		is = *next
	}
	var changed Part
	if was.Domain != is.Domain {
		changed |= PartPorts
	}
	if was.RawServers != is.RawServers {
		changed |= PartServers
	}
	if changed == 0 {
		return
	}
	for p := range n.dhcpOf[id] {
		n.markPort(p, changed)
	}
}

// DNSServers returns the DNS servers of DHCP options. A row counts for its own family only, as in OVN's DHCP.
func (n *Northbound) DNSServers(of DHCPRows, bad func(text string)) (all []netip.Addr) {
	add := func(row ovsdb.UUID, isFamily func(netip.Addr) bool) {
		d := n.DHCP.Get(row)
		if d == nil {
			return
		}
		for _, a := range parseDNSServers(d.RawServers, problem.ReportOf(NorthboundName, TableDHCP, row, bad)) {
			if isFamily(a) && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	add(of.V4, netip.Addr.Is4)
	add(of.V6, netip.Addr.Is6)
	return all
}

// maxDNSServers bounds a row. Resolvers query the first three (resolv.conf(5), MAXNS), and each server costs
// flows for each guest.
const maxDNSServers = 16

// parseDNSServers parses a constant of OVN: one address, or several in braces (ovn-nb(5); OVN's lib/expr.c,
// parse_constant_set). It skips addresses that no guest can query.
func parseDNSServers(value string, bad names.Report) (all []netip.Addr) {
	list := strings.TrimSpace(value)
	if inner, ok := strings.CutPrefix(list, "{"); ok {
		if list, ok = strings.CutSuffix(inner, "}"); !ok {
			bad("dns_server", value, fmt.Errorf("expected } at the end"))
			return nil
		}
	}
	for _, word := range names.Words(list) {
		a, err := names.ParseAddress(word)
		switch {
		case err != nil:
		case a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a == broadcast:
			err = fmt.Errorf("%s is no unicast address that a guest can ask", a)
		case slices.Contains(all, a):
			continue
		case len(all) == maxDNSServers:
			err = fmt.Errorf("there are more than %d", maxDNSServers)
		}
		if err != nil {
			bad("dns_server", word, err)
			continue
		}
		all = append(all, a)
	}
	return all
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
