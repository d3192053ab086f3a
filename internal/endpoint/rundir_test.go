// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"testing"

	"github.com/puntdns/puntdns/internal/endpoint"
)

func TestRunDir(t *testing.T) {
	for _, tt := range []struct{ name, ovs, ovn, wantOVS, wantOVN string }{
		{"unset or empty", "", "", "unix:/var/run/openvswitch/db.sock", "unix:/var/run/ovn/db.sock"},
		{"MicroOVN", "/var/snap/microovn/common/run/switch", "/var/snap/microovn/common/run/ovn/",
			"unix:/var/snap/microovn/common/run/switch/db.sock", "unix:/var/snap/microovn/common/run/ovn/db.sock"},
		{"one of them", "/run/ovs", "", "unix:/run/ovs/db.sock", "unix:/var/run/ovn/db.sock"},
		{"relative, to the working directory", "run", "./ovn", "unix:run/db.sock", "unix:ovn/db.sock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OVS_RUNDIR", tt.ovs)
			t.Setenv("OVN_RUNDIR", tt.ovn)
			if got := endpoint.OVSSocket("db.sock").String(); got != tt.wantOVS {
				t.Errorf("%s, want %s", got, tt.wantOVS)
			}
			if got := endpoint.OVNSocket("db.sock").String(); got != tt.wantOVN {
				t.Errorf("%s, want %s", got, tt.wantOVN)
			}
		})
	}
}
