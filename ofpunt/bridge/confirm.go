// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/puntdns/puntdns/internal/ovn/binding"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// confirm gives the databases the ports that ovn-controller has in the switch, while their rows are the last process's
// saved rows. The session calls it before it plans flows.
func (s *session) confirm(ctx context.Context, srv *Server) error {
	if srv.Options.Placement != placement.OVN || srv.source == nil || !srv.source.NeedsConfirmation() {
		return nil
	}
	view := s.bridge.ports.View()
	if view == nil {
		return nil // the port numbers are unknown
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

// physicalTable is OVN's OFTABLE_PHY_TO_LOG (lib/lflow.h): ovn-controller takes in packets there.
const physicalTable = 0

func bindingsOf(all []openflow.FlowStats, view *ports.View) (bindings []binding.InPort) {
	interfaces := make(map[uint32]string, len(view.Interfaces))
	for i := range view.Interfaces {
		interfaces[view.Interfaces[i].OFPort] = view.Interfaces[i].IfaceID
	}
	delete(interfaces, 0) // interfaces without a number
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
