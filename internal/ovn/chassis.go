// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// chassis is a row of Chassis.
type chassis struct {
	name string
}

func chassisColumns() []rows.Column[chassis] {
	return []rows.Column[chassis]{rows.String("name", func(c *chassis) *string { return &c.name })}
}

func (s *southbound) chassisChanged(id ovsdb.UUID, old, next *chassis) {
	if old != nil {
		s.chassisNamed.Remove(old.name, id)
	}
	if next != nil {
		s.chassisNamed.Add(next.name, id, next)
	}
	s.locate()
}

// setChassis sets the name of the local chassis, "" for none.
func (s *southbound) setChassis(name string) {
	s.selfName, s.located = name, false
	s.locate()
}

// locate finds the row of the local chassis by its name. While the row is replaced
// there may be two: then it is the one with the lowest UUID.
func (s *southbound) locate() {
	var self ovsdb.UUID
	if s.selfName != "" {
		for id := range s.chassisNamed[s.selfName] {
			if self == (ovsdb.UUID{}) || id.Compare(self) < 0 {
				self = id
			}
		}
	}
	if self == s.self {
		return
	}
	for _, p := range s.ports.All() {
		if p.isOn(self) || p.isOn(s.self) {
			s.markDatapath(p.datapath, partPorts)
		}
	}
	s.self = self
	s.located = s.located || self != ovsdb.UUID{}
	s.changes.chassis = true
}
