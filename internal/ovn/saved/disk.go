// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Write replaces the file at path atomically, even if the machine crashes. Only its owner may read it.
func Write(path string, b []byte) error {
	temporary, err := writeNew(filepath.Dir(path), filepath.Base(path)+".new", b)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		_ = os.Remove(temporary)
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// Probe returns why a file can't be written in a folder, or nil.
func Probe(folder string) error {
	probe, err := writeNew(folder, ".probe", nil)
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// CheckFolder is Probe without a write, so it does not notice a full file system.
func CheckFolder(folder string) error {
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s: not a folder", folder)
	}
	if err == nil {
		err = unix.Access(folder, unix.W_OK|unix.X_OK)
	}
	var inPath *os.PathError
	if errors.As(err, &inPath) {
		err = inPath.Err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: %w for user %d", folder, err, os.Geteuid())
	}
	return fmt.Errorf("%s: %w", folder, err)
}

func writeNew(folder, name string, b []byte) (path string, err error) {
	f, err := os.CreateTemp(folder, name) // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}

var (
	errNoFile = errors.New("it is no regular file")
	errOwner  = errors.New("it belongs to another user")
	errMode   = errors.New("others may read or write it, expected mode 0600")
)

// Read returns os.ErrNotExist without a file, and refuses a file that another user could have written.
func Read(path string) (*File, error) {
	file, _, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

func ReadHead(path string) (*File, error) {
	file, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	head := make([]byte, min(int64(headLen), size))
	if _, err := io.ReadFull(file, head); err != nil {
		return nil, err
	}
	n, err := decodeHead(head, size)
	if err != nil {
		return nil, err
	}
	about := make([]byte, n)
	if _, err := io.ReadFull(file, about); err != nil {
		return nil, err
	}
	return decodeAbout(about)
}

func open(path string) (file *os.File, size int64, err error) {
	file, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil {
		err = check(info)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

func check(info os.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errNoFile
	case !ok || int(owner.Uid) != os.Geteuid():
		return errOwner
	case info.Mode().Perm()&0o077 != 0:
		return errMode
	case info.Size() > MaxSize:
		return errTooLarge
	}
	return nil
}

// Sweep deletes files with a prefix that are older than an hour: interrupted writes, and files of other
// configurations.
func Sweep(folder, prefix string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // Write reports it
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), prefix) && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
}

func Boot() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}

// Uptime includes suspensions. This clock cannot be set.
func Uptime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("the time since the boot: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
