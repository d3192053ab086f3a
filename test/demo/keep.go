// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/test/lab"
)

// holderEnv marks the process that holds the lab with KEEP=1. It reports its
// exit status, as one byte, on the descriptor statusFD, and then stays.
const (
	holderEnv = "PUNTDNS_DEMO_HOLDER"
	statusFD  = 3
)

// runInBackground starts the holder and returns the status that it reports.
func runInBackground() int {
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	holder := exec.Command(self, os.Args[1:]...)
	holder.Env = append(os.Environ(), holderEnv+"=1")
	holder.Stdout, holder.Stderr = os.Stdout, os.Stderr
	holder.ExtraFiles = []*os.File{w}
	// Out of the terminal's reach.
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := holder.Start(); err != nil {
		return fail(err)
	}
	if err := w.Close(); err != nil {
		return fail(err)
	}
	status := make([]byte, 1)
	if _, err := io.ReadFull(r, status); err != nil {
		return fail(errors.New("the demo did not come up"))
	}
	return int(status[0])
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "demo:", err)
	return 1
}

// hold is the demo in the background. It ends on SIGTERM, or if whoever started
// it has gone before it is up.
func (s scenario) hold(binary string) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	t := new(lab.Program)
	d := s.start(t, os.Stdout, binary)
	var status byte
	if !d.result(os.Stdout, s.show) {
		status = 1
	}
	d.usage(os.Stdout, s.usage)
	err := detach(status)
	if err == nil {
		<-end
	}
	t.End()
	if err != nil {
		os.Exit(fail(err))
	}
}

// detach gives the terminal, or what the output goes to, back and reports the
// status.
func detach(status byte) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	report := os.NewFile(statusFD, "status")
	_, err = report.Write([]byte{status})
	return errors.Join(err, report.Close(), null.Close())
}

// usage says how to use what is left up. special are the commands of a scenario.
func (d *demo) usage(w io.Writer, special func(*demo, func(string, ...any))) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("")
	p("KEEP is set, so all of this stays up. As root:")
	p("")
	special(d, p)
	p("# See the punt flows (cookies that begin with 0x70646e)")
	p("ovs-ofctl -O OpenFlow15 dump-flows %s cookie=0x70646e0000000000/0xffffff0000000000", d.l.Node.OpenFlow)
	p("# See what it serves, what goes wrong, and each query as it comes")
	p("%s status", d.puntctl())
	p("%s doctor %s", d.puntctl(), d.vswitchd())
	p("%s watch", d.puntctl())
	p("# See whether puntdns is ready, and what it waits for if not")
	p("nsenter --net=%s curl -s http://%s/ready", d.l.Node.NetNS(), readyAddr)
	p("# See metrics")
	p("nsenter --net=%s curl -s http://%s/metrics", d.l.Node.NetNS(), metricsAddr)
	p("# Read the Corefile and the logs, puntdns and the switch among them")
	p("less %s %s %s", filepath.Join(d.l.Dir, "Corefile"), d.puntdns.LogFile, filepath.Join(d.l.Node.Dir, "ovs-vswitchd.log"))
	p("# Change the Corefile and have puntdns (pid %d) read it", d.puntdns.Pid)
	p("kill -USR1 %d", d.puntdns.Pid)
	p("# Kill it")
	p("kill -9 %d", d.puntdns.Pid)
	p("# Start it again in the foreground; before you end the demo, end this process by Ctrl-C")
	p("nsenter --net=%s %s -conf %s", d.l.Node.NetNS(), d.binary, filepath.Join(d.l.Dir, "Corefile"))
	p("# End it all, and leave nothing behind")
	p("kill %d", os.Getpid())
}

func (d *demo) puntctl() string {
	return filepath.Join(filepath.Dir(d.binary), "puntctl") + " -s " + d.socket()
}

// vswitchd is for commands that trace by ovs-appctl, which looks for its daemon in another folder.
func (d *demo) vswitchd() string { return "--vswitchd " + d.l.Node.AppCtlTarget("ovs-vswitchd") }

func (d *demo) tenantUsage(p func(format string, args ...any)) {
	p("# Ask from inside a guest")
	for _, g := range d.guests {
		p("nsenter --net=%s dig @%s db.internal # %s", g.NetNS(), resolver4, g.Port)
	}
	p("# See how it answers a name, and why")
	p("%s explain %s %s db.internal", d.puntctl(), d.vswitchd(), d.guests[0].Port)
	p("# Change a name of the first network, then ask again")
	p("ovn-nbctl --db=%s set DNS %s records:db.internal=10.0.0.99", d.l.NB, d.rows[0])
	p("# Once puntdns is killed (below), OVN's own DNS answers guests after the lease (15 s). Before 23.03.3 it answers no query with EDNS")
	p("nsenter --net=%s dig +noedns @%s db.internal", d.guests[0].NetNS(), resolver4)
}

func (d *demo) egressUsage(p func(format string, args ...any)) {
	in := "nsenter --net=" + d.guests[0].NetNS()
	p("# Have the commands of docs/egress.md use this lab")
	p("export OVN_NB_DB=%s PUNTCTL_SOCKET=%s PATH=%s:$PATH", d.l.NB, d.socket(), filepath.Dir(d.binary))
	p("# Ask and connect from inside the closed guest")
	p("%s dig @%s files.pypi.example", in, resolver4)
	p("%s timeout 1 bash -c ': </dev/tcp/203.0.113.10/443' && echo open", in)
	p("# See the policies, what is open, and why a name opens an address or not")
	p("%s egress policies", d.puntctl())
	p("%s egress list", d.puntctl())
	p("%s explain %s %s other.example", d.puntctl(), d.vswitchd(), d.guests[0].Port)
	p("# See the ACLs. A new group for the other guest: puntctl egress init prints the commands")
	p("ovn-nbctl --db=%s --type=port-group acl-list sandboxes", d.l.NB)
}
