// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
)

// DHCP is what OVN's DHCP for IPv4 tells a guest, as it stands in its row of DHCP_Options.
type DHCP struct {
	// Row is the UUID of the row.
	Row string
	// CIDR is the subnet.
	CIDR                                  string
	Router, Routes, DNSServer, DomainName string
}

// DHCPv4 returns what OVN's DHCP for IPv4 tells the guests with those logical ports, by their names.
// Left out are those without DHCP options, and it is nil where Northbound is not read.
func (s *Source) DHCPv4(ports []string) map[string]DHCP {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nb == nil {
		return nil
	}
	all := make(map[string]DHCP)
	for _, name := range ports {
		p := s.nb.PortNamed[name]
		if p == nil {
			continue
		}
		if d := s.nb.DHCP.Get(p.DHCP.V4); d != nil {
			all[name] = DHCP{p.DHCP.V4.String(), d.CIDR, d.Router, d.Routes, d.RawServers, d.Raw}
		}
	}
	return all
}

// An operator edits the row in Northbound. ovn-northd makes one row of Southbound of each row of
// Northbound (northd/northd.c): up to OVN 24.09.1 the external_ids:dns_id of the Southbound row is
// the UUID of the Northbound row, from 25.03 on both rows have the same UUID. Other columns do not
// link them. ovn-northd does not copy external_ids, so records of other types than addresses are
// read from Northbound.
func (s *Source) DNSDatabase(of *names.Candidate) string {
	if s.sb != nil && len(of.Records) == 0 {
		return topology.SouthboundName
	}
	return topology.NorthboundName
}
