// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"net/netip"
	"testing"

	"github.com/puntdns/puntdns/internal/ovn"
)

// twoTenants is two tenants whose addresses and names overlap, and every kind of
// port. "blue" has IPAM and a domain from DHCP, "red" one of the switch, "bare"
// none.
var twoTenants = []string{
	`ls-add blue -- set Logical_Switch blue other_config:subnet=10.0.0.0/24 other_config:exclude_ips=10.0.0.1..10.0.0.9`,
	`ls-add red -- set Logical_Switch red external_ids:dns_domain=ids.test other_config:dns_domain=Red.Test`,
	`ls-add bare`,
	`create DHCP_Options cidr=10.0.0.0/24 options:domain_name="\"blue.test\""`,
	`lsp-add blue b1 -- lsp-set-addresses b1 02:00:00:00:00:01~10.0.0.4~aef0::4 -- lsp-set-options b1 hostname=VM1`,
	`lsp-add blue b2 -- lsp-set-addresses b2 dynamic -- lsp-set-options b2 hostname=vm2`,
	`lsp-add blue b3 -- lsp-set-addresses b3 unknown -- lsp-set-options b3 hostname=vm3`,
	`lsp-add blue b4 -- lsp-set-addresses b4 02:00:00:00:00:04~10.0.0.5 -- lsp-set-options b4 hostname=off -- lsp-set-enabled b4 disabled`,
	`lsp-add blue c1 b1 42 -- lsp-set-addresses c1 02:00:00:00:00:05~10.0.0.6 -- lsp-set-options c1 hostname=box`,
	`lsp-add blue v1 -- lsp-set-type v1 virtual -- lsp-set-addresses v1 02:00:00:00:00:06~10.0.0.7 -- lsp-set-options v1 hostname=vip virtual-ip=10.0.0.7 virtual-parents=b1`,
	`lsp-add blue l1 -- lsp-set-type l1 localport -- lsp-set-addresses l1 02:00:00:00:00:07~10.0.0.2 -- lsp-set-options l1 hostname=local`,
	`lsp-add blue n1 -- lsp-set-type n1 localnet -- lsp-set-addresses n1 unknown -- lsp-set-options n1 network_name=phys`,
	`lr-add r -- lrp-add r rblue 02:00:00:00:00:08 10.0.0.1/24`,
	`lsp-add blue blue-r -- lsp-set-type blue-r router -- lsp-set-addresses blue-r 02:00:00:00:00:08~10.0.0.1 -- lsp-set-options blue-r router-port=rblue hostname=gw`,
	`lsp-add red r1 -- lsp-set-addresses r1 02:00:00:00:00:01~10.0.0.40 -- lsp-set-options r1 hostname=vm1`,
	`lsp-add red r2 -- lsp-set-addresses r2 02:00:00:00:00:02~10.0.0.39~10.0.0.41 -- lsp-set-options r2 hostname=vm1`,
	`lsp-add bare d1 -- lsp-set-addresses d1 02:00:00:00:00:0d~10.0.0.3 -- set Logical_Switch_Port d1 external_ids:"neutron:device_owner"="network:dhcp"`,
	`lsp-add red r3 -- lsp-set-addresses r3 02:00:00:00:00:0e~10.0.0.43 -- set Logical_Switch_Port r3 external_ids:"neutron:device_owner"="compute:nova"`,
	`lsp-add red f1 -- lsp-set-addresses f1 02:00:00:00:00:0f~10.0.0.44 -- lsp-set-options f1 is-nf=true nf-linked-port=f2 hostname=function`,
	`lsp-add red f2 -- lsp-set-addresses f2 unknown -- lsp-set-options f2 is-nf=false`,
	`lsp-add bare p1 -- lsp-set-addresses p1 02:00:00:00:00:01~10.0.0.4 -- lsp-set-options p1 hostname=vm1`,
	`--id=@d create DNS records={vm1.ovn.org="10.0.0.4~aef0::4",VM2.OVN.org="10.0.0.6,20.0.0.4","4.0.0.10.in-addr.arpa"="vm1.ovn.org"} external_ids:dns-txt/txt.ovn.org=blue -- set Logical_Switch blue dns_records=@d`,
	`--id=@d create DNS records={vm1.ovn.org="10.0.0.40",vm1="10.0.0.42"} -- set Logical_Switch red dns_records=@d`,
}

func (r *rig) build(topology []string) {
	r.t.Helper()
	for _, command := range twoTenants {
		r.nbctl(command)
	}
	options := r.nbctl("--bare --columns=_uuid find DHCP_Options")
	r.nbctl("lsp-set-dhcpv4-options b1 " + options)
	r.nbctl("lsp-set-dhcpv4-options b2 " + options)
	r.nbctl("--wait=sb sync")
	r.sbctl("chassis-add hv1 geneve 127.0.0.1 -- chassis-add hv2 geneve 127.0.0.2")
	for _, port := range []string{"b1", "b2", "c1", "p1", "d1", "f1"} {
		r.sbctl("lsp-bind " + port + " hv1")
	}
	r.sbctl("lsp-bind r1 hv2")
}

// What every way of reading gives, and what only one does.
const (
	always = `
		blue vm1.ovn.org. = 10.0.0.4 aef0::4
		blue vm2.ovn.org. = 10.0.0.6 20.0.0.4
		blue 4.0.0.10.in-addr.arpa. = vm1.ovn.org.
		blue 4.0.0.20.in-addr.arpa. = vm2.ovn.org.
		blue vm1. = 10.0.0.4 aef0::4
		blue vm3. =
		blue box. = 10.0.0.6
		blue vip. = 10.0.0.7
		blue local. =
		blue gw. =
		blue vm9. =
		red vm1.ovn.org. = 10.0.0.40
		red vm1. = 10.0.0.42
		red 4.0.0.10.in-addr.arpa. =
		red 42.0.0.10.in-addr.arpa. = vm1.
		red 40.0.0.10.in-addr.arpa. = vm1.ovn.org.
		bare vm1. = 10.0.0.4
		bare vm1.ovn.org. =
		bare vm1.corefile.test./corefile.test. = 10.0.0.4
		bare vm1.corefile.test. =
		bare 4.0.0.10.in-addr.arpa. = vm1.
		bare 4.0.0.10.in-addr.arpa./corefile.test. = vm1.corefile.test.`
	withNorthbound = `
		blue vm2. = 10.0.0.10
		blue vm2.blue.test. = 10.0.0.10
		blue vm1.blue.test. = 10.0.0.4 aef0::4
		blue 10.0.0.10.in-addr.arpa. = vm2.blue.test.
		blue vm1.corefile.test./corefile.test. =
		blue box.corefile.test./corefile.test. = 10.0.0.6
		blue off. =
		red vm1.red.test. = 10.0.0.39 10.0.0.40 10.0.0.41
		red vm1.ids.test. =
		red 39.0.0.10.in-addr.arpa. = vm1.red.test.
		red 39.0.0.10.in-addr.arpa./corefile.test. = vm1.red.test.`
	withSouthboundAlone = `
		blue vm2. =
		blue off. = 10.0.0.5
		red vm1.corefile.test./corefile.test. = 10.0.0.39 10.0.0.40 10.0.0.41
		red 39.0.0.10.in-addr.arpa. =
		red 39.0.0.10.in-addr.arpa./corefile.test. = vm1.corefile.test.`
)

func TestNorthd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startNorthd()
	r.build(twoTenants)

	tests := []struct {
		name   string
		sb, nb bool
		local  bool
		want   string
		guests string
	}{
		{"southbound", true, false, false, always + withSouthboundAlone, "b1 b2 c1 p1"},
		{"both", true, true, false, always + withNorthbound, "b1 b2 c1 p1"},
		{"northbound", false, true, false, always + withNorthbound, "b1 c1 p1"},
		{"southbound local", true, false, true, always + withSouthboundAlone, "b1 b2 c1 p1"},
		{"both local", true, true, true, always + withNorthbound, "b1 b2 c1 p1"},
		{"northbound local", false, true, true, always + withNorthbound, "b1 c1 p1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.config(tt.sb, tt.nb)
			if !tt.local {
				c.Monitor = All
			}
			s := r.acquire(c)
			s.nameChassis("hv1")
			defer s.Request(Requests{Network: ovn.SwitchRef{Name: "red"}})()
			s.as("br").setPorts([]string{"b1", "c1", "p1", "f1"}, 0)
			snapshot := eventually(t, s, lookups(tt.want))
			eventually(t, s, func(s *ovn.Snapshot) string {
				if got := guests(s); got != tt.guests {
					return "guests: " + got
				}
				return ""
			})
			if got := networks(snapshot); got != "bare blue red" {
				t.Errorf("networks: got %s", got)
			}
			blue := snapshot.NetworkByName("blue")
			if got, want := blue.ID, networkID(t, r.nbctl("get Logical_Switch blue _uuid")); got != want {
				t.Errorf("network: got %s, want %s", got, want)
			}
			for _, a := range []string{"169.254.169.254", "fe80::a9fe:a9fe"} {
				if a := netip.MustParseAddr(a); !blue.Owns(a) || !snapshot.NetworkByName("bare").Owns(a) || snapshot.NetworkByName("red").Owns(a) {
					t.Errorf("%s is to be that of a localport or a DHCP agent, where there is one", a)
				}
			}
			for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.4"} {
				if !blue.Owns(mustAddr(a)) {
					t.Errorf("nobody has %s", a)
				}
			}
			if blue.Owns(mustAddr("10.0.0.254")) {
				t.Error("somebody has 10.0.0.254")
			}
			p := snapshot.PortByName("c1")
			if p == nil || !p.IsContainer() || p.Parent != "b1" || p.Tag != 42 || p.Network != blue.ID || p.SwitchName != "blue" {
				t.Fatalf("container: %+v", p)
			}
			if snapshot.PortByName("l1") != nil || snapshot.PortByName("blue-r") != nil || snapshot.PortByName("n1") != nil {
				t.Error("a localport, router or localnet port counts as a guest")
			}
			if snapshot.PortByName("f1") != nil || snapshot.PortByName("f2") == nil {
				t.Error("a port of a network function counts as a guest, or one that is none does not")
			}
			if f := snapshot.NetworkByName("red").FunctionPorts(); len(f) != 1 || f[0].Name != "f1" || (f[0].Key != 0) != tt.sb || len(blue.FunctionPorts()) != 0 {
				t.Errorf("ports of network functions: %+v", f)
			}
			table, cookies, ok := snapshot.DNSStage()
			if ok != tt.sb {
				t.Errorf("stage: %v", ok)
			}
			if !tt.sb {
				return
			}
			if want := r.stage(); table != want || len(cookies) == 0 {
				t.Errorf("stage: got %d %x, want %d", table, cookies, want)
			}
			if got := snapshot.Guest(p.DatapathKey, p.Key); got != p {
				t.Errorf("guest by keys: %+v", got)
			}
			if got := snapshot.Guest(p.DatapathKey, 0); got != nil {
				t.Errorf("guest by no key: %+v", got)
			}
		})
	}
}
