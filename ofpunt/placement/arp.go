// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// CheckARPTable is where ovn-controller checks ARP senders (OVN's lib/lflow.h, OFTABLE_CHK_IN_PORT_SEC_ND, from OVN
// 22.06 on). A flow marks ARP packets that no other flow permits, in a register (logical-fields.h, MFF_LOG_FLAGS).
// puntdns ignores IP checks: many guests harmlessly send forbidden IPv6 packets.
const CheckARPTable = 74

const (
	regFlags       = 10
	droppedARPTime = time.Minute
)

// DroppedARP returns how many ARP packets of each port OVN's port security has dropped since ovn-controller installed
// the flows, for ports with a drop in the last minute. OpenFlow 1.3 does not report that time: the map is empty.
func DroppedARP(flows []openflow.FlowStats) map[Key]uint64 {
	all := map[Key]uint64{}
	for i := range flows {
		f := &flows[i]
		typ, ofType := f.Match.Value(openflow.EthType(0))
		datapath, ofDatapath := f.Match.Value(openflow.Metadata(0))
		port, ofPort := f.Match.Value(openflow.Reg(RegInPort, 0))
		switch {
		case f.Packets == 0 || f.Idle < 0 || f.Idle >= droppedARPTime:
		case ofType && typ == ethARP && ofDatapath && ofPort && openflow.SetsBits(f.Instructions, regFlags, ^uint32(0)):
			all[Key{Datapath: uint32(datapath), Port: uint32(port)}] += f.Packets
		}
	}
	return all
}
