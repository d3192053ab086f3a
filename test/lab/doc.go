// SPDX-License-Identifier: Apache-2.0

// Package lab runs a real OVN in a folder and in network namespaces of its own,
// with guests to ask from.
//
// A lab needs root and the daemons' binaries ([Need] says so), no running system
// daemon and no kernel module: the bridges use the userspace datapath, unless
// [DatapathEnv] asks for the kernel's. Nothing
// of a lab outlives its process, however that ends: the namespaces are
// anonymous, every child has a parent-death signal, and a guard process ends the
// rest and removes the folder. Labs run side by side, each with its own br-int
// and its own 127.0.0.1.
//
//	l := lab.New(t, lab.Options{})             // closed by t.Cleanup
//	l.AddSwitch("red")
//	l.AddRouter("r", lab.RouterPort{Switch: "red", MAC: "02:00:00:00:01:01",
//		Networks: []string{"10.0.0.1/24", "fd00:10::1/64"}})
//	l.AddDNS(map[string]string{"db.internal": "10.0.0.9"}, "red")
//	vm := l.Node.AddGuest(lab.Guest{Name: "red-vm1", Switch: "red", MAC: "02:00:00:00:00:11",
//		Addrs:    lab.Prefixes("10.0.0.11/24", "fd00:10::11/64"),
//		Gateway4: lab.Addr("10.0.0.1"), PortSecurity: true, Hostname: "vm1"})
//	up := l.Upstream("example.org. 60 IN A 192.0.2.1")
//	p := l.Node.Start("puntdns", nil, "bin/puntdns", "-conf", l.WriteFile("Corefile", text))
//	r := vm.Dig("db.internal", "@169.254.169.254")
//
// The children are started by a goroutine that never ends; packages that use
// goleak ignore it with
//
//	goleak.IgnoreTopFunction("github.com/puntdns/puntdns/test/lab.spawnLoop")
//
// Failures of the lab itself end the test by Fatalf, so its methods belong on
// the test's goroutine; those that return an error may run on any.
package lab
