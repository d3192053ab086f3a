// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/pages"
)

// chassis is a container that is an OVN chassis with one guest.
type chassis struct {
	*container
	changes *int // how often the record was changed
}

// newChassis has OVN's own daemons make br-int, and a guest on it.
func newChassis(t *testing.T, image func(t *testing.T, docker string) string) *chassis {
	c := &chassis{bootContainer(t, image), new(int)}
	// The units count as started before their databases are there.
	c.eventually("ovn-nbctl init && ovn-sbctl init", "")
	c.sh(`
		ovs-vsctl set open . external_ids:ovn-remote=unix:/run/ovn/ovnsb_db.sock external_ids:ovn-encap-type=geneve \
			external_ids:ovn-encap-ip=127.0.0.1 external_ids:ovn-bridge-datapath-type=netdev
		ovn-nbctl ls-add red
		ovn-nbctl lsp-add red vm -- lsp-set-addresses vm "02:00:00:00:00:11 10.0.0.11"
		row=$(ovn-nbctl create DNS records='{"db.internal"="10.0.0.21"}')
		ovn-nbctl add Logical_Switch red dns_records $row`)
	c.plug()
	return c
}

// of is the same chassis for a subtest.
func (c *chassis) of(t *testing.T) *chassis {
	container := *c.container
	container.t = t
	return &chassis{&container, c.changes}
}

// plug gives the guest its interface, as whoever starts it does after a reboot and
// when the bridge has been made anew.
func (c *chassis) plug() {
	c.t.Helper()
	c.eventually("ovs-vsctl br-exists br-int", "")
	c.sh(`
		ip netns delete vm 2>/dev/null || true
		ip netns add vm
		ovs-vsctl --if-exists del-port vm -- add-port br-int vm -- set interface vm type=internal external_ids:iface-id=vm
		ip link set vm netns vm
		ip -n vm link set lo up
		ip -n vm link set vm address 02:00:00:00:00:11 up
		ip -n vm address add 10.0.0.11/24 dev vm
		ip -n vm route add 169.254.169.254 dev vm`)
}

// served waits until the guest has the answer to a question that has changed: so all
// daemons and puntdns are back.
func (c *chassis) served() {
	c.t.Helper()
	*c.changes++
	address := fmt.Sprintf("10.0.1.%d", *c.changes)
	c.eventually(`ovn-nbctl set DNS $(ovn-nbctl --bare --columns=_uuid find DNS) records='{"db.internal"="`+address+`"}'`, "")
	// dig asks with EDNS, which OVN's own DNS does not answer.
	c.eventually("ip netns exec vm dig +short +tries=1 +time=1 @169.254.169.254 db.internal", address)
}

// flows counts those of puntdns.
func (c *chassis) flows() string {
	c.t.Helper()
	return c.sh("ovs-ofctl -O OpenFlow15 dump-flows br-int cookie=0x70646e0000000000/0xffffff0000000000 | grep -c cookie= || true")
}

// built are the binaries of a version that are being made.
type built struct {
	dir  string
	done chan struct{} // closed at the end
	err  error         // valid then
}

// build begins to make the binaries that the Makefile makes, of several versions one after
// the other: the container boots meanwhile.
func build(t *testing.T, versions ...string) []*built {
	t.Helper()
	var all []*built
	for range versions {
		b := &built{dir: t.TempDir(), done: make(chan struct{})}
		t.Cleanup(func() { <-b.done })
		all = append(all, b)
	}
	go func() {
		for i, b := range all {
			cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+versions[i], "-o", b.dir+"/", "./cmd/puntdns", "./cmd/puntctl")
			cmd.Dir = ".."
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				b.err = fmt.Errorf("go build: %w\n%s", err, out)
			}
			close(b.done)
		}
	}()
	return all
}

// binaries waits for the end and returns the folder.
func (b *built) binaries(t *testing.T) string {
	t.Helper()
	if <-b.done; b.err != nil {
		t.Fatal(b.err)
	}
	return b.dir
}

// copyTo copies the binaries into the folder bin of a chassis.
func (b *built) copyTo(c *chassis) {
	c.t.Helper()
	b.binaries(c.t)
	for _, name := range []string{"puntdns", "puntctl"} {
		c.copy(filepath.Join(b.dir, name), "bin/"+name)
	}
}

// TestChassis follows the steps of puntdns.service on a Debian with systemd, from the
// installation to the removal.
func TestChassis(t *testing.T) {
	binaries := build(t, "1.2.3", "1.2.4")
	c := newChassis(t, chassisImage)
	for _, name := range []string{"puntdns.service", "puntdns.sysusers", "puntdns.tmpfiles", "puntdns-sockets.path", "puntdns-sockets.service"} {
		c.copy(name, "deploy/"+name)
	}
	binaries[0].copyTo(c)
	c.copy("../Corefile.example", "Corefile.example")
	c.sh("mkdir -p /etc/sysusers.d") // the install makes it where it is missing
	before := c.sh("find /etc /usr/local -xdev | sort")

	c.sh(steps(t, "puntdns on an OVN chassis."))
	c.served()

	t.Run("priorities of the journal", func(t *testing.T) {
		c := c.of(t)
		const journal = "journalctl --no-pager --output cat --unit puntdns --identifier puntdns --priority "
		if got := c.sh(journal + "info..info"); !strings.Contains(got, "flows are in place") {
			t.Errorf("lines of priority info:\n%s", got)
		}
		c.sh("echo . { nonsense } >/tmp/wrong; systemd-run --quiet --unit wrong --wait /usr/local/bin/puntdns -conf /tmp/wrong || true")
		if got := c.sh(strings.Replace(journal, "--unit puntdns", "--unit wrong", 1) + "err..err"); !strings.Contains(got, "nonsense") {
			t.Errorf("lines of priority err, of a Corefile that is wrong:\n%s", got)
		}
		c.sh("cp /etc/puntdns/Corefile /tmp/right; cp /tmp/wrong /etc/puntdns/Corefile; systemctl reload puntdns")
		c.eventually(journal+"err..err | grep -q nonsense", "")
		c.sh("cp /tmp/right /etc/puntdns/Corefile; systemctl reload puntdns")
		c.eventually(journal+"info | grep -q 'Reloading complete'", "")
		if got := c.sh(journal + "warning"); strings.Contains(got, "[INFO]") {
			t.Errorf("lines of priority warning and above:\n%s", got)
		}
	})

	t.Run("the bridge made anew", func(t *testing.T) {
		c := c.of(t)
		c.sh("ovs-vsctl del-br br-int")
		c.plug()
		c.served()
	})

	t.Run("a read-only copy of the database", func(t *testing.T) {
		c := c.of(t)
		unit, commands := copyOfDatabase(t)
		c.sh("cp /etc/puntdns/Corefile /tmp/right; cp /etc/tmpfiles.d/puntdns.conf /tmp/rules")
		c.sh("sed -i '0,/ofpunt br-int {/s//&\\novsdb unix:\\/run\\/puntdns-ovsdb\\/db.sock/' /etc/puntdns/Corefile; grep -q puntdns-ovsdb /etc/puntdns/Corefile; sed -i /db.sock/d /etc/tmpfiles.d/puntdns.conf")
		// Those of OVN stay as they are.
		c.sh("grep 'ovn.ns.b_db' /tmp/rules >>/etc/tmpfiles.d/puntdns.conf; cat >/etc/systemd/system/puntdns-ovsdb.service <<'EOF'\n" + unit + "EOF")
		c.sh(commands)
		c.served()
		const insert = `'["Open_vSwitch",{"op":"insert","table":"Manager","row":{"target":"punix:/tmp/x"}}]'`
		for socket, want := range map[string]string{"/run/openvswitch/db.sock": "Permission denied", "/run/puntdns-ovsdb/db.sock": "not allowed"} {
			if got := c.sh("runuser -u puntdns -- ovsdb-client transact unix:" + socket + " " + insert + " 2>&1 || true"); !strings.Contains(got, want) {
				t.Errorf("a write by %s: %s, want %q", socket, got, want)
			}
		}
		c.sh("systemctl restart ovsdb-server")
		c.plug()
		c.served()
		c.sh("systemctl disable --now puntdns-ovsdb; rm /etc/systemd/system/puntdns-ovsdb.service; cp /tmp/right /etc/puntdns/Corefile; cp /tmp/rules /etc/tmpfiles.d/puntdns.conf; systemctl daemon-reload; systemctl restart puntdns")
		c.served()
	})

	t.Run("sockets that refuse", func(t *testing.T) {
		c := c.of(t)
		c.sh("systemctl stop puntdns; chmod 0700 /run/openvswitch/db.sock /run/openvswitch/br-int.mgmt /run/ovn/ovnsb_db.sock")
		c.sh("systemd-run --quiet --unit refused --uid puntdns /usr/local/bin/puntdns -conf /etc/puntdns/Corefile")
		for _, path := range []string{"/var/run/openvswitch/db.sock", "/var/run/openvswitch/br-int.mgmt", "/var/run/ovn/ovnsb_db.sock"} {
			c.eventually("journalctl --no-pager --output cat --unit refused | grep -qF 'setfacl -m u:puntdns:rw,m::rw "+path+"'", "")
		}
		c.sh("systemctl stop refused; systemctl start puntdns")
		c.served()
	})

	// A restart of Debian's ovn-northd.service alone ends the databases for good.
	for _, unit := range []string{
		"ovs-vswitchd", "ovsdb-server", "ovn-controller", "ovn-central", "ovn-ovsdb-server-sb", "ovn-ovsdb-server-nb", "puntdns",
	} {
		t.Run("restart of "+unit, func(t *testing.T) {
			c := c.of(t)
			c.sh("systemctl restart " + unit)
			if unit == "ovs-vswitchd" || unit == "ovsdb-server" {
				c.plug() // the switch has made the interface anew, outside of the guest
			}
			c.served()
		})
	}

	t.Run("a reboot", func(t *testing.T) {
		c := c.of(t)
		c.reboot()
		c.plug()
		c.served()
	})

	t.Run("an upgrade", func(t *testing.T) {
		c := c.of(t)
		binaries[1].copyTo(c)
		c.sh(steps(t, "To upgrade it"))
		c.served()
		if got := c.sh("/proc/$(systemctl show --value --property MainPID puntdns)/exe -version"); !strings.HasPrefix(got, "puntdns-1.2.4 ") {
			t.Errorf("after the upgrade: %s", got)
		}
	})

	t.Run("the removal", func(t *testing.T) {
		c := c.of(t)
		if got := c.flows(); got == "0" {
			t.Error("no flows before the removal")
		}
		c.sh(steps(t, "To remove it"))
		if got := c.flows(); got != "0" {
			t.Errorf("%s flows after the removal", got)
		}
		after := c.sh("find /etc /usr/local -xdev | sort")
		if extra := added(before, after); len(extra) > 0 {
			t.Errorf("files after the removal:\n%s", strings.Join(extra, "\n"))
		}
		if got := c.sh("systemctl list-unit-files --no-legend 'puntdns*' || true"); got != "" {
			t.Errorf("units after the removal: %s", got)
		}
	})
}

// copyOfDatabase returns the unit of docs/security.md that serves a copy of the Open_vSwitch database, and
// the commands behind it.
func copyOfDatabase(t *testing.T) (unit, commands string) {
	t.Helper()
	for _, b := range pages.Load(t, "..", "docs/security.md").Blocks {
		switch {
		case b.Language == "ini" && strings.Contains(b.Text, "ovsdb-server"):
			unit = b.Text
		case b.Language == "sh" && strings.Contains(b.Text, "puntdns-ovsdb"):
			commands = b.Text
		}
	}
	if unit == "" || commands == "" {
		t.Fatal("docs/security.md has no such unit, or no commands")
	}
	return unit, commands
}

// added are the lines of after that before does not have. The user and its group
// stay, as the steps say, and so do the backups that sysusers makes of their files.
func added(before, after string) []string {
	had := map[string]bool{}
	for line := range strings.Lines(before) {
		had[strings.TrimSpace(line)] = true
	}
	var all []string
	for line := range strings.Lines(after) {
		line = strings.TrimSpace(line)
		if !had[line] && !strings.HasPrefix(line, "/etc/passwd") && !strings.HasPrefix(line, "/etc/group") &&
			!strings.HasPrefix(line, "/etc/shadow") && !strings.HasPrefix(line, "/etc/gshadow") && line != "/etc/.pwd.lock" {
			all = append(all, line)
		}
	}
	return all
}
