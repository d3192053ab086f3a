// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// event is an event of inotify(7).
type event struct {
	wd   int32 // -1 for an overflow
	mask uint32
	name string // within the folder, empty for the folder itself
}

// watched has the events of a folder that matter: a file is created, replaced, written, made readable or removed, or
// the folder is removed.
const watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// inotify is an instance of inotify(7).
type inotify struct {
	fd   int
	file *os.File
	// events has the events of read. It is closed when read has ended.
	events chan event
	// err is the reason for the end of read, valid once events is closed.
	err error
}

// newInotify opens an instance and begins to read it.
func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; the limit is sysctl fs.inotify.max_user_instances", err)
	}
	i := &inotify{fd: fd, file: os.NewFile(uintptr(fd), "inotify"), events: make(chan event, 256)}
	go i.read()
	return i, nil
}

// add watches a folder, and returns the number of the watch. A watched folder keeps its number, a folder that was
// removed and created again gets another one.
func (i *inotify) add(dir string) (int32, error) {
	wd, err := unix.InotifyAddWatch(i.fd, dir, watched)
	return int32(wd), err
}

// close ends read.
func (i *inotify) close() {
	_ = i.file.Close() // nothing was written
	for range i.events {
	}
}

// read sends all events until the instance is closed or can't be read. The kernel stores events that are not received,
// up to an overflow, which is an event too.
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

// decodeEvents calls f for each event of a read (struct inotify_event of <sys/inotify.h>).
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
