// SPDX-License-Identifier: Apache-2.0

package lab

import "net/netip"

// Outside starts a host that is no guest, on a link with the node: the node has the first address of
// the link, and the host the second. The host has each address of the networks too, and the node
// routes to them.
func (n *Node) Outside(link netip.Prefix, networks ...string) *Host {
	n.l.t.Helper()
	h, err := n.outside(link, networks)
	if err != nil {
		n.l.t.Fatalf("%s: a host outside: %v", n.Name, err)
	}
	return h
}

func (n *Node) outside(link netip.Prefix, networks []string) (*Host, error) {
	const name = "outside"
	h, err := n.l.newHost(name)
	if err != nil {
		return nil, err
	}
	n.l.mu.Lock()
	n.l.outside = append(n.l.outside, h)
	n.l.mu.Unlock()
	if err := vethPair(n.Host, name, h, Iface, ""); err != nil {
		return nil, err
	}
	first := netip.PrefixFrom(link.Masked().Addr().Next(), link.Bits())
	second := netip.PrefixFrom(first.Addr().Next(), link.Bits())
	onHost := []string{"link set dev " + Iface + " up", "addr add " + second.String() + " dev " + Iface}
	onNode := []string{"link set dev " + name + " up", "addr add " + first.String() + " dev " + name}
	for _, network := range networks {
		onHost = append(onHost, "route add local "+network+" dev lo")
		onNode = append(onNode, "route add "+network+" via "+second.Addr().String())
	}
	if err := h.ip(onHost...); err != nil {
		return nil, err
	}
	return h, n.ip(onNode...)
}
