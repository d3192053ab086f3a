// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Daemon is a process that the kernel kills at the end of this process, however that comes.
type Daemon struct {
	// Output is what the daemon writes.
	Output Log

	cmd   *exec.Cmd
	ended chan struct{}
}

// StartDaemon starts cmd, whose SysProcAttr may be set.
func StartDaemon(cmd *exec.Cmd) (*Daemon, error) {
	d := &Daemon{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &d.Output, &d.Output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		// The signal comes when the thread that forked ends, not the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(d.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return d, <-started
}

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(sig syscall.Signal) error { return d.cmd.Process.Signal(sig) }

// Ended is closed when the daemon has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Kill kills the daemon, which may have ended, and waits for its end.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
}
