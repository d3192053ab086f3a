// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/puntdns/puntdns/test/lab"

// tenant is a switch with a router, names and two guests. What tenants have in
// common stands in build.
type tenant struct {
	name     string
	hostname string   // of the guest that asks
	web      []string // addresses of the guest with hostname web
	records  map[string]string
}

var tenants = []tenant{
	{
		name: "red", hostname: "alpha", web: []string{"10.0.0.12/24", "fd00:10::12/64"},
		records: map[string]string{"db.internal": "10.0.0.20 fd00:10::20"},
	},
	{
		name: "blue", hostname: "beta", web: []string{"10.0.0.13/24", "fd00:10::13/64"},
		records: map[string]string{"db.internal": "10.0.0.30", "vault.internal": "10.0.0.40"},
	},
}

// build creates the tenant and returns the guest that asks and the DNS row.
func (tn tenant) build(l *lab.Lab) (vm *lab.Guest, row string) {
	l.AddSwitch(tn.name)
	l.AddRouter(tn.name+"-router", lab.RouterPort{
		Switch: tn.name, MAC: "02:00:00:00:01:01", Networks: []string{"10.0.0.1/24", "fd00:10::1/64"},
	})
	l.NBCTL(
		"acl-add", tn.name, "from-lport", "1001", "ip", "allow-related",
		"--", "acl-add", tn.name, "to-lport", "1001", "ip", "allow-related")
	row = l.AddDNS(tn.records, tn.name)
	guest := func(name, mac, hostname string, addrs ...string) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: tn.name + "-" + name, Switch: tn.name, MAC: mac, Addrs: lab.Prefixes(addrs...), Hostname: hostname,
			Gateway4: lab.Addr("10.0.0.1"), Gateway6: lab.Addr("fd00:10::1"), PortSecurity: true,
		})
	}
	guest("web", "02:00:00:00:00:12", "web", tn.web...)
	return guest("vm", "02:00:00:00:00:11", tn.hostname, "10.0.0.11/24", "fd00:10::11/64"), row
}
