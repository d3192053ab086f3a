// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net"
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/address"
	"github.com/puntdns/puntdns/internal/control/api"
)

// ipNet is an address of an interface as package net has it.
func ipNet(t testing.TB, cidr string) net.Addr {
	t.Helper()
	ip, network, err := net.ParseCIDR(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return &net.IPNet{IP: ip, Mask: network.Mask}
}

// testNode is a node with a public address, one of a management network, and one without a network.
func testNode(t testing.TB) *address.Node {
	t.Helper()
	return address.NewNode([]net.Addr{
		ipNet(t, "127.0.0.1/8"), ipNet(t, "::1/128"), ipNet(t, "9.0.0.5/24"), ipNet(t, "10.1.0.5/24"), ipNet(t, "8.0.0.5/32"),
		ipNet(t, "2600::5/64"), ipNet(t, "fe80::5/64"), &net.IPAddr{IP: net.IPv4(1, 2, 3, 4)},
	})
}

func TestPolicy(t *testing.T) {
	for _, tt := range []struct {
		name, allow, deny string
		server            string
		want              reason
	}{
		{"public", "", "", "9.9.9.9:53", permitted},
		{"public IPv6", "", "", "[2620:fe::9]:53", permitted},
		{"another port", "", "", "9.9.9.9:54", reasonPort},
		{"a port that is named", "", "", "9.9.9.9:5353", permitted},
		{"mapped", "", "", "[::ffff:9.9.9.9]:53", permitted},

		{"unspecified", "0.0.0.0/0", "", "0.0.0.0:53", reasonUnusable},
		{"unspecified IPv6", "::/0", "", "[::]:53", reasonUnusable},
		{"multicast", "0.0.0.0/0", "", "224.0.0.251:53", reasonUnusable},
		{"multicast IPv6", "::/0", "", "[ff02::fb]:53", reasonUnusable},
		{"link-local", "169.254.0.0/16", "", "169.254.169.253:53", reasonUnusable},
		{"link-local IPv6", "fe80::/10", "", "[fe80::1]:53", reasonUnusable},
		{"broadcast", "255.255.255.255/32", "", "255.255.255.255:53", reasonUnusable},
		{"mapped link-local", "0.0.0.0/0", "", "[::ffff:169.254.169.254]:53", reasonUnusable},
		{"resolver address", "fd00::254/128", "", "[fd00::254]:53", reasonResolver},

		{"loopback", "127.0.0.0/8", "", "127.0.0.1:53", reasonNode},
		{"all of loopback", "127.0.0.0/8", "", "127.9.9.9:53", reasonNode},
		{"loopback IPv6", "::/0", "", "[::1]:53", reasonNode},
		{"loopback that is allowed", "127.0.0.1/32", "", "127.0.0.1:53", permitted},
		{"mapped loopback", "0.0.0.0/0", "", "[::ffff:127.0.0.1]:53", reasonNode},
		{"the node", "", "", "9.0.0.5:53", reasonNode},
		{"the node within a prefix", "9.0.0.0/24", "", "9.0.0.5:53", reasonNode},
		{"the node itself", "9.0.0.5/32", "", "9.0.0.5:53", permitted},
		{"mapped node", "9.0.0.0/24", "", "[::ffff:9.0.0.5]:53", reasonNode},
		{"the node, without a network", "", "", "8.0.0.5:53", reasonNode},
		{"beside that", "", "", "8.0.0.6:53", permitted},
		{"the node, IPv6", "", "", "[2600::5]:53", reasonNode},

		{"a public neighbour", "", "", "9.0.0.6:53", reasonConnected},
		{"a public neighbour, IPv6", "", "", "[2600::6]:53", reasonConnected},
		{"a neighbour within a wider prefix", "9.0.0.0/8", "", "9.0.0.6:53", reasonConnected},
		{"the network of the neighbour", "9.0.0.0/24", "", "9.0.0.6:53", permitted},
		{"a part of it", "9.0.0.6/31", "", "9.0.0.6:53", permitted},
		{"management", "10.0.0.0/8", "", "10.1.0.6:53", reasonConnected},
		{"beside management", "10.0.0.0/8", "", "10.2.0.6:53", permitted},

		{"private", "", "", "10.2.0.53:53", reasonSpecial},
		{"private 172", "", "", "172.31.0.1:53", reasonSpecial},
		{"private 192", "", "", "192.168.0.1:53", reasonSpecial},
		{"beside private", "", "", "172.32.0.1:53", permitted},
		{"shared", "", "", "100.64.0.1:53", reasonSpecial},
		{"unique local", "", "", "[fd00::1]:53", reasonSpecial},
		{"documentation", "", "", "192.0.2.1:53", reasonSpecial},
		{"benchmark", "", "", "198.19.0.1:53", reasonSpecial},
		{"reserved", "", "", "240.0.0.1:53", reasonSpecial},
		{"mapped private", "", "", "[::ffff:10.2.0.53]:53", reasonSpecial},
		{"6to4", "", "", "[2002:a02:35::1]:53", reasonSpecial},
		{"private that is allowed", "10.2.0.0/16", "", "10.2.0.53:53", permitted},
		{"mapped private that is allowed", "10.2.0.0/16", "", "[::ffff:10.2.0.53]:53", permitted},
		{"private beside what is allowed", "10.2.0.0/16", "", "10.3.0.53:53", reasonSpecial},
		{"NAT64", "", "", "[64:ff9b::909:909]:53", reasonSpecial},
		{"NAT64 that is allowed", "64:ff9b::/96", "", "[64:ff9b::909:909]:53", permitted},
		{"NAT64 of a private one", "64:ff9b::/96", "", "[64:ff9b::a02:35]:53", reasonSpecial},
		{"NAT64 of the node", "64:ff9b::/96 9.0.0.0/24", "", "[64:ff9b::900:5]:53", reasonNode},

		{"denied", "", "9.9.9.0/24", "9.9.9.9:53", reasonDenied},
		{"denied and allowed", "9.9.9.9/32", "9.9.9.0/24", "9.9.9.9:53", reasonDenied},
		{"mapped denied", "", "9.9.9.0/24", "[::ffff:9.9.9.9]:53", reasonDenied},
		{"beside what is denied", "", "9.9.8.0/24", "9.9.9.9:53", permitted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &policy{ports: []uint16{5353}, resolvers: api.DefaultResolvers()}
			for _, word := range words(tt.allow) {
				p.allow = append(p.allow, netip.MustParsePrefix(word))
			}
			for _, word := range words(tt.deny) {
				p.deny = append(p.deny, netip.MustParsePrefix(word))
			}
			server := netip.MustParseAddrPort(tt.server)
			if got := p.refuses(server, testNode(t)); got != tt.want {
				t.Errorf("%s: %q, want %q", server, got, tt.want)
			}
			if p.refuses(server, nil) == permitted {
				t.Errorf("%s is permitted while the node is not known", server)
			}
		})
	}
}

// Each reason has an explanation.
func TestReasons(t *testing.T) {
	for _, r := range reasons {
		if explanations[r] == "" {
			t.Errorf("%s has none", r)
		}
	}
}
