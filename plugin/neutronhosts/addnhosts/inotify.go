// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

type event struct {
	wd   int32 // -1 for an overflow
	mask uint32
	name string // empty for the folder itself
}

// watched: a file is created, replaced, written, made readable or removed, or the folder is removed.
const watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

type inotify struct {
	fd   int
	file *os.File
	// events is closed at the end of read.
	events chan event
	// err is valid once events is closed.
	err error
}

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; the limit is sysctl fs.inotify.max_user_instances", err)
	}
	i := &inotify{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), events: make(chan event, 256)}
	go i.read()
	return i, nil
}

// add returns a new number only for a recreated folder.
func (i *inotify) add(dir string) (int32, error) {
	wd, err := unix.InotifyAddWatch(i.fd, dir, watched)
	return int32(wd), err
}

func (i *inotify) close() {
	_ = i.file.Close() // nothing was written
	for range i.events {
	}
}

// read gets an overflow as an event.
func (i *inotify) read() {
	defer close(i.events)
	var b [64 << 10]byte
	for {
		n, err := i.file.Read(b[:])
		if err != nil {
			i.err = err
			return
		}
		decodeEvents(b[:n], func(e event) { i.events <- e })
	}
}

// decodeEvents takes struct inotify_event (<sys/inotify.h>).
func decodeEvents(b []byte, f func(event)) {
	for len(b) >= unix.SizeofInotifyEvent {
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			return
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
		f(event{int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]), string(name)})
		b = b[size:]
	}
}
