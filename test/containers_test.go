// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/ofpunt/frame"
	"github.com/puntdns/puntdns/test/lab"
)

// A container in a VM is a port of its own, on a switch that may be another
// tenant's. Its frames carry its tag, and so must the answer.
func TestContainers(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	for _, sw := range []string{"red", "blue", "trunk"} {
		l.AddSwitch(sw)
		l.NBCTL("acl-add", sw, "from-lport", "1001", "ip", "allow-related",
			"--", "acl-add", sw, "to-lport", "1001", "ip", "allow-related")
		l.AddDNS(map[string]string{"db.internal": map[string]string{
			"red": "10.0.0.21", "blue": "10.0.0.22", "trunk": "10.0.0.23",
		}[sw]}, sw)
	}
	l.NBCTL("set", "Logical_Switch", "trunk", "other_config:vlan-passthru=true")
	const mac, containerMAC = "02:00:00:00:00:11", "02:00:00:00:00:77"
	const tag = 42
	vm := l.Node.AddGuest(lab.Guest{
		Name: "red-vm", Switch: "red", MAC: mac, Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"), PortSecurity: true,
	})
	trunk := l.Node.AddGuest(lab.Guest{
		Name: "trunk-vm", Switch: "trunk", MAC: mac, Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"),
	})
	l.NBCTL("lsp-add", "blue", "blue-ctr", "red-vm", "42",
		"--", "lsp-set-addresses", "blue-ctr", containerMAC+" 10.0.0.11 fd00:10::11",
		"--", "lsp-set-port-security", "blue-ctr", containerMAC+" 10.0.0.11 fd00:10::11",
		"--", "lsp-set-options", "blue-ctr", "hostname=ctr")
	l.Sync()
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    metadata
    log . "{/ofpunt/port} {/ofpunt/switch} vlan={/ofpunt/vlan} {name}"
    ovnhosts {
        southbound $SB
    }
    ready `+readyAddr+` {
        monitor continuously
    }
}`)

	tests := []struct {
		name  string
		guest *lab.Guest
		mac   [6]byte
		tag   frame.Tag
		query string
		want  string
		line  string // of the log
	}{
		{"the VM itself", vm, [6]byte{2, 0, 0, 0, 0, 0x11}, frame.Tag{}, "db.internal.", "NOERROR 10.0.0.21", `red-vm red vlan=0 db\.internal\.`},
		{"the container", vm, [6]byte{2, 0, 0, 0, 0, 0x77}, frame.Tag{Tagged: true, VLAN: tag}, "db.internal.", "NOERROR 10.0.0.22", `blue-ctr blue vlan=42 db\.internal\.`},
		{"its own name", vm, [6]byte{2, 0, 0, 0, 0, 0x77}, frame.Tag{Tagged: true, VLAN: tag}, "ctr.", "NOERROR 10.0.0.11", `blue-ctr blue vlan=42 ctr\.`},
		{"is not the VM's", vm, [6]byte{2, 0, 0, 0, 0, 0x11}, frame.Tag{}, "ctr.", "NXDOMAIN", `red-vm red vlan=0 ctr\.`},
		{"a tag that the switch passes through", trunk, [6]byte{2, 0, 0, 0, 0, 0x11}, frame.Tag{Tagged: true, VLAN: 7}, "db.internal.", "NOERROR 10.0.0.23", `trunk-vm trunk vlan=7 db\.internal\.`},
	}
	for _, tt := range tests {
		for _, ends := range [][2]string{{"10.0.0.11:5300", "169.254.169.254:53"}, {"[fd00:10::11]:5300", "[fd00::254]:53"}} {
			t.Run(tt.name+" asks "+ends[1], func(t *testing.T) {
				raw := tt.guest.Raw()
				defer raw.Close()
				q := new(dns.Msg).SetQuestion(tt.query, dns.TypeA)
				payload, err := q.Pack()
				if err != nil {
					t.Fatal(err)
				}
				// The frame to send is the answer to one the other way round.
				turned := frame.UDP{Ends: frame.Ends{
					SrcMAC: [6]byte{2, 0, 0, 0, 1, 1}, DstMAC: tt.mac, Tag: tt.tag,
					Src: netip.MustParseAddrPort(ends[1]), Dst: netip.MustParseAddrPort(ends[0]),
				}}
				f, err := turned.AppendDatagram(nil, payload, true)
				if err != nil {
					t.Fatal(err)
				}
				logged := s.told(tt.line)
				if err := raw.Send(f); err != nil {
					t.Fatal(err)
				}
				var got frame.UDP
				_, err = raw.RecvMatch(within(t, wait), func(f []byte) bool {
					var u frame.UDP
					if u.Decode(f) != nil || u.Src != turned.Src {
						return false
					}
					got = u
					return true
				})
				if err != nil {
					t.Fatalf("%v\n%s", err, s.Log())
				}
				r := new(dns.Msg)
				if err := r.Unpack(got.Payload); err != nil {
					t.Fatal(err)
				}
				if inShort(r) != tt.want {
					t.Errorf("got %s, want %s", inShort(r), tt.want)
				}
				if got.Tag != tt.tag || got.DstMAC != tt.mac || got.Dst != turned.Dst {
					t.Errorf("the answer has tag %+v and goes to %x %v", got.Tag, got.DstMAC, got.Dst)
				}
				l.Eventually("the line of the query", func() error {
					if got := s.told(tt.line); got != logged+1 {
						return fmt.Errorf("%d lines match %s, want %d\n%s", got, tt.line, logged+1, s.Log())
					}
					return nil
				})
			})
		}
	}
	for i, tt := range tests {
		if !tt.tag.Tagged {
			continue // of those the guest's kernel would reset the connection
		}
		for _, ends := range [][2]string{{"10.0.0.11", "169.254.169.254"}, {"fd00:10::11", "fd00::254"}} {
			t.Run(tt.name+" asks "+ends[1]+" by TCP", func(t *testing.T) {
				raw := tt.guest.Raw()
				defer raw.Close()
				mac := net.HardwareAddr(tt.mac[:]).String()
				src, dst := netip.AddrPortFrom(lab.Addr(ends[0]), uint16(5301+i)), netip.AddrPortFrom(lab.Addr(ends[1]), 53)
				if got := byHand(t, raw, mac, tt.tag, src, dst, tt.query); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		}
	}
}
