// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/puntdns/puntdns/test/lab"
)

// demoCommand prints what the demo prints, and nothing of what make runs.
const demoCommand = "make -s demo"

// recorded are the commands that are recorded behind the demo itself, with what they print.
var recorded = []string{
	"puntctl explain red-vm db.internal | grep -A 6 plugins:",
	"ovn-nbctl --wait=hv acl-add red from-lport 3000 'udp.dst == 53' drop",
	"puntctl explain red-vm db.internal --summary | head -3",
}

// record writes the demo and the recorded commands to a file, as a terminal has them, and returns the
// exit status. test/pictures draws them.
func record(binary, file string) int {
	var transcript bytes.Buffer
	t := new(lab.Program)
	defer t.End()
	out := io.MultiWriter(os.Stdout, &transcript)
	fmt.Fprintln(out, "$ "+demoCommand)
	d := start(t, out, binary)
	if !d.result(out, (*demo).show) {
		return 1
	}
	for _, command := range recorded {
		fmt.Fprintln(out, "$ "+command)
		if err := d.sh(out, command); err != nil {
			return fail(fmt.Errorf("%s: %w", command, err))
		}
	}
	if err := os.WriteFile(file, transcript.Bytes(), 0o644); err != nil {
		return fail(err)
	}
	return 0
}

// sh runs a command of an operator, which needs no options to find the sockets of the lab.
func (d *demo) sh(out io.Writer, command string) error {
	cmd := exec.Command("sh", "-euc", command)
	// Where ovs-appctl looks for the switch.
	ctl := filepath.Join(d.l.Node.Dir, fmt.Sprintf("ovs-vswitchd.%d.ctl", d.l.Node.Daemon("ovs-vswitchd").Pid))
	if err := os.Symlink("ovs-vswitchd.ctl", ctl); err != nil && !os.IsExist(err) {
		return err
	}
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(d.binary)+":"+os.Getenv("PATH"), "PUNTCTL_SOCKET="+d.socket(),
		"OVN_NB_DB="+d.l.NB, "OVS_RUNDIR="+d.l.Node.Dir)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}
