// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// With scope router the subnets of one tenant share their names, and those of
// another tenant do not, whose addresses are the same.
func TestScopeRouter(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	for _, sw := range []string{"red1", "red2", "blue1"} {
		l.AddSwitch(sw)
		l.NBCTL("acl-add", sw, "from-lport", "1001", "ip", "allow-related",
			"--", "acl-add", sw, "to-lport", "1001", "ip", "allow-related")
	}
	l.AddRouter("red",
		lab.RouterPort{Switch: "red1", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.1.1/24"}},
		lab.RouterPort{Switch: "red2", MAC: "02:00:00:00:02:01", Networks: []string{"10.0.2.1/24"}})
	l.AddRouter("blue", lab.RouterPort{Switch: "blue1", MAC: "02:00:00:00:01:01", Networks: []string{"10.0.1.1/24"}})
	l.AddDNS(map[string]string{"db.internal": "10.0.2.21"}, "red2")
	l.AddDNS(map[string]string{"db.internal": "10.0.1.99", "own.internal": "10.0.1.98"}, "blue1")
	guest := func(sw string) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: sw + "-vm", Switch: sw, MAC: "02:00:00:00:00:11", Addrs: lab.Prefixes("10.0.1.11/24"),
			Routes: []string{"169.254.169.254 dev eth0"}, PortSecurity: true, Hostname: sw,
		})
	}
	red, blue := guest("red1"), guest("blue1")
	serve(t, l, `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
    }
    ovnhosts {
        southbound $SB
        scope router
    }
    ready `+readyAddr+` {
        monitor continuously
    }
}`)
	for _, tt := range []struct {
		name  string
		guest *lab.Guest
		query string
		want  string
	}{
		{"the tenant's other subnet, which has no guest here", red, "db.internal", "NOERROR 10.0.2.21"},
		{"another tenant's same name", blue, "db.internal", "NOERROR 10.0.1.99"},
		{"another tenant's own name", red, "own.internal", "NXDOMAIN"},
		{"another tenant's hostname", blue, "red1", "NXDOMAIN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.guest.Dig(tt.query, "@169.254.169.254", "+time=5").String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}

	t.Run("joined later", func(t *testing.T) {
		l.NBCTL("lrp-add", "red", "red-extra", "02:00:00:00:03:01", "10.0.3.1/24",
			"--", "lsp-add", "blue1", "blue1-red", "--", "lsp-set-type", "blue1-red", "router",
			"--", "lsp-set-addresses", "blue1-red", "router", "--", "lsp-set-options", "blue1-red", "router-port=red-extra")
		l.Eventually("own.internal from red", func() error {
			if got := red.Dig("own.internal", "@169.254.169.254", "+time=5").String(); got != "NOERROR 10.0.1.98" {
				return errorString(got)
			}
			return nil
		})
	})
}

type errorString string

func (e errorString) Error() string { return string(e) }
