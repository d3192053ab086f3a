// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// netns is an anonymous network namespace. The open file holds it, so it
// vanishes, with the interfaces in it, when this process and those inside have
// ended.
type netns struct {
	f *os.File
}

const ownNetns = "/proc/thread-self/ns/net"

func newNetns() (*netns, error) {
	var f *os.File
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		var err error
		f, err = os.Open(ownNetns)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &netns{f: f}, nil
}

// path names the namespace for other processes, as long as this one lives.
func (ns *netns) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.f.Fd())
}

// do runs f inside the namespace. Sockets that f opens stay there; goroutines
// that it starts do not run there.
func (ns *netns) do(f func() error) error {
	return onThread(func() error {
		if err := ns.enter(); err != nil {
			return err
		}
		return f()
	})
}

// enter moves the calling thread into the namespace.
func (ns *netns) enter() error {
	if err := unix.Setns(int(ns.f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}

func (ns *netns) close() error { return ns.f.Close() }

// onThread runs f, which may change the network namespace of its thread, on an
// OS thread of its own.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err, home := keepNetns(f)
		done <- err
		// A thread that did not get home stays locked: the runtime then ends it
		// with this goroutine and gives it to nobody else.
		if home {
			runtime.UnlockOSThread()
		}
	}()
	return <-done
}

// keepNetns runs f and puts the thread, which must be locked, back into the
// namespace it came from; home tells whether that went well.
func keepNetns(f func() error) (err error, home bool) {
	own, err := os.Open(ownNetns)
	if err != nil {
		return err, true
	}
	defer own.Close()
	err = f()
	if e := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); e != nil {
		return errors.Join(err, fmt.Errorf("leave network namespace: %w", e)), false
	}
	return err, true
}
