// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// dhclientScript is what dhclient runs at each step (dhclient-script(8)): it gives
// the interface what the lease says, and writes down the lease and a resolv.conf.
// RFC 3442 has the form of the routes: prefix length, the bytes of the destination
// that it covers, the router.
const dhclientScript = `#!/bin/sh
set -e
case $reason in
PREINIT | PREINIT6) exit 0 ;;
BOUND)
	ip addr add "$new_ip_address/$new_subnet_mask" dev "$interface"
	set -- $new_rfc3442_classless_static_routes
	[ "$*" = "32 169 254 169 254 0 0 0 0" ] && ip route add 169.254.169.254/32 dev "$interface"
	servers=$new_domain_name_servers search=$new_domain_search
	;;
BOUND6)
	ip addr add "$new_ip6_address/64" dev "$interface" nodad
	ip route add fd00::254/128 dev "$interface"
	servers=$new_dhcp6_name_servers search=$new_dhcp6_domain_search
	;;
*) exit 1 ;;
esac
for s in $servers; do echo "nameserver $s"; done >FILE.resolv
echo "search $search" >>FILE.resolv
env | grep ^new_ | sort >FILE.part
mv FILE.part FILE
`

// lease runs Debian's DHCP client in a guest until it has a lease. It returns what
// the client tells of it, and the path of a resolv.conf.
func lease(t *testing.T, l *lab.Lab, g *lab.Guest, family string) (values map[string]string, resolvConf string) {
	t.Helper()
	binary, err := os.ReadFile("/sbin/dhclient")
	if err != nil {
		lab.Lack(t, "isc-dhcp-client is not here: %v", err)
	}
	// By its own path AppArmor would keep the client from this folder.
	program, script := filepath.Join(l.Dir, "dhclient"+family), filepath.Join(l.Dir, g.Name+"-script"+family)
	file := filepath.Join(l.Dir, g.Name+"-lease"+family)
	for path, content := range map[string]string{program: string(binary), script: strings.ReplaceAll(dhclientScript, "FILE", file)} {
		if err := lab.WriteProgram(path, content); err != nil {
			t.Fatal(err)
		}
	}
	p := g.Start("dhclient"+family, nil, program, family, "-1", "-d", "-v", "-sf", script, "-lf", file+".leases", "-pf", file+".pid", lab.Iface)
	l.Eventually("a lease of "+g.Name, func() error {
		_, err := os.Stat(file)
		select {
		case <-p.Done():
			t.Fatalf("dhclient %s of %s has ended without a lease:\n%s", family, g.Name, readFile(t, p.LogFile))
		default:
		}
		return err
	})
	values = map[string]string{}
	for line := range strings.Lines(readFile(t, file)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[strings.TrimPrefix(name, "new_")] = value
	}
	return values, file + ".resolv"
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDHCP has a guest whose address, hostname, domain, resolver address and route
// to it come by OVN's DHCP. What it is told is what it then finds: its C library
// resolves its own hostname and its peer's.
func TestDHCP(t *testing.T) {
	t.Parallel()
	l := lab.New(t, lab.Options{})
	aclSwitch(l, "red", 1)
	v4 := l.NBCTL("create", "DHCP_Options", "cidr=10.0.1.0/24",
		`options={lease_time="3600",server_id="10.0.1.1",server_mac="02:00:00:00:01:01",dns_server="{169.254.169.254}",`+
			`domain_name="\"dhcp.test\"",domain_search_list="\"dhcp.test\"",classless_static_route="{169.254.169.254/32,0.0.0.0}"}`)
	v6 := l.NBCTL("create", "DHCP_Options", `cidr="fd00:1::/64"`,
		// OVN 23.03 makes one label of the search domain, dots and all.
		`options={server_id="02:00:00:00:01:01",dns_server="fd00::254",domain_search="\"test\""}`)
	var guests []*lab.Guest
	for i := 1; i <= 2; i++ {
		mac := fmt.Sprintf("02:00:00:00:01:%d", 10+i)
		addresses := fmt.Sprintf("%s 10.0.1.%d fd00:1::%d", mac, 10+i, 10+i)
		guests = append(guests, l.Node.AddGuest(lab.Guest{
			Name: fmt.Sprintf("red-vm%d", i), Switch: "red", MAC: mac, Addresses: addresses,
			Hostname: fmt.Sprintf(`"\"vm%d\""`, i),
			Settings: []string{`port_security="` + addresses + `"`, "dhcpv4_options=" + v4, "dhcpv6_options=" + v6},
		}))
	}
	l.Sync()
	s := serve(t, l, pipelineCorefile("", "northbound $NB", ""))

	vm := guests[0]
	for _, family := range []struct {
		option, database string
		told             map[string]string
		self, peer       string            // addresses
		names            map[string]string // and those of names
	}{
		{"-4", "ahostsv4", map[string]string{
			"host_name": "vm1", "domain_name": "dhcp.test", "domain_search": "dhcp.test.", "domain_name_servers": resolver4, "ip_address": "10.0.1.11",
		}, "10.0.1.11", "10.0.1.12", nil},
		{"-6", "ahostsv6", map[string]string{
			"dhcp6_domain_search": "test.", "dhcp6_name_servers": resolver6, "ip6_address": "fd00:1::11",
		}, "fd00:1::11", "fd00:1::12", map[string]string{"vm2.dhcp": "fd00:1::12"}},
	} {
		t.Run(family.option, func(t *testing.T) {
			told, resolvConf := lease(t, l, vm, family.option)
			for name, want := range family.told {
				if told[name] != want {
					t.Errorf("%s is %q, want %s: %q", name, told[name], want, told)
				}
			}
			getent := func(args ...string) string {
				t.Helper()
				out, err := vm.Exec(within(t, wait), append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-ec",
					`mount --bind "$0" /etc/resolv.conf; exec getent -s dns "$@"`, resolvConf}, args...)...)
				if err != nil {
					t.Errorf("getent %q: %v", args, err)
				}
				return out
			}
			names := map[string]string{"vm1": family.self, "vm2": family.peer, "VM2.dhcp.test": family.peer}
			maps.Copy(names, family.names)
			for name, want := range names {
				if out := getent(family.database, name); !strings.HasPrefix(out, want+" ") {
					t.Errorf("%s is %q, want %s\n%s", name, out, want, readFile(t, resolvConf))
				}
			}
			if out := getent("hosts", family.peer); !strings.Contains(out, "vm2.dhcp.test") {
				t.Errorf("%s is the address of %q, want vm2.dhcp.test", family.peer, out)
			}
		})
	}
	s.endWell()
}
