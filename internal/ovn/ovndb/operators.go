// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"github.com/puntdns/puntdns/internal/ovn/names"
)

type DHCP struct {
	Row                                   string
	CIDR                                  string
	Router, Routes, DNSServer, DomainName string
}

// DHCPv4 returns the options of logical ports, nil unless Northbound is read.
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

// WhyUnreadable returns why a DNS record is unreadable, nil if the row has changed since.
func (s *Source) WhyUnreadable(of *names.Candidate) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nb != nil {
		if r := s.nb.DNS.Get(of.Row); r != nil {
			if texts := r.Texts(of.Column, of.Key); texts != nil {
				return texts
			}
		}
	}
	if s.sb == nil {
		return nil
	}
	for _, r := range s.sb.DNS.All() {
		if r.ID == of.Row {
			return r.Texts(of.Column, of.Key)
		}
	}
	return nil
}
