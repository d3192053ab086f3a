// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/test/lab"
)

// Umasks of the daemons: as a unit has it by default, and by the drop-in.
const (
	usualUmask  = 0o022
	dropInUmask = 0o002
)

// TestSockets applies puntdns.tmpfiles and connects, as the user that it names
// and as another, to sockets that are made as Open vSwitch makes them.
func TestSockets(t *testing.T) {
	tmpfiles := need(t, "systemd-tmpfiles")
	if os.Geteuid() != 0 {
		lab.Lack(t, "no root, to act as other users")
	}
	dropIn, err := os.ReadFile("puntdns-sockets.conf")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^UMask=(\d+)$`).FindSubmatch(dropIn); m == nil || string(m[1]) != "0002" {
		t.Errorf("UMask= of puntdns-sockets.conf: %q, this test goes by 0002", m)
	}
	text, err := os.ReadFile("puntdns.tmpfiles")
	if err != nil {
		t.Fatal(err)
	}
	// The test has no such user, but any number will do.
	const user, other = 64123, 64124
	rules := strings.ReplaceAll(string(text), "user:puntdns:", "user:"+strconv.Itoa(user)+":")

	root := t.TempDir()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ovs, ovn := filepath.Join(root, "run/openvswitch"), filepath.Join(root, "run/ovn")
	for _, dir := range []string{ovs, ovn} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listen(t, filepath.Join(ovs, "db.sock"), usualUmask)
	listen(t, filepath.Join(ovs, "vswitchd.ctl"), usualUmask)
	listen(t, filepath.Join(ovn, "ovnsb_db.sock"), usualUmask)
	neutron := closedFolder(t, root)
	file := filepath.Join(root, "puntdns.conf")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tmpfiles, "--create", "--root="+root, file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("systemd-tmpfiles: %v\n%s", err, out)
	}
	listen(t, filepath.Join(ovs, "br-int.mgmt"), dropInUmask)
	listen(t, filepath.Join(ovs, "br-ex.mgmt"), usualUmask)
	listen(t, filepath.Join(ovn, "ovnnb_db.sock"), dropInUmask)

	for _, tc := range []struct {
		name, path string
		may        bool
	}{
		{"there before", filepath.Join(ovs, "db.sock"), true},
		{"there before, of OVN", filepath.Join(ovn, "ovnsb_db.sock"), true},
		{"made later with the drop-in", filepath.Join(ovs, "br-int.mgmt"), true},
		{"made later with the drop-in, of OVN", filepath.Join(ovn, "ovnnb_db.sock"), true},
		{"made later without the drop-in", filepath.Join(ovs, "br-ex.mgmt"), false},
		{"no business of puntdns", filepath.Join(ovs, "vswitchd.ctl"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := connectAs(user, tc.path)
			if tc.may && err != nil || !tc.may && !errors.Is(err, syscall.EACCES) {
				t.Errorf("puntdns connects: %v, want that it may: %v", err, tc.may)
			}
			if err := connectAs(other, tc.path); !errors.Is(err, syscall.EACCES) {
				t.Errorf("somebody else connects: %v, want %v", err, syscall.EACCES)
			}
		})
	}
	t.Run("files of Neutron's DHCP agent", func(t *testing.T) {
		err := as(user, func() error {
			_, err := os.ReadDir(filepath.Dir(filepath.Dir(neutron)))
			if err == nil {
				_, err = os.ReadFile(neutron)
			}
			return err
		})
		if err != nil {
			t.Errorf("puntdns reads: %v", err)
		}
		read := func() error { _, err := os.ReadFile(neutron); return err }
		if err := as(other, read); !errors.Is(err, syscall.EACCES) {
			t.Errorf("somebody else reads: %v, want %v", err, syscall.EACCES)
		}
	})
}

// closedFolder makes the folders of Neutron's DHCP agent, closed to others but for what the
// agent itself makes, and returns the file of a network.
func closedFolder(t *testing.T, root string) (file string) {
	t.Helper()
	dir := filepath.Join(root, "var/lib/neutron/dhcp")
	network := filepath.Join(dir, "5f8b3c0e-7a35-4b9a-9a35-1f6a1c0d0001")
	file = filepath.Join(network, "addn_hosts")
	err := os.MkdirAll(network, 0o755)
	if err == nil {
		err = os.WriteFile(file, nil, 0o644)
	}
	for _, closed := range []string{dir, filepath.Dir(dir)} {
		if err == nil {
			err = os.Chmod(closed, 0o750)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// listen makes a socket as Open vSwitch does: it asks for 0770, see
// bind_unix_socket in lib/socket-util-unix.c.
func listen(t *testing.T, path string, umask int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Fchmod(fd, 0o770); err != nil {
		t.Fatal(err)
	}
	old := unix.Umask(umask)
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	unix.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 8); err != nil {
		t.Fatal(err)
	}
}

// connectAs connects with the rights of a user and of the group of that number.
func connectAs(id int, path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return as(id, func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) })
}

// as calls f with the rights of a user and of the group of that number.
func as(id int, f func() error) error {
	// The ids for file access are the thread's; they take root's capabilities
	// for files away, and give them back.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gid, err := unix.SetfsgidRetGid(id)
	if err != nil {
		return err
	}
	defer unix.Setfsgid(gid)
	uid, err := unix.SetfsuidRetUid(id)
	if err != nil {
		return err
	}
	defer unix.Setfsuid(uid)
	return f()
}
