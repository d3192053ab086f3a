// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
)

// trunkTag is the VLAN of the subport in its parent's frames.
const trunkTag = 42

// trunk creates a trunk with one subport on another project's network.
func (c *cloud) trunk(t *testing.T, network, another object) (parent, sub, trunk object) {
	t.Helper()
	parent = c.create(t, "port", object{"network_id": network.id(), "project_id": network.text("project_id"), "name": "parent", "dns_name": "parent"})
	sub = c.create(t, "port", object{"network_id": another.id(), "project_id": another.text("project_id"), "name": "sub", "dns_name": "sub"})
	trunk = c.create(t, "trunk", object{"port_id": parent.id(), "project_id": network.text("project_id"), "sub_ports": []object{
		{"port_id": sub.id(), "segmentation_type": "vlan", "segmentation_id": trunkTag},
	}})
	// A port that is in use becomes no parent with ML2/OVS.
	parent = c.update(t, "port", parent, object{"device_owner": "compute:nova", "device_id": "00000000-0000-4000-9000-000000000001", "binding:host_id": host})
	return parent, sub, trunk
}

// asksTagged checks the answer to the name vm1 that a subport of the guest gets.
func (m *machine) asksTagged(t *testing.T, sub object, want string) {
	t.Helper()
	until(t, wait, "the subport asks", func() error {
		got, err := m.tagged(t, sub, "vm1.", resolver4)
		if err == nil && got != want {
			err = fmt.Errorf("%s, want %s", got, want)
		}
		return err
	})
}

// tagged asks by hand for an A record, in a frame with a VLAN tag and a port's addresses. It
// returns the answer, whose frame must have the tag.
func (m *machine) tagged(t *testing.T, port object, name, resolver string) (string, error) {
	raw := m.Raw()
	defer raw.Close()
	payload, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
	if err != nil {
		return "", err
	}
	mac, err := net.ParseMAC(port.text("mac_address"))
	if err != nil {
		return "", err
	}
	ends := frame.Ends{
		SrcMAC: [6]byte{2, 0, 0, 0, 1, 1}, DstMAC: [6]byte(mac), Tag: frame.Tag{Tagged: true, VLAN: trunkTag},
		Src: netip.AddrPortFrom(netip.MustParseAddr(resolver), 53),
		Dst: netip.AddrPortFrom(netip.MustParseAddr(address(port, false)), 5300),
	}
	// The frame to send is the answer to one the other way round.
	turned := frame.UDP{Ends: ends}
	f, err := turned.AppendDatagram(nil, payload, true)
	if err != nil {
		return "", err
	}
	if err := raw.Send(f); err != nil {
		return "", err
	}
	var got frame.UDP
	if _, err := raw.RecvMatch(within(t, 2*time.Second), func(f []byte) bool {
		var u frame.UDP
		if u.Decode(f) != nil || u.Src != ends.Src {
			return false
		}
		got = u
		return true
	}); err != nil {
		return "", err
	}
	if got.Tag != ends.Tag {
		return "", fmt.Errorf("the answer has the tag %+v", got.Tag)
	}
	r := new(dns.Msg)
	if err := r.Unpack(got.Payload); err != nil {
		return "", err
	}
	return inShort(r), nil
}
