// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// confirm gives the databases the ports that ovn-controller has in the switch, as long as the rows of the
// databases are the saved rows of the last process (ovndb.Reader.Confirm). The session calls it each time
// before it plans flows.
func (s *session) confirm(ctx context.Context, srv *Server) error {
	if srv.Options.Placement != placement.OVN || srv.source == nil || !srv.source.NeedsConfirmation() {
		return nil
	}
	view := s.bridge.ports.View()
	if view == nil {
		return nil // whose interface has a port number is not known
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := s.conn.FlowStats(ctx, openflow.FlowStatsRequest{Table: physicalTable})
	if err != nil {
		return err
	}
	srv.source.Confirm(bindingsOf(all, view))
	return nil
}

// physicalTable is the table in which ovn-controller takes packets in from ports (OVN's lib/lflow.h,
// OFTABLE_PHY_TO_LOG).
const physicalTable = 0

// bindingsOf returns what flows of that table say of ports, and the interfaces of those in a view.
func bindingsOf(all []openflow.FlowStats, view *ports.View) (bindings []binding.InPort) {
	interfaces := make(map[uint32]string, len(view.Interfaces))
	for i := range view.Interfaces {
		interfaces[view.Interfaces[i].OFPort] = view.Interfaces[i].IfaceID
	}
	delete(interfaces, 0) // those that have no number yet
	for i := range all {
		f := &all[i]
		datapath, port, ok := openflow.Loaded(f.Instructions, placement.RegInPort)
		if ok && f.Cookie>>32 == 0 && datapath>>32 == 0 {
			bindings = append(bindings, binding.InPort{
				Cookie: uint32(f.Cookie), Datapath: uint32(datapath), Port: port,
				VLAN: f.Match.VLAN(), Interface: interfaces[f.Match.InPort()],
			})
		}
	}
	return bindings
}
