// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

type nameSource interface {
	Database() ovndb.Config
	At() corefile.Position
}

// checkDatabases sets the databases and returns all mistakes. A missing ovnhosts is one error, however many properties
// need it.
func (s *Server) checkDatabases() error {
	named, disagreed := s.agreedDatabase()
	s.HasDatabase = named != nil
	lacking := s.checkDatabase(named)
	all := []error{disagreed, lacking}
	if s.HasDatabase || lacking == nil {
		all = append(all, s.checkAddresses(named))
	}
	if !s.HasDatabase && lacking == nil {
		for _, b := range s.blocks {
			all = append(all, b.checkLabelsWithoutDatabase())
		}
		for _, b := range s.blocks {
			all = append(all, b.Directive.CheckWithoutOVN())
		}
	}
	return errors.Join(all...)
}

// agreedDatabase sets the databases and returns the first ovnhosts, nil without any.
func (s *Server) agreedDatabase() (named nameSource, err error) {
	var all []error
	for _, b := range s.blocks {
		n, ok := b.config().Handler("ovnhosts").(nameSource)
		if !ok {
			continue
		}
		if named == nil {
			named, s.Database = n, n.Database()
			continue
		}
		if in := s.Database.Differences(n.Database()); len(in) > 0 {
			all = append(all, fmt.Errorf("%s - ofpunt %s: ovnhosts differs from the one at %s in what it reads (%s), expected the same on one bridge", n.At(), s.Options.Name, named.At(), strings.Join(in, ", ")))
		}
	}
	return named, errors.Join(all...)
}

// checkDatabase returns an error if the databases lack the guests that the placement needs.
func (s *Server) checkDatabase(named nameSource) error {
	switch {
	case s.Options.Placement != placement.OVN && s.Database.WarmStart.Folder != "":
		return fmt.Errorf("%s - ofpunt %s: ovnhosts has snapshot, and with placement %s nothing in the switch shows that a saved port is still the same; expected placement ovn, or no snapshot", named.At(), s.Options.Name, s.Options.Placement)
	case s.Options.Placement != placement.OVN:
	case named == nil:
		return fmt.Errorf("%s - ofpunt %s: no block of this bridge has ovnhosts, which knows the guests of placement %s; expected it in at least one", s.blocks[0], s.Options.Name, s.Options.Placement)
	case len(s.Database.Southbound) == 0:
		return fmt.Errorf("%s - ofpunt %s: ovnhosts reads no Southbound database, which placement %s needs; expected southbound beside northbound", named.At(), s.Options.Name, s.Options.Placement)
	}
	return nil
}

// checkAddresses returns an error if the databases lack the addresses for `dhcp` and `gateway` of the property
// address.
func (s *Server) checkAddresses(named nameSource) error {
	i := slices.IndexFunc(s.blocks, func(b *Block) bool { return b.Directive.Bridge.PerGuest() })
	switch {
	case i < 0 || !s.Options.PerGuest():
	case named == nil:
		return s.blocks[i].Directive.Errorf("address", "no block of this bridge has ovnhosts, whose databases have the addresses of dhcp and gateway; expected it in at least one")
	case s.Options.DHCP && len(s.Database.Northbound) == 0:
		return s.blocks[i].Directive.Errorf("address", "ovnhosts at %s reads no Northbound database, which has the DHCP options for dhcp; expected northbound there", named.At())
	}
	return nil
}
