// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// metadata4 and metadata6 are the addresses of the metadata service of clouds, the
// first being a resolver address by default.
const metadata4, metadata6 = "169.254.169.254", "fe80::a9fe:a9fe"

// metadataService says who it is to all who connect to port 80 of an address.
func metadataService(t *testing.T, h *lab.Host, address string) {
	t.Helper()
	ln, err := h.Listen("tcp", net.JoinHostPort(address, "80"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "metadata") // who has gone wants none
			conn.Close()
		}
	}()
}

// metadata is what a guest is told at port 80 of an address.
func metadata(t *testing.T, g *lab.Guest, address string) string {
	t.Helper()
	conn, err := g.Dial(within(t, 5*time.Second), "tcp", net.JoinHostPort(address, "80"))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	b, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// The localport of ML2/OVN serves metadata at addresses that no row tells, and its
// network's DNS is puntdns's all the same. A port that Neutron has plugged for a
// service of its own is no guest.
func TestMetadataOVN(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	l.AddSwitch("red")
	l.AddDNS(map[string]string{"db.internal": "10.0.0.21"}, "red")
	guest := func(name string, host int, more []string, settings ...string) *lab.Guest {
		return l.Node.AddGuest(lab.Guest{
			Name: name, Switch: "red", MAC: fmt.Sprintf("02:00:00:00:00:%02x", host),
			Addrs:    lab.Prefixes(append([]string{fmt.Sprintf("10.0.0.%d/24", host)}, more...)...),
			Routes:   []string{resolver4 + " dev " + lab.Iface},
			Settings: settings,
		})
	}
	port := guest("red-meta", 2, []string{metadata4 + "/32", metadata6 + "/64"}, "type=localport")
	vm := guest("red-vm", 11, nil)
	agent := guest("red-dhcp", 3, nil, `external_ids:"neutron:device_owner"="network:dhcp"`)
	for _, a := range []string{metadata4, metadata6 + "%" + lab.Iface} {
		metadataService(t, port.Host, a)
	}
	l.Sync()
	s := serve(t, l, pipelineCorefile("address "+metadata4+" "+metadata6, "", ""))
	for _, a := range []string{metadata4, metadata6 + "%" + lab.Iface} {
		if got := metadata(t, vm, a); got != "metadata" {
			t.Errorf("port 80 of %s: %s", a, got)
		}
		expect(t, vm, ofSurvivor, "db.internal", "@"+a, "+time=5")
		if out, err := vm.Exec(within(t, wait), "ip", "neigh", "show", "to", strings.TrimSuffix(a, "%"+lab.Iface)); err != nil || !strings.Contains(out, port.MAC) {
			t.Errorf("the neighbour %s is not the localport: %q, %v", a, out, err)
		}
	}
	expect(t, agent, ofNative, "db.internal", "@"+metadata4, "+noedns", "+time=5")
	s.reaches(1, "coredns_ofpunt_guests")
	s.endWell()
}

// Neutron's DHCP agent has a port that looks like a guest's and may serve metadata,
// on networks that it is on only.
func TestMetadataNeutron(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{Plain: true})
	l.Node.OFCTL("add-flow", lab.Bridge, "table=0,priority=1,actions=NORMAL")
	red, blue := plainGuest(l, "red-vm", "net-red", 11, 1), plainGuest(l, "blue-vm", "net-blue", 12, 2)
	const tap, mac = "tapdhcp", "02:00:00:00:00:02"
	l.Node.VSCTL("add-port", lab.Bridge, tap, "tag=1", "other_config:net_uuid=net-red",
		"--", "set", "Interface", tap, "type=internal", `mac="`+mac+`"`,
		"external_ids:iface-id=dhcp", "external_ids:iface-status=active", `external_ids:attached-mac="`+mac+`"`)
	// The kernel sees what guests send to the switch, and would answer by itself.
	if _, err := l.Node.Exec(within(t, wait), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore"); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"addr add " + metadata4 + "/16 dev " + tap, "addr add 10.0.0.2/24 dev " + tap, "link set " + tap + " up"} {
		if _, err := l.Node.Exec(within(t, wait), append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
			t.Fatal(err)
		}
	}
	metadataService(t, l.Node.Host, metadata4)
	up := l.Upstream()
	text := strings.NewReplacer("PLACEMENT", "neutron", "UPSTREAM", up.Addr).Replace(neutronCorefile)
	s := serve(t, l, text)

	if got := metadata(t, red, metadata4); got != "metadata" {
		t.Errorf("port 80: %s", got)
	}
	for g, want := range map[*lab.Guest]string{red: "NOERROR 192.0.2.1", blue: "NOERROR 192.0.2.2"} {
		for _, resolver := range resolvers {
			expect(t, g, want, "who.example", "@"+resolver, "+time=5")
		}
	}
	for g, want := range map[*lab.Guest]string{red: mac, blue: resolverMAC} {
		if out, err := g.Exec(within(t, wait), "ip", "neigh", "show", "to", metadata4); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: the neighbour is %q, want %s: %v", g.Name, out, want, err)
		}
	}
	s.reaches(2, "coredns_ofpunt_guests")

	// A machine may be plugged in by the switch's own device; then its port is named.
	l.Node.VSCTL("set", "Interface", tap, "external_ids:vm-uuid=00000000-0000-0000-0000-00000000000a")
	l.Eventually("a machine's port", func() error {
		number := l.Node.VSCTL("get", "Interface", tap, "ofport")
		flows := l.Node.OFCTL("--no-names", "dump-flows", lab.Bridge, "table=0,"+ourCookie)
		if !strings.Contains(flows, "in_port="+number+",") || !strings.Contains(flows, "arp_tpa="+metadata4) {
			return fmt.Errorf("no flow for in_port=%s:\n%s", number, flows)
		}
		return nil
	})
	s.endWell()
}
