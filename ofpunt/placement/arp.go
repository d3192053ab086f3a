// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	"github.com/puntdns/puntdns/ofpunt/openflow"
)

// CheckARPTable is the table in which ovn-controller checks the senders of ARP packets (OVN's lib/lflow.h,
// OFTABLE_CHK_IN_PORT_SEC_ND, from OVN 22.06 on). A flow for the ARP packets of a port that no other flow permits sets a
// bit of the register of flags (logical-fields.h, MFF_LOG_FLAGS); a later table drops the packets with that bit. OVN
// checks IP packets in the same way, but many guests send IPv6 packets that port security does not permit, and miss
// nothing.
const CheckARPTable = 74

const (
	regFlags = 10
	// droppedARPTime is how long ago the last dropped ARP packet of a port may be.
	droppedARPTime = time.Minute
)

// DroppedARP returns how many ARP packets of each port OVN's port security has dropped since ovn-controller made its
// flows, by the flows of CheckARPTable. It has the ports whose last dropped packet came within a minute. There are none
// by OpenFlow 1.3, which does not report that time.
func DroppedARP(flows []openflow.FlowStats) map[Key]uint64 {
	all := map[Key]uint64{}
	for i := range flows {
		f := &flows[i]
		typ, ofType := f.Match.Value(openflow.EthType(0))
		datapath, ofDatapath := f.Match.Value(openflow.Metadata(0))
		port, ofPort := f.Match.Value(openflow.Reg(RegInPort, 0))
		switch {
		case f.Packets == 0 || f.Idle < 0 || f.Idle >= droppedARPTime:
		case ofType && typ == ethARP && ofDatapath && ofPort && openflow.SetsBits(f.Instructions, regFlags):
			all[Key{Datapath: uint32(datapath), Port: uint32(port)}] += f.Packets
		}
	}
	return all
}
