// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// address returns fd01:: and the id.
func address(id uint64) tcpip.Address {
	a := [16]byte{0: 0xfd, 1: 0x01}
	binary.BigEndian.PutUint64(a[8:], id)
	return tcpip.AddrFrom16(a)
}

func idOf(a tcpip.Address) uint64 {
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}

// device is gVisor's network device. Peer.Send sets checksums, which cover the real addresses.
type device struct {
	stack      *Stack
	dispatcher atomic.Pointer[stack.NetworkDispatcher]
}

func (d *device) deliver(pkt *stack.PacketBuffer) {
	if to := d.dispatcher.Load(); to != nil {
		(*to).DeliverNetworkPacket(header.IPv6ProtocolNumber, pkt)
	}
}

// WritePackets implements stack.LinkWriter. gVisor holds a connection's locks.
func (d *device) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	for _, pkt := range list.AsSlice() {
		view := pkt.ToView()
		b := view.AsSlice()
		// gVisor also sends multicast listener discovery.
		if ip := header.IPv6(b); len(b) >= header.IPv6MinimumSize+header.TCPMinimumSize && ip.NextHeader() == uint8(header.TCPProtocolNumber) {
			d.stack.sendOf(idOf(ip.DestinationAddress()), header.TCP(b[header.IPv6MinimumSize:]))
		}
		view.Release()
	}
	return list.Len(), nil
}

func (d *device) Attach(to stack.NetworkDispatcher) {
	if to == nil {
		d.dispatcher.Store(nil)
		return
	}
	d.dispatcher.Store(&to)
}

func (d *device) IsAttached() bool { return d.dispatcher.Load() != nil }
func (*device) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload | stack.CapabilityTXChecksumOffload
}
func (*device) MTU() uint32                             { return mtu }
func (*device) SetMTU(uint32)                           {}
func (*device) MaxHeaderLength() uint16                 { return 0 }
func (*device) LinkAddress() tcpip.LinkAddress          { return "" }
func (*device) SetLinkAddress(tcpip.LinkAddress)        {}
func (*device) Wait()                                   {}
func (*device) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }
func (*device) AddHeader(*stack.PacketBuffer)           {}
func (*device) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (*device) Close()                                  {}
func (*device) SetOnCloseAction(func())                 {}
