// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"strings"
	"testing"
)

// twoNetworks is red with a guest of this chassis, and blue with one of another.
const twoNetworks = `
	sb insert Chassis c1 name=hv1
	sb insert Chassis c2 name=hv2
	sb insert Datapath_Binding red tunnel_key=1 external_ids=name:red,logical-switch:@red
	sb insert Datapath_Binding blue tunnel_key=2 external_ids=name:blue,logical-switch:@blue
	sb insert Port_Binding r1 logical_port=r1 datapath=@red tunnel_key=1 chassis=@c1 options=hostname:vm1 mac=02:00:00:00:00:01~10.0.0.1
	sb insert Port_Binding b1 logical_port=b1 datapath=@blue tunnel_key=1 chassis=@c2 options=hostname:vm1 mac=02:00:00:00:00:01~10.0.0.9
	sb insert DNS d1 records=db.test:10.0.0.20 datapaths=@red
	sb insert Logical_Flow f1 pipeline=ingress table_id=20
`

// routerRows join red and blue in Southbound.
const routerRows = `
	sb insert Datapath_Binding r tunnel_key=9 external_ids=name:r,logical-router:@r
	sb insert Port_Binding red-r logical_port=red-r datapath=@red tunnel_key=8 type=patch options=peer:r-red
	sb insert Port_Binding r-red logical_port=r-red datapath=@r tunnel_key=1 type=patch options=peer:red-r
	sb insert Port_Binding blue-r logical_port=blue-r datapath=@blue tunnel_key=8 type=patch options=peer:r-blue
	sb insert Port_Binding r-blue logical_port=r-blue datapath=@r tunnel_key=2 type=patch options=peer:blue-r
`

// northboundRed and northboundBlue are the switches of twoNetworks.
const (
	northboundRed = `
	nb insert Logical_Switch red name=red ports=@lsp-r1 other_config=dns_domain:red.test
	nb insert Logical_Switch_Port lsp-r1 name=r1 options=hostname:vm1 addresses=02:00:00:00:00:01~10.0.0.1 dhcpv4_options=@dhcp
`
	northboundBlue = `
	nb insert Logical_Switch blue name=blue ports=@lsp-b1
	nb insert Logical_Switch_Port lsp-b1 name=b1 options=hostname:vm1 addresses=02:00:00:00:00:01~10.0.0.9
`
	northboundRows = northboundRed + northboundBlue
)

// Databases that have sent some of their rows: a snapshot has of each network all or nothing, and
// says that it is settled only when every guest here is in it.
func TestPartialRows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		monitor Monitor
		script  string
	}{
		{"nothing sent", Local, `
			chassis hv1
			has networks= guests= settled=false
			sb breaks`},
		{"the chassis is not known", All, `
			chassis hv3
			` + twoNetworks + `
			sb tells
			has networks=blue,red guests= settled=false
			looks up red db.test. = 10.0.0.20`},
		{"the chassis comes last", All, twoNetworks + `
			chassis hv3
			sb tells
			has guests= settled=false
			sb insert Chassis c3 name=hv3
			sb tells
			has guests= settled=true
			sb modify Port_Binding r1 chassis=@c3
			sb tells
			has guests=r1 settled=true`},
		{"a guest is back before Northbound has given up its switch", Local, twoNetworks + northboundRows + `
			nb insert DHCP_Options dhcp options=domain_name:red.test
			chassis hv1
			sb tells
			nb tells
			has networks=red guests=r1
			looks up red vm1.red.test. = 10.0.0.1
			nb holds
			sb modify Port_Binding r1 chassis=@c2
			sb modify Port_Binding b1 chassis=@c1
			sb tells
			sb delete Port_Binding r1
			sb delete Datapath_Binding red
			sb delete DNS d1
			sb tells
			sb insert Datapath_Binding red tunnel_key=1 external_ids=name:red,logical-switch:@red
			sb insert Port_Binding r1 logical_port=r1 datapath=@red tunnel_key=1 chassis=@c1 options=hostname:vm1 mac=02:00:00:00:00:01~10.0.0.1
			sb tells
			has guests=
			nb acknowledges
			has guests=b1,r1
			looks up red vm1.red.test. = 10.0.0.1`},
		{"conditions are not acknowledged", Local, twoNetworks + `
			chassis hv1
			sb holds
			sb tells
			has networks= guests= settled=false
			sb acknowledges
			has networks=red guests=r1 settled=true
			looks up red vm1. = 10.0.0.1`},
		{"a port before its network and a DNS row before both", All, `
			chassis hv1
			sb insert DNS d1 records=db.test:10.0.0.20 datapaths=@red
			sb tells
			has networks= guests=
			sb insert Chassis c1 name=hv1
			sb insert Port_Binding r1 logical_port=r1 datapath=@red tunnel_key=1 chassis=@c1 options=hostname:vm1 mac=02:00:00:00:00:01~10.0.0.1
			sb tells
			has networks= guests= settled=true
			sb insert Datapath_Binding red tunnel_key=1 external_ids=name:red,logical-switch:@red
			sb tells
			has networks=red guests=r1
			looks up red db.test. = 10.0.0.20`},
		{"a network without a row of its own", Local, `
			chassis hv1
			sb insert Chassis c1 name=hv1
			sb insert Port_Binding r1 logical_port=r1 datapath=@red tunnel_key=1 chassis=@c1
			sb tells
			has networks= guests=
			sb insert Datapath_Binding red tunnel_key=1 external_ids=name:red
			sb tells
			has networks= guests= # of which switch is not told
			sb modify Datapath_Binding red external_ids=logical-switch:@red
			sb tells
			has networks=red guests=r1`},
		{"Northbound has sent nothing", All, twoNetworks + northboundRows + `
			chassis hv1
			sb tells
			has networks= guests= settled=false
			nb insert DHCP_Options dhcp options=domain_name:dhcp.test
			nb tells
			has networks=blue,red guests=r1 settled=true
			looks up red vm1.dhcp.test. = 10.0.0.1`},
		{"Northbound has sent nothing, local", Local, twoNetworks + northboundRows + `
			chassis hv1
			sb tells
			has networks= guests= settled=false
			nb insert DHCP_Options dhcp options=domain_name:dhcp.test
			nb tells
			has networks=red guests=r1 settled=true
			looks up red vm1.dhcp.test. = 10.0.0.1
			looks up red vm1.red.test. =`},
		{"Northbound acknowledges nothing", Local, twoNetworks + northboundRows + `
			chassis hv1
			nb holds
			nb tells
			sb tells
			has networks= guests= settled=false
			nb acknowledges
			has networks=red guests=r1 settled=true`},
		{"Northbound alone", Local, northboundRed + `
			has settled=false
			plug r1
			nb holds
			nb tells
			has networks= guests= settled=false
			nb acknowledges
			has networks=red guests=r1 settled=true
			` + northboundBlue + `
			plug r1 b1
			nb tells
			has networks=blue,red guests=b1,r1 settled=true`},
		{"a network that is joined is not sent", Local, twoNetworks + routerRows + `
			join
			chassis hv1
			sb holds
			sb tells
			has networks= guests= settled=false
			sb acknowledges
			has networks=blue,red guests=r1 settled=true scope:red=red,blue`},
		{"the other end of a router is not sent", All, `
			join
			chassis hv1
			` + twoNetworks + `
			sb insert Port_Binding red-r logical_port=red-r datapath=@red tunnel_key=8 type=patch options=peer:r-red
			sb tells
			has networks=blue,red guests=r1 scope:red=red
			` + routerRows + `
			sb tells
			has guests=r1 scope:red=red,blue scope:blue=blue,red
			sb insert Port_Binding phys logical_port=phys datapath=@blue tunnel_key=7 type=localnet
			sb tells
			has guests=r1 scope:red=red scope:blue=blue
			sb delete Port_Binding phys
			sb delete Port_Binding r-blue
			sb tells
			has scope:red=red scope:blue=blue`},
		{"a provider's network behind the router", Local, twoNetworks + routerRows + `
			sb insert Port_Binding phys logical_port=phys datapath=@blue tunnel_key=7 type=localnet
			join
			chassis hv1
			sb tells
			has networks=red guests=r1 settled=true scope:red=red
			sb delete Port_Binding phys
			sb tells
			has networks=blue,red guests=r1 scope:red=red,blue`},
		{"contents that break off", All, twoNetworks + `
			chassis hv1
			sb tells
			has networks=blue,red guests=r1
			sb breaks
			has networks=blue,red guests=r1
			sb insert Chassis c1 name=hv1
			sb insert Datapath_Binding green tunnel_key=3 external_ids=name:green,logical-switch:@green
			sb tells half
			has networks=blue,red guests=r1 # nothing of a half counts
			looks up red db.test. = 10.0.0.20
			sb insert Chassis c1 name=hv1
			sb insert Datapath_Binding red tunnel_key=1 external_ids=name:red,logical-switch:@red
			sb insert Logical_Flow f1 pipeline=ingress table_id=20
			sb tells
			has networks=red guests= settled=true # what was told in the half is void
			looks up red db.test. =`},
		{"Northbound breaks off, and Southbound goes on", All, twoNetworks + northboundRows + `
			chassis hv1
			sb tells
			nb tells
			has networks=blue,red guests=r1
			nb breaks
			nb insert Logical_Switch red name=red
			nb tells half
			sb modify Port_Binding r1 chassis=@c2
			sb modify Port_Binding b1 chassis=@c1
			sb tells
			has networks=blue,red guests=b1
			` + northboundRows + `
			nb tells
			sb modify Port_Binding r1 chassis=@c1
			sb tells
			has networks=blue,red guests=b1,r1 settled=true`},
		{"Northbound breaks off before it was whole", All, twoNetworks + northboundRows + `
			chassis hv1
			sb tells
			nb tells half
			has networks= guests=
			` + northboundRows + `
			nb tells
			has networks=blue,red guests=r1 settled=true`},
		{"Southbound breaks off, and Northbound goes on", All, twoNetworks + northboundRows + `
			chassis hv1
			sb tells
			nb tells
			has networks=blue,red guests=r1
			sb breaks
			sb insert Chassis c1 name=hv1
			sb tells half
			nb modify Logical_Switch_Port lsp-r1 options=hostname:vm1,hostname:vm9
			nb tells
			has networks=blue,red guests=r1
			` + twoNetworks + `
			sb tells
			has networks=blue,red guests=r1 settled=true`},
		{"the same contents again", All, twoNetworks + `
			chassis hv1
			sb tells
			has networks=blue,red guests=r1
			sb breaks
			` + twoNetworks + `
			sb tells
			has networks=blue,red guests=r1 settled=true
			looks up red db.test. = 10.0.0.20
			sb modify DNS d1 records=db.test:10.0.0.21
			sb tells
			looks up red db.test. = 10.0.0.21
			sb modify DNS d1 records=db.test:10.0.0.21
			sb tells
			looks up red db.test. =`},
		{"a column that is not sent again is empty", All, twoNetworks + `
			chassis hv1
			sb tells
			looks up red vm1. = 10.0.0.1
			sb breaks
			` + strings.Replace(strings.Replace(twoNetworks, "options=hostname:vm1", "", 1), "records=db.test:10.0.0.20", "", 1) + `
			sb tells
			has networks=blue,red guests=r1
			looks up red vm1. =
			looks up red db.test. =
			looks up blue vm1. = 10.0.0.9`},
		{"a name and a tunnel key pass to another network", All, twoNetworks + `
			chassis hv1
			sb tells
			has networks=blue,red guests=r1
			sb modify Datapath_Binding red tunnel_key=2 external_ids=name:blue
			sb modify Datapath_Binding blue tunnel_key=1 external_ids=name:red
			sb modify Port_Binding r1 datapath=@blue
			sb tells
			has networks=blue,red guests=r1
			looks up red vm1. = 10.0.0.1 10.0.0.9`},
		{"the local chassis goes with its bindings", Local, twoNetworks + `
			chassis hv1
			plug r1
			sb tells
			has guests=r1 kept=0
			sb delete Chassis c1
			sb modify Port_Binding r1 chassis=
			sb tells
			has networks=red guests=r1 kept=1
			looks up red db.test. = 10.0.0.20
			sb insert Chassis c3 name=hv1
			sb modify Port_Binding r1 chassis=@c3
			sb tells
			has guests=r1 kept=0
			sb modify Port_Binding r1 chassis=
			sb tells
			has guests= kept=0 # its chassis stands`},
		{"the row of the local chassis is replaced", All, twoNetworks + `
			chassis hv1
			sb tells
			has guests=r1
			sb insert Chassis c3 name=hv1
			sb delete Chassis c1
			sb modify Port_Binding r1 chassis=@c3
			sb tells
			has guests=r1 settled=true
			sb modify Chassis c2 name=hv9
			sb modify Chassis c3 name=hv2
			sb tells
			has guests=
			chassis hv2
			has guests=r1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runScript(t, tt.monitor, tt.script)
		})
	}
}
