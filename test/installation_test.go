// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// installation is the first node of a lab as an operator has it: the sockets, the Corefile and the
// programs are in their usual places, so that the commands and Corefiles of the pages do as they
// stand. Nothing of it is seen outside of its mount namespace.
type installation struct {
	*lab.Lab
	t      *testing.T
	holder *lab.Process // of the namespace
	bin    string       // folder with puntdns and puntctl
	etc    string       // what is /etc/puntdns there
	// program runs puntdns there.
	program string
}

// install makes one of a lab.
func install(t *testing.T, l *lab.Lab) *installation {
	t.Helper()
	in := &installation{Lab: l, t: t, bin: filepath.Join(l.Dir, "bin"), etc: filepath.Join(l.Dir, "etc-puntdns")}
	for _, dir := range []string{in.bin, in.etc, filepath.Join(l.Dir, "log-puntdns"), filepath.Join(l.Dir, "run-puntdns")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is puntctl by that name.
	for name, binary := range map[string]string{"puntctl": self, "puntdns": puntdns} {
		if err := os.Symlink(binary, filepath.Join(in.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.NewReplacer("LAB", l.Dir, "NODE", l.Node.Dir, "NB", strings.TrimPrefix(l.NB, "unix:"), "SB", strings.TrimPrefix(l.SB, "unix:"),
		"TARGET", l.Node.AppCtlTarget("ovs-vswitchd"), "PID", fmt.Sprint(l.Node.Daemon("ovs-vswitchd").Pid)).Replace(`
		mount -t tmpfs -o mode=755 tmpfs /run
		mkdir /run/openvswitch /run/ovn /run/puntdns /run/dnstap
		mount --bind NODE /run/openvswitch
		mount --bind LAB/run-puntdns /run/puntdns
		ln -s NB /run/ovn/ovnnb_db.sock
		ln -s SB /run/ovn/ovnsb_db.sock
		echo PID >/run/openvswitch/ovs-vswitchd.pid
		ln -sf TARGET /run/openvswitch/ovs-vswitchd.PID.ctl
		for folder in /etc /var/log /var/lib; do
			over=/run/over$folder
			mkdir -p $over/written $over/work
			mount -t overlay -o lowerdir=$folder,upperdir=$over/written,workdir=$over/work overlay $folder
		done
		mkdir -p /etc/puntdns /var/log/puntdns /var/lib/puntdns
		mount --bind LAB/etc-puntdns /etc/puntdns
		mount --bind LAB/log-puntdns /var/log/puntdns
		echo mounted
		exec sleep infinity`)
	in.holder = l.Node.Start("installation", nil, "unshare", "--mount", "--propagation", "private", "sh", "-euc", script)
	if err := in.holder.WaitLog(within(t, wait), "mounted"); err != nil {
		t.Fatalf("%v\n%s", err, in.holder.Log())
	}
	in.program = filepath.Join(l.Dir, "run-puntdns.sh")
	if err := lab.WriteProgram(in.program, "#!/bin/sh\nexec "+strings.Join(in.enter("puntdns"), " ")+" \"$@\"\n"); err != nil {
		t.Fatal(err)
	}
	return in
}

// enter is a command in the installation, without what tells programs where the lab has its sockets.
func (in *installation) enter(argv ...string) []string {
	all := []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", in.holder.Pid), "env", "--chdir=/etc/puntdns"}
	for _, name := range []string{"OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "OVN_RUNDIR", "OVN_DBDIR", "OVN_LOGDIR", "OVN_SYSCONFDIR", "OVN_NB_DB", "OVN_SB_DB"} {
		all = append(all, "--unset="+name)
	}
	return append(append(all, "PATH="+in.bin+":"+os.Getenv("PATH")+":/usr/sbin:/sbin"), argv...)
}

// try runs commands as an operator does, and returns what they print, errors included. They end at
// the first one that fails.
func (in *installation) try(commands string) (string, error) {
	return in.Node.Exec(within(in.t, wait), in.enter("sh", "-euc", "exec 2>&1\n"+commands)...)
}

// sh is try for commands that have to succeed.
func (in *installation) sh(commands string) string {
	in.t.Helper()
	out, err := in.try(commands)
	if err != nil {
		in.t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	return strings.TrimSpace(out)
}

// write writes a file of /etc/puntdns.
func (in *installation) write(name, text string) {
	in.t.Helper()
	if err := os.WriteFile(filepath.Join(in.etc, name), []byte(text), 0o644); err != nil {
		in.t.Fatal(err)
	}
}
