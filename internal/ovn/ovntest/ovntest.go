// SPDX-License-Identifier: Apache-2.0

// Package ovntest makes snapshots from literals for tests.
package ovntest

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

func Snapshot(networks ...ovn.PortsData) *ovn.Snapshot {
	edit := new(ovn.Snapshot).Edit()
	for _, d := range networks {
		all, _ := ovn.NewPorts(d)
		edit.Put(ovn.NewNetwork(ovn.NetworkData{ID: d.Network, Name: d.Switch, Ports: all}))
	}
	s := edit.Done()
	s.Settled = true
	return s
}

// Port returns a local port. addresses are hardware and IP addresses, separated by blanks.
func Port(name string, key uint32, addresses string) ovn.PortData {
	d := ovn.PortData{LogicalPort: &ovn.LogicalPort{Name: name, Key: key}, Local: true}
	for _, word := range strings.Fields(addresses) {
		if mac, err := net.ParseMAC(word); err == nil {
			d.MACs = append(d.MACs, origin.MAC(mac))
		} else {
			d.Addresses = append(d.Addresses, netip.MustParseAddr(word))
		}
	}
	return d
}

// NetworkA has guests p0, p1 and so on, whose tunnel keys begin with 1.
func NetworkA(guests int) ovn.PortsData {
	d := ovn.PortsData{Network: origin.Network{0x11}, Switch: "a", Keys: []uint32{1}}
	for i := range guests {
		p := Port(fmt.Sprint("p", i), uint32(i+1), "02:00:00:00:00:01 10.1.0.1")
		p.DatapathKey = 1
		d.Ports = append(d.Ports, p)
	}
	return d
}

// External has network 0x11…, switch red, localnet port ln of tunnel key 1 and local external ports x1, x2
// and so on, whose names and keys differ in order.
func External(addresses ...string) *ovn.Snapshot {
	id := origin.Network{0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x41, 0x11, 0x81, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11}
	d := ovn.PortsData{Network: id, Switch: "red", Keys: []uint32{7}, Ports: []ovn.PortData{{LogicalPort: &ovn.LogicalPort{Name: "ln", Type: "localnet", Key: 1}, DatapathKey: 7}}}
	for i, all := range addresses {
		p := Port(fmt.Sprint("x", len(addresses)-i), uint32(i+2), all)
		p.Type, p.DatapathKey = ovn.TypeExternal, 7
		d.Ports = append(d.Ports, p)
	}
	return Snapshot(d)
}
