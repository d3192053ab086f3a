// SPDX-License-Identifier: Apache-2.0

//go:build packages

package deploy

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/pages"
)

// upstreamOfPages answers in the place of the resolvers that the pages name, which a container without a
// network can't ask.
const upstreamOfPages = `. {
    bind 9.9.9.9 149.112.112.112
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.5"
    }
}
`

// commands returns the blocks of commands of some sections, each named as PAGE#ANCHOR.
func commands(t *testing.T, sections ...string) (all []pages.Block) {
	t.Helper()
	for _, section := range sections {
		_, blocks := pages.Section(t, "..", section, "sh")
		all = append(all, blocks...)
	}
	return all
}

// follow runs blocks in one shell, as somebody does who pastes them one after the other, and compares
// what each prints with the page.
func (c *chassis) follow(blocks []pages.Block) {
	c.t.Helper()
	if len(blocks) == 0 {
		c.t.Fatal("no commands")
	}
	const end = "---- the end of block "
	script := "exec 2>/tmp/errors\n"
	for i, b := range blocks {
		script += fmt.Sprintf("echo '%s %d' >>/tmp/errors\n%s\necho '%s%d'\n", b.Section, b.Number, b.Text, end, i)
	}
	out, err := c.try(script)
	for i, b := range blocks {
		said, rest, whole := strings.Cut(out, fmt.Sprintf("%s%d", end, i))
		if !whole {
			errors, _ := c.try("cat /tmp/errors") // for a message only
			c.t.Fatalf("%s, block %d: %v\n%s\n%s\n%s", b.Section, b.Number, err, said, errors, c.journal())
		}
		out = strings.TrimPrefix(rest, "\n")
		if b.Prints == "" {
			continue
		}
		if err := pages.Printed(b.Prints, said); err != nil {
			c.t.Errorf("%s, block %d: %v", b.Section, b.Number, err)
		}
	}
}

// offline has apt-get update do nothing: what the pages install is in the image already.
func (c *chassis) offline() {
	c.t.Helper()
	c.sh(`
		printf '#!/bin/sh\n[ "$1" = update ] || exec /usr/bin/apt-get "$@"\n' >/usr/local/bin/apt-get
		chmod 755 /usr/local/bin/apt-get`)
}

// TestNewUser follows docs/ovn.md from a Debian with no more than the packages that the page installs
// to a guest that resolves, then the upgrade of docs/upgrade.md, and takes it all away again.
func TestNewUser(t *testing.T) {
	const begin = "docs/ovn.md#1-ovn-and-a-guest"
	text, _ := pages.Section(t, "..", begin, "sh")
	install := regexp.MustCompile(`(?m)^apt-get install -y (.*)$`).FindStringSubmatch(text)
	if install == nil {
		t.Fatalf("no installation in %s", begin)
	}
	// What the container takes, and what the package of puntdns asks for.
	more := append(strings.Fields(install[1]), "systemd", "systemd-sysv", "dbus", "iproute2", "procps", "acl", "ca-certificates")
	binaries := build(t, older, newer(t))
	debs := []string{packageOf(t, "deb", binaries, 0), packageOf(t, "deb", binaries, 1)}
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			c := &chassis{bootContainer(t, func(t *testing.T, docker string) string {
				return releaseImage(t, docker, suite, "newuser", more...)
			}), new(int)}
			// The units count as started before their databases are there. A container has no module of
			// the kernel's, and no network.
			c.eventually("ovn-nbctl init && ovn-sbctl init", "")
			c.sh("rm -f /usr/sbin/policy-rc.d; ovs-vsctl set Open_vSwitch . external_ids:ovn-bridge-datapath-type=netdev")
			binaries[0].copyTo(c)
			c.offline()
			c.sh("cat >upstream <<'EOF'\n" + upstreamOfPages + "EOF\n" + `
				ip address add 9.9.9.9/32 dev lo; ip address add 149.112.112.112/32 dev lo
				systemd-run --quiet --unit upstream /src/bin/puntdns -conf /src/upstream`)
			deb := func(of int) {
				c.sh("rm -f puntdns_*.deb")
				c.copy(debs[of], "puntdns_"+[]string{older, newer(t)}[of]+"_"+runtime.GOARCH+".deb")
			}
			deb(0)
			c.follow(commands(t, begin, "docs/ovn.md#2-puntdns", "docs/ovn.md#3-names", "docs/ovn.md#your-own-networks"))
			for _, b := range commands(t, "README.md#install", "docs/openstack.md#from-nothing-to-a-guest-that-resolves") {
				if strings.HasPrefix(b.Text, "puntdns ") {
					c.sh("systemctl disable --now puntdns") // as before the first start
					c.follow([]pages.Block{b})
				}
			}
			deb(1)
			c.follow(commands(t, "docs/upgrade.md#upgrade"))
			if got := c.sh("puntdns -version"); !strings.HasPrefix(got, "puntdns-"+newer(t)+" ") {
				t.Errorf("after the upgrade: %s", got)
			}
			if got := c.sh("ip netns exec vm1 dig +short db.cloud.internal; man -w puntdns 2>/dev/null || ls /usr/share/man/man7/puntdns-ovnhosts.7.gz"); !strings.HasPrefix(got, "10.0.0.21") {
				t.Errorf("after the upgrade: %s", got)
			}
			c.follow(commands(t, "docs/ovn.md#take-it-away-again"))
			if got := c.flows(); got != "0" {
				t.Errorf("%s flows at the end", got)
			}
			if got := c.sh("ls -d /etc/puntdns /usr/bin/puntdns /etc/netns/vm1 2>/dev/null || true; ovn-nbctl ls-list; ovn-nbctl lr-list"); got != "" {
				t.Errorf("left at the end: %s", got)
			}
		})
	}
}

// TestFromHand installs puntdns by hand and then the package, as docs/upgrade.md has it, while a guest
// asks.
func TestFromHand(t *testing.T) {
	binaries := build(t, older, newer(t))
	c := newChassis(t, packageImage("bookworm"))
	c.sh("rm -f /usr/sbin/policy-rc.d")
	for _, name := range []string{"puntdns.service", "puntdns.sysusers", "puntdns.tmpfiles", "puntdns-sockets.path", "puntdns-sockets.service"} {
		c.copy(name, "deploy/"+name)
	}
	binaries[0].copyTo(c)
	c.copy("../Corefile.example", "Corefile.example")
	c.sh("mkdir -p /etc/sysusers.d; cat >>Corefile.example <<'EOF'\n" + elsewhere + "\nEOF")
	c.sh(steps(t, "puntdns on an OVN chassis."))
	c.served()
	c.copy(packageOf(t, "deb", binaries, 1), "puntdns_"+newer(t)+"_"+runtime.GOARCH+".deb")
	lost := c.load(func() { c.follow(commands(t, "docs/upgrade.md#from-an-installation-by-hand")) })
	if lost > 0 {
		t.Errorf("%d queries lost, expected none", lost)
	}
	c.served()
	if got := c.sh("readlink /proc/$(systemctl show --value --property MainPID puntdns)/exe; systemctl show --value --property FragmentPath puntdns; systemctl is-enabled puntdns"); got !=
		"/usr/bin/puntdns\n/usr/lib/systemd/system/puntdns.service\nenabled" && got != "/usr/bin/puntdns\n/lib/systemd/system/puntdns.service\nenabled" {
		t.Errorf("after the installation of the package: %s", got)
	}
	c.reboot()
	c.plug()
	c.served()
}
