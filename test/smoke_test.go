// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

func TestSmoke(t *testing.T) {
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.AddRouter("r", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24", "fd00:10::1/64"}})
	l.AddDNS(map[string]string{"db.internal": "10.0.0.9"}, "red")
	vm := l.Node.AddGuest(lab.Guest{Name: "red-vm1", Switch: "red", MAC: "02:00:00:00:00:11",
		Addrs: lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"), Gateway4: lab.Addr("10.0.0.1"), Gateway6: lab.Addr("fd00:10::1"), PortSecurity: true, Hostname: "vm1"})
	s := serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    ovnhosts {
        southbound $SB
    }
    ready `+readyAddr+` {
        monitor continuously
    }
    prometheus `+metricsAddr+`
    log
    errors
}`)
	t.Log(vm.Dig("db.internal", "@169.254.169.254").Out)
	t.Log(vm.Dig("vm1", "@fd00::254").Out)
	t.Log(l.Node.OFCTL("dump-flows", "br-int", "cookie=0x70646e0000000000/0xffffff0000000000"))
	t.Log(s.Log())
}
