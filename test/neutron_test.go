// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// Neutron's agent without OVN: names come from upstreams, and who asks is known
// by the local database.
const neutronCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement PLACEMENT
    }
    metadata
    view red {
        expr metadata('ofpunt/switch') == 'net-red'
    }
    hosts {
        192.0.2.1 who.example
        fallthrough
    }
    forward . UPSTREAM
    prometheus ` + metricsAddr + `
    ready ` + readyAddr + ` {
        monitor continuously
    }
    errors
}
. {
    ofpunt br-int
    metadata
    hosts {
        192.0.2.2 who.example
        fallthrough
    }
    forward . UPSTREAM
    log . "{/ofpunt/port} {name}"
}
`

// plainGuest is a guest of a bridge without OVN, on the given network of
// Neutron's.
func plainGuest(l *lab.Lab, name, net string, host, tag int) *lab.Guest {
	g := l.Node.AddGuest(lab.Guest{
		Name: name, MAC: fmt.Sprintf("02:00:00:00:00:%02x", host),
		Addrs:  lab.Prefixes(fmt.Sprintf("10.0.0.%d/24", host), fmt.Sprintf("fd00:10::%d/64", host)),
		Routes: []string{"169.254.169.254 dev eth0", "fd00::254 dev eth0"},
	})
	if tag != 0 {
		l.Node.VSCTL("set", "Port", g.NodePort, fmt.Sprintf("tag=%d", tag), "other_config:net_uuid="+net)
	}
	return g
}

func TestNeutron(t *testing.T) {
	l := lab.New(t, lab.Options{Plain: true})
	// What the agent and its metadata extension have in table 0, and the way on.
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=200,ip,nw_dst=169.254.169.254,actions=drop")
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=resubmit(,60)")
	l.Node.OFCTL("add-flow", lab.Bridge, "table=60,priority=1,actions=NORMAL")
	upstream := l.Upstream("www.example.org. 60 IN A 192.0.2.80")
	red := plainGuest(l, "red-vm", "net-red", 11, 1)
	blue := plainGuest(l, "blue-vm", "net-blue", 12, 2)
	dead := plainGuest(l, "dead-vm", "net-blue", 13, 4095)
	unbound := plainGuest(l, "new-vm", "", 14, 0)
	text := strings.NewReplacer("PLACEMENT", "neutron", "UPSTREAM", upstream.Addr).Replace(neutronCorefile)
	s := serve(t, l, text)

	for _, server := range []string{"@169.254.169.254", "@fd00::254"} {
		for _, tt := range []struct {
			name  string
			guest *lab.Guest
			query string
			want  string
		}{
			{"red, its view", red, "who.example", "NOERROR 192.0.2.1"},
			{"blue, the other", blue, "who.example", "NOERROR 192.0.2.2"},
			{"upstream", blue, "www.example.org", "NOERROR 192.0.2.80"},
			{"dead port", dead, "who.example", "no reply"},
			{"port that is not bound", unbound, "who.example", "no reply"},
		} {
			t.Run(tt.name+" "+server, func(t *testing.T) {
				timeout := "+time=5"
				if tt.want == "no reply" {
					timeout = "+time=1"
				}
				if got := tt.guest.Dig(tt.query, server, timeout).String(); got != tt.want {
					t.Errorf("got %s, want %s\n%s", got, tt.want, l.Node.OFCTL("dump-flows", lab.Bridge))
				}
			})
		}
	}

	t.Run("another MAC is not served", func(t *testing.T) {
		ctx := within(t, wait)
		if _, err := blue.Exec(ctx, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:99"); err != nil {
			t.Fatal(err)
		}
		if got := blue.Dig("who.example", "@169.254.169.254", "+time=1").String(); got != "no reply" {
			t.Error(got)
		}
		if _, err := blue.Exec(ctx, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:0c"); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("bound later", func(t *testing.T) {
		l.Node.VSCTL("set", "Port", unbound.NodePort, "tag=3", "other_config:net_uuid=net-red")
		l.Eventually("answered", func() error {
			if got := unbound.Dig("who.example", "@169.254.169.254", "+time=1").String(); got != "NOERROR 192.0.2.1" {
				return fmt.Errorf("got %s", got)
			}
			return nil
		})
	})

	t.Run("the agent's clean-up", func(t *testing.T) {
		l.Node.OFCTL("del-flows", lab.Bridge, "table=0")
		l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=resubmit(,60)")
		l.Eventually("answered", func() error {
			if got := red.Dig("who.example", "@169.254.169.254", "+time=1").String(); got != "NOERROR 192.0.2.1" {
				return fmt.Errorf("got %s", got)
			}
			return nil
		})
	})

	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if flows := l.Node.OFCTL("dump-flows", lab.Bridge, "cookie=0x70646e0000000000/0xffffff0000000000"); strings.Contains(flows, "cookie=") {
		t.Errorf("flows left:\n%s", flows)
	}
}

// Any bridge, in hijack mode: what nobody answers comes back to the table and
// goes its way.
func TestTable(t *testing.T) {
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "priority=1,actions=NORMAL")
	vm := plainGuest(l, "vm1", "", 11, 0)
	other := plainGuest(l, "vm2", "", 12, 0)
	dns := other.ServeDNS("10.0.0.12:53", "there.example. 60 IN A 192.0.2.9")
	serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        placement table 0 102
        address any
    }
    hosts {
        192.0.2.1 who.example
        fallthrough
    }
    passthrough
    ready `+readyAddr+` {
        monitor continuously
    }
}`)
	if got := vm.Dig("who.example", "@10.0.0.12", "+time=5").String(); got != "NOERROR 192.0.2.1" {
		t.Errorf("local name: %s", got)
	}
	if got := vm.Dig("there.example", "@10.0.0.12", "+time=5").String(); got != "NOERROR 192.0.2.9" {
		t.Errorf("other name: %s", got)
	}
	if n := dns.Count("there.example."); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if n := dns.Count("who.example."); n != 0 {
		t.Errorf("asked %d times for a local name", n)
	}
}
