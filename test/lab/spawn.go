// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// spawner hands out the one thread that starts all children. The kernel sends a
// parent-death signal when the thread that forked ends, not the process, so
// this one must live as long as the process.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go spawnLoop(work)
	return work
})

// spawnLoop never returns. It has a name for goleak.IgnoreTopFunction.
func spawnLoop(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

// spawn starts cmd in a network namespace (nil: that of this process) and in a
// process group of its own, so that the terminal's Ctrl-C goes to this process
// alone and what a child started can be ended with it.
func spawn(ns *netns, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return onSpawner(func() error {
		if ns != nil {
			if err := ns.enter(); err != nil {
				return err
			}
		}
		return cmd.Start()
	})
}

func onSpawner(f func() error) error {
	done := make(chan error, 1)
	spawner() <- func() {
		err, _ := keepNetns(f)
		done <- err
	}
	if err := <-done; err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}
