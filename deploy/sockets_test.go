// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/test/lab"
)

// Umasks of the daemons: as a unit has it by default, and one that leaves the group's bits.
const (
	usualUmask = 0o022
	groupUmask = 0o002
)

// TestSockets applies puntdns.tmpfiles and connects, as the user that it names and as another, to
// sockets that are made as Open vSwitch makes them. Nothing else in their folders is the user's, whatever
// the umask of the daemons.
func TestSockets(t *testing.T) {
	tmpfiles := need(t, "systemd-tmpfiles")
	if os.Geteuid() != 0 {
		lab.Lack(t, "no root, to act as other users")
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
	apply := func() {
		t.Helper()
		file := filepath.Join(root, "puntdns.conf")
		if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tmpfiles, "--create", "--root="+root, file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("systemd-tmpfiles: %v\n%s", err, out)
		}
	}
	apply() // before the daemons have started
	listen(t, filepath.Join(ovs, "db.sock"), usualUmask)
	listen(t, filepath.Join(ovs, "br-int.mgmt"), usualUmask)
	listen(t, filepath.Join(ovs, "vswitchd.ctl"), usualUmask)
	listen(t, filepath.Join(ovn, "ovnsb_db.sock"), usualUmask)
	neutron := closedFolder(t, root)
	apply()
	for _, later := range []string{"later.mgmt", "later.ctl", "later.snoop"} {
		listen(t, filepath.Join(ovs, later), groupUmask)
	}
	pid := filepath.Join(ovs, "ovs-vswitchd.pid")
	writePID(t, pid)
	type way struct {
		name, path string
		may        bool
	}
	check := func(when string, ways ...way) {
		for _, tc := range ways {
			t.Run(when+": "+tc.name, func(t *testing.T) {
				err := connectAs(user, tc.path)
				if tc.may && err != nil || !tc.may && !errors.Is(err, syscall.EACCES) {
					t.Errorf("puntdns connects: %v, want that it may: %v", err, tc.may)
				}
				if err := connectAs(other, tc.path); !errors.Is(err, syscall.EACCES) {
					t.Errorf("somebody else connects: %v, want %v", err, syscall.EACCES)
				}
			})
		}
	}
	always := []way{
		{"the database of the switch", filepath.Join(ovs, "db.sock"), true},
		{"a bridge", filepath.Join(ovs, "br-int.mgmt"), true},
		{"a database of OVN", filepath.Join(ovn, "ovnsb_db.sock"), true},
		{"a control socket", filepath.Join(ovs, "vswitchd.ctl"), false},
		{"a control socket made later", filepath.Join(ovs, "later.ctl"), false},
		{"another socket of a bridge", filepath.Join(ovs, "later.snoop"), false},
	}
	check("made later", append(always, way{"a bridge made later", filepath.Join(ovs, "later.mgmt"), false})...)
	apply()
	check("applied again", append(always, way{"a bridge made later", filepath.Join(ovs, "later.mgmt"), true})...)
	t.Run("pid files", func(t *testing.T) {
		err := as(user, func() error {
			f, err := os.OpenFile(pid, os.O_WRONLY, 0)
			if err == nil {
				f.Close()
			}
			return err
		})
		if !errors.Is(err, syscall.EACCES) {
			t.Errorf("puntdns writes one: %v, want %v", err, syscall.EACCES)
		}
	})
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

// writePID makes a pid file as Open vSwitch does: fopen(3) asks for 0666 (lib/daemon-unix.c). With a default
// entry on the folder the umask would not count.
func writePID(t *testing.T, path string) {
	t.Helper()
	old := unix.Umask(groupUmask)
	err := os.WriteFile(path, []byte("1\n"), 0o666)
	unix.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
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

// TestRevoke runs what takes the access back, with a setfacl that writes down what it is to do: the sockets,
// and what versions before have given beside them by default entries of the folders.
func TestRevoke(t *testing.T) {
	root, programs := t.TempDir(), t.TempDir()
	text, err := os.ReadFile("puntdns.tmpfiles")
	if err != nil {
		t.Fatal(err)
	}
	rules := strings.NewReplacer("/run/", root+"/run/", "/var/lib/", root+"/var/lib/").Replace(string(text))
	done := filepath.Join(programs, "done")
	for name, script := range map[string]string{
		"getent": "", "systemd-tmpfiles": "cat <<'EOF'\n" + rules + "\nEOF\n", "setfacl": "echo \"$*\" >>" + done + "\n",
	} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"run/openvswitch/db.sock", "run/openvswitch/br-int.mgmt", "run/openvswitch/ovs-vswitchd.pid", "run/ovn/ovn-northd.ctl", "var/lib/neutron/dhcp/n/x", "var/lib/other/x"} {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "package/revoke")
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(done)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Compact(slices.Sorted(strings.Lines(strings.ReplaceAll(string(got), root, ""))))
	want := []string{
		"--remove default:user:puntdns /run/openvswitch\n", "--remove default:user:puntdns /run/ovn\n",
		"--remove default:user:puntdns /var/lib/neutron\n", "--remove default:user:puntdns /var/lib/neutron/dhcp\n", "--remove default:user:puntdns /var/lib/neutron/dhcp/n\n",
		"--remove user:puntdns /run/openvswitch\n", "--remove user:puntdns /run/openvswitch/br-int.mgmt\n", "--remove user:puntdns /run/openvswitch/db.sock\n",
		"--remove user:puntdns /run/openvswitch/ovs-vswitchd.pid\n", "--remove user:puntdns /run/ovn\n", "--remove user:puntdns /run/ovn/ovn-northd.ctl\n",
		"--remove user:puntdns /var/lib/neutron\n", "--remove user:puntdns /var/lib/neutron/dhcp\n", "--remove user:puntdns /var/lib/neutron/dhcp/n\n",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("it has done\n%s\nwant\n%s", strings.Join(lines, ""), strings.Join(want, ""))
	}
}
