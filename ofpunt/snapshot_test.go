// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
)

// snapshotOf returns a settled snapshot of networks by their ports.
func snapshotOf(networks ...ovn.PortsData) *ovn.Snapshot {
	edit := new(ovn.Snapshot).Edit()
	for _, d := range networks {
		all, _ := ovn.NewPorts(d)
		edit.Put(ovn.NewNetwork(ovn.NetworkData{ID: d.Network, Name: d.Switch, Ports: all}))
	}
	s := edit.Done()
	s.Settled = true
	return s
}

// port returns a port with hardware addresses and addresses, with blanks between them.
func port(name string, key uint32, addresses string) ovn.PortData {
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

// networkA is a network with guests p0, p1 and so on, whose tunnel keys begin with 1.
func networkA(guests int) ovn.PortsData {
	d := ovn.PortsData{Network: origin.Network{0x11}, Switch: "a", Keys: []uint32{1}}
	for i := range guests {
		p := port(fmt.Sprint("p", i), uint32(i+1), "02:00:00:00:00:01 10.1.0.1")
		p.DatapathKey = 1
		d.Ports = append(d.Ports, p)
	}
	return d
}
