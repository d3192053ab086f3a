// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the longest path of a unix socket in bytes (unix(7), sun_path).
const maxPath = 107

// HeldError says that another process listens on the socket.
type HeldError struct {
	Path string
	// PID is 0 if unknown.
	PID int
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process listens there; expected a path of this process's own", e.Path)
	}
	return fmt.Sprintf("%s: process %d (%s) listens there; expected a path of this process's own", e.Path, e.PID, commandOf(e.PID))
}

func commandOf(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return "of a name that this user may not see"
	}
	return strings.TrimSpace(string(text))
}

// Check returns an error if no socket can be opened at a path. A socket of another process is no error.
func Check(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q: expected an absolute path", path)
	case len(path) > maxPath:
		return fmt.Errorf("%q has %d bytes; expected at most %d, as a unix socket has", path, len(path), maxPath)
	}
	folder := filepath.Dir(path)
	if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w; expected a folder that this user may write to, as RuntimeDirectory=puntdns of a systemd unit makes /run/puntdns", folder, err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: it is %s; expected a socket, or nothing", path, kindOf(info.Mode()))
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

const lookupTimeout = time.Second

// holder returns a *HeldError if a process listens at a path, nil for no file or a stale socket.
func holder(path string) error {
	d := net.Dialer{Timeout: lookupTimeout}
	conn, err := d.Dial("unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, fs.ErrPermission):
		return &HeldError{Path: path} // its queue is full, or it admits nobody
	case err != nil:
		return fmt.Errorf("%s: looking who listens there: %w", path, err)
	}
	defer conn.Close()
	held := &HeldError{Path: path}
	if peer, err := peerOf(conn.(*net.UnixConn)); err == nil {
		held.PID = int(peer.Pid)
	}
	return held
}

// listen opens a socket, and replaces a stale one. The error is a *HeldError if a process listens there.
func listen(path string) (*net.UnixListener, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := holder(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Linux gives the file the socket's mode less the umask: no other user gets in before the chmod.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(false) // see socket.close
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ul.Close())
	}
	return ul, nil
}

// lockFolder serializes processes: else the later would remove the socket of the earlier.
func lockFolder(path string) (unlock func(), err error) {
	folder := filepath.Dir(path)
	fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &HeldError{Path: path} // it is about to listen
		}
		return nil, fmt.Errorf("locking %s: %w", folder, err)
	}
	return func() { unix.Close(fd) }, nil
}

type fileID struct{ dev, ino uint64 }

func fileIDOf(path string) (id fileID, err error) {
	var st unix.Stat_t
	if err = unix.Lstat(path, &st); err == nil {
		id = fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev has another type on other systems
	}
	return id, err
}
