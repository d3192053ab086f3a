// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/vswitch"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/ports"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// puntLimits returns the limits in the type of package punt.
func puntLimits(limits []limit) []punt.Limit {
	all := make([]punt.Limit, len(limits))
	for i := range limits {
		l := &limits[i]
		all[i] = punt.Limit{Name: l.String(), Concurrent: l.Concurrent, ConcurrentGuest: l.ConcurrentGuest, Connections: l.Connections}
	}
	return all
}

// findLimit is punt.Config.FindLimit: it returns the index of the limit of the sender of a packet,
// -1 for none. It has to find what guestList.rate finds for the guest's meter.
func (s *server) findLimit(in *openflow.PacketIn, owner *vswitch.Interface) int {
	// A tag on the frame does not say whose port it is.
	g, ok := s.identify(in, owner, false)
	if !ok {
		return -1
	}
	return s.limits.Find(&origin.Origin{
		InPort: in.InPort, VLAN: g.Tag, Network: g.Network, Switch: g.Switch, Port: g.Port, Attributes: g.Attributes,
	})
}

// portsVersion is punt.Config.PortsVersion: that of what the databases say of guests.
func (s *server) portsVersion() uint64 {
	if s.source == nil {
		return 0
	}
	return s.source.Snapshot().PortsVersion
}

// externalIDs returns the version of the local external_ids, and a channel that is closed once
// there is another one, if a limit of a guest depends on them; else 0 and nil.
func (s *server) externalIDs(view *ports.View) (version uint64, changed <-chan struct{}) {
	if s.source != nil || view == nil || !s.limits.HasKey() {
		return 0, nil
	}
	return view.ExternalIDsVersion()
}
