// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"github.com/puntdns/puntdns/internal/ovn/names"
	"github.com/puntdns/puntdns/internal/ovn/topology"
)

// DHCP is a row of DHCP_Options with options of DHCPv4.
type DHCP struct {
	Row                                   string
	CIDR                                  string
	Router, Routes, DNSServer, DomainName string
}

// DHCPv4 returns the DHCPv4 options of logical ports. Ports without options have no entry. It returns nil
// unless Northbound is read.
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

// DNSDatabase returns the database that has the row of a candidate.
//
// Operators edit Northbound, and ovn-northd makes one Southbound row of each DNS row (northd/northd.c). Up to
// OVN 24.09.1 external_ids:dns_id of this row is the UUID of the Northbound row; from 25.03 both rows have one
// UUID. ovn-northd does not copy external_ids, so records other than addresses are read from Northbound.
func (s *Source) DNSDatabase(of *names.Candidate) string {
	if s.sb != nil && len(of.Records) == 0 {
		return topology.SouthboundName
	}
	return topology.NorthboundName
}
