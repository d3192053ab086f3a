// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

type Chassis struct {
	Name string
}

func chassisColumns() []rows.Column[Chassis] {
	return []rows.Column[Chassis]{rows.String("name", func(c *Chassis) *string { return &c.Name })}
}

func (s *Southbound) chassisChanged(id ovsdb.UUID, old, next *Chassis) {
	if old != nil {
		s.ChassisNamed.Remove(old.Name, id)
	}
	if next != nil {
		s.ChassisNamed.Add(next.Name, id, next)
	}
	s.resolveChassis()
}

func (s *Southbound) SetChassis(name string) {
	s.selfName, s.ChassisKnown = name, false
	s.resolveChassis()
}

// While the row of the local chassis is replaced there may be two; the lower UUID counts.
func (s *Southbound) resolveChassis() {
	var self ovsdb.UUID
	if s.selfName != "" {
		for id := range s.ChassisNamed[s.selfName] {
			if self == (ovsdb.UUID{}) || id.Compare(self) < 0 {
				self = id
			}
		}
	}
	if self == s.Self {
		return
	}
	for _, p := range s.Ports.All() {
		if p.IsOn(self) || p.IsOn(s.Self) {
			s.markDatapath(p.Datapath, PartPorts)
		}
	}
	s.Self = self
	s.ChassisKnown = s.ChassisKnown || self != ovsdb.UUID{}
	s.Changes.Chassis = true
}
