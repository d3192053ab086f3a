// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The time between two looks at a condition that has no event: it doubles, since most looks start a process.
const (
	firstPoll = 5 * time.Millisecond
	lastPoll  = 320 * time.Millisecond
)

var (
	// patience bounds every wait for something that is going to happen; it is
	// long because the machine may be busy, and costs nothing when it is not.
	patience = Scaled(60 * time.Second)
	// grace is the time between SIGTERM and SIGABRT. It is more than puntdns takes that waits as long as it may
	// for the switch (5.5 s), for packets after a hand-over (8 s) and for the queries in its chains (5.5 s).
	grace = Scaled(25 * time.Second)
)

// Process is a long-running program in a namespace of the lab.
type Process struct {
	Name    string
	Pid     int
	LogFile string // standard output and error, after the output of earlier processes

	cmd  *exec.Cmd
	done chan struct{}
	err  error // of cmd.Wait, once done is closed
	// begin is the size of LogFile when the process was started.
	begin int64
}

// Start runs a program in the host's namespace until it is stopped, at the
// latest by Close. Its output goes to NAME.log in the host's folder, after that
// of earlier ones of the same name. env is added to the environment, argv[0] is
// looked up in PATH.
func (h *Host) Start(name string, env []string, argv ...string) *Process {
	h.l.t.Helper()
	p, err := h.start(name, env, argv...)
	if err != nil {
		h.l.t.Fatalf("%s: start %s: %v", h.Name, name, err)
	}
	return p
}

func (h *Host) start(name string, env []string, argv ...string) (*Process, error) {
	cmd, err := h.command(env, argv)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, LogFile: h.file(name + ".log"), cmd: cmd, done: make(chan struct{})}
	out, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	before, err := out.Stat()
	if err != nil {
		return nil, err
	}
	p.begin = before.Size()
	cmd.Stdout, cmd.Stderr = out, out
	if err := spawn(h.ns, cmd); err != nil {
		return nil, err
	}
	p.Pid = cmd.Process.Pid
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	h.l.track(h, p)
	return p, nil
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns how it ended, as
// [exec.Cmd.Wait] does.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("%s (pid %d) still runs: %w", p.Name, p.Pid, ctx.Err())
	}
}

// Stop ends the process by SIGTERM, waits, and returns how it ended. A process that has not ended after grace
// gets SIGABRT, at which a Go program logs its goroutines, and a second later SIGKILL.
func (p *Process) Stop() error {
	// An error means that it has ended already.
	_ = p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
	}
	_ = p.Signal(syscall.SIGABRT)
	timer.Reset(time.Second)
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.Kill()
	}
	return fmt.Errorf("did not end within %s of SIGTERM: %w", grace, p.err)
}

// Kill ends the process and its process group by SIGKILL and waits.
func (p *Process) Kill() error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	<-p.done
	return p.err
}

// CPUTime returns the processor time that a process has taken so far.
func CPUTime(pid int) (time.Duration, error) {
	// clock_getcpuclockid(3) makes the clock's id so.
	const scheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// output returns what the process has written so far. An earlier process of the same name that
// still runs writes to the same file.
func (p *Process) output() ([]byte, error) {
	b, err := os.ReadFile(p.LogFile)
	if err != nil {
		return nil, err
	}
	return b[min(p.begin, int64(len(b))):], nil
}

// Log returns what the process has written so far, or why that can't be read.
func (p *Process) Log() string {
	b, err := p.output()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// WaitLog waits until the output of the process matches the expression. It fails at once when
// the process has ended without a match.
func (p *Process) WaitLog(ctx context.Context, expr string) error {
	re, err := regexp.Compile(expr)
	if err != nil {
		return err
	}
	return Poll(ctx, func() error {
		ended := false
		select {
		case <-p.done:
			ended = true
		default:
		}
		b, err := p.output()
		switch {
		case err != nil:
			return err
		case re.Match(b):
			return nil
		case ended:
			return hopeless{fmt.Errorf("%s ended (%s) before its log matched %q; it ends with:\n%s", p.Name, fmt.Sprint(p.err), expr, tail(b, 20))}
		}
		return fmt.Errorf("log of %s does not match %q; it ends with:\n%s", p.Name, expr, tail(b, 20))
	})
}

// hopeless wraps an error that no further attempt will change.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// Poll calls f until it returns nil or the context, or a minute, ends; then it
// returns f's last error.
func Poll(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		err := f()
		if err == nil {
			return nil
		}
		if h := (hopeless{}); errors.As(err, &h) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// tail returns the last n lines.
func tail(b []byte, n int) []byte {
	b = bytes.TrimRight(b, "\n")
	i := len(b)
	for ; n > 0 && i >= 0; n-- {
		i = bytes.LastIndexByte(b[:i], '\n')
	}
	return b[i+1:]
}
