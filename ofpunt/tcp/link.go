// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// address is the one that a flow has in gVisor's eyes: fd01:: and the id.
func address(id uint64) tcpip.Address {
	a := [16]byte{0: 0xfd, 1: 0x01}
	binary.BigEndian.PutUint64(a[8:], id)
	return tcpip.AddrFrom16(a)
}

func idOf(a tcpip.Address) uint64 {
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}

// link is the network device of gVisor's stack: what it writes goes to the peer of
// the flow at once. Checksums are of the real addresses, so others deal with them.
type link struct {
	stack      *Stack
	dispatcher atomic.Pointer[stack.NetworkDispatcher]
}

func (l *link) deliver(pkt *stack.PacketBuffer) {
	if d := l.dispatcher.Load(); d != nil {
		(*d).DeliverNetworkPacket(header.IPv6ProtocolNumber, pkt)
	}
}

// WritePackets implements stack.LinkWriter. gVisor calls it with the locks of a
// connection held.
func (l *link) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	for _, pkt := range list.AsSlice() {
		view := pkt.ToView()
		b := view.AsSlice()
		// The stack has a host's affairs of its own, as multicast listening.
		if ip := header.IPv6(b); len(b) >= header.IPv6MinimumSize+header.TCPMinimumSize && ip.NextHeader() == uint8(header.TCPProtocolNumber) {
			if f := l.stack.flow(idOf(ip.DestinationAddress())); f != nil {
				f.peer().Send(b[header.IPv6MinimumSize:])
			}
		}
		view.Release()
	}
	return list.Len(), nil
}

// Attach implements stack.NetworkLinkEndpoint, as do those below.
func (l *link) Attach(d stack.NetworkDispatcher) {
	if d == nil {
		l.dispatcher.Store(nil)
		return
	}
	l.dispatcher.Store(&d)
}

func (l *link) IsAttached() bool { return l.dispatcher.Load() != nil }
func (*link) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload | stack.CapabilityTXChecksumOffload
}
func (*link) MTU() uint32                             { return mtu }
func (*link) SetMTU(uint32)                           {}
func (*link) MaxHeaderLength() uint16                 { return 0 }
func (*link) LinkAddress() tcpip.LinkAddress          { return "" }
func (*link) SetLinkAddress(tcpip.LinkAddress)        {}
func (*link) Wait()                                   {}
func (*link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }
func (*link) AddHeader(*stack.PacketBuffer)           {}
func (*link) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (*link) Close()                                  {}
func (*link) SetOnCloseAction(func())                 {}
