// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// With O_NONBLOCK, opening a pipe does not wait for a reader.
	openFlags = os.O_WRONLY | os.O_APPEND | unix.O_NONBLOCK
	// fileMode applies regardless of the umask.
	fileMode = 0o640
	// rotatedLayout is the suffix of a rotated file. The names sort by time.
	rotatedLayout = ".20060102T150405.000000Z"
	retryRotation = time.Minute
	// lockTimeout is the file.lockTimeout of a Writer.
	lockTimeout = time.Second
)

// Rotation says when to rotate a file, and what to keep.
type Rotation struct {
	// Size (in bytes) and Age cause a rotation; 0 never does.
	Size int64
	Age  time.Duration
	// Keep is the number of rotated files, negative for all. Files rotated longer than KeepAge ago are
	// removed anyway; 0 is no limit.
	Keep    int
	KeepAge time.Duration
}

// file is a file or a pipe. Other processes may write, move and remove it.
type file struct {
	path     string
	log      Logger
	timeouts *timeouts
	f        *os.File // nil while it is not open
	info     fs.FileInfo
	// born is the creation time of a regular file.
	born time.Time
	// half: the target ends in an incomplete line of this writer.
	half bool
	// lockTimeout limits the wait for the file's lock, which others hold for one write.
	lockTimeout time.Duration
	// lockHeld: the last wait timed out, so lock tries once without waiting.
	lockHeld bool
	// kept could not be removed, and are logged once.
	kept map[string]bool
	// mayRotate is the earliest next rotation after a failed one.
	mayRotate time.Time
	rotation  func() Rotation
	rotated   func()
}

func (s *file) open() error {
	f, err := os.OpenFile(s.path, openFlags|os.O_CREATE|os.O_EXCL, fileMode)
	if err == nil {
		err = f.Chmod(fileMode)
	} else if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(s.path, openFlags, 0)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil && info.Mode().IsRegular() {
		s.born = bornAt(f, info)
		err = s.mendEnd(f)
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return err
	}
	s.f, s.info, s.half = f, info, false
	return nil
}

// lock takes flock(2), as each writer does to change the file. Without ok (held, or no locks) the writer only
// appends. Call unlock in any case.
func (s *file) lock(ctx context.Context, f *os.File) (ok bool, unlock func()) {
	fd := int(f.Fd())
	ctx, cancel := context.WithTimeout(ctx, s.lockTimeout)
	defer cancel()
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			s.lockHeld = false
			return true, func() { _ = unix.Flock(fd, unix.LOCK_UN) }
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if s.lockHeld || !errors.Is(err, unix.EWOULDBLOCK) {
			return false, func() {}
		}
		select {
		case <-ctx.Done():
			s.lockHeld = true
		case <-time.After(time.Millisecond):
		}
	}
}

// bornAt returns the creation time, else the last change.
func bornAt(f *os.File, info fs.FileInfo) time.Time {
	var x unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return info.ModTime()
	}
	return time.Unix(x.Btime.Sec, int64(x.Btime.Nsec))
}

// mendEnd removes an incomplete last line of a killed writer, or ends the line if another process may have
// written it.
func (s *file) mendEnd(f *os.File) error {
	locked, unlock := s.lock(context.Background(), f)
	defer unlock()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	r, err := os.Open(s.path)
	if err != nil {
		return nil // this user may append, but not read
	}
	defer r.Close()
	const most = 2 * chunkSize
	end := make([]byte, min(size, most))
	if _, err := r.ReadAt(end, size-int64(len(end))); err != nil || len(end) == 0 {
		return nil
	}
	whole := wholeLines(end, len(end))
	half := end[whole:]
	switch {
	case len(half) == 0:
		return nil
	case locked && (bytes.HasPrefix(half, []byte(lineStart)) || bytes.HasPrefix([]byte(lineStart), half)):
		s.log.Warningf("%s: its last line is a half one, which is removed", s.path)
		return f.Truncate(size - int64(len(half)))
	}
	_, err = f.Write([]byte("\n"))
	return err
}

func (s *file) write(ctx context.Context, p []byte) (n int, err error) {
	if err := s.follow(); err != nil {
		return 0, err
	}
	if !s.info.Mode().IsRegular() {
		// A pipe's reader may have stopped.
		_ = s.f.SetWriteDeadline(time.Now().Add(s.timeouts.write))
		defer context.AfterFunc(ctx, func() { _ = s.f.SetWriteDeadline(time.Now()) })()
		if err := s.endHalf(); err != nil {
			return 0, err
		}
		n, err = s.f.Write(p)
		whole := wholeLines(p, n)
		s.half = whole < n
		return whole, err
	}
	size, err := s.size()
	if err != nil {
		return 0, err
	}
	if s.isDue(size, len(p)) {
		s.rotate()
		if s.f == nil {
			if err := s.open(); err != nil {
				return 0, err
			}
		}
	}
	locked, unlock := s.lock(ctx, s.f)
	defer unlock()
	if err := s.endHalf(); err != nil {
		return 0, err
	}
	if size, err = s.size(); err != nil {
		return 0, err
	}
	n, err = s.f.Write(p)
	whole := wholeLines(p, n)
	if whole < n {
		s.dropHalfLine(locked, size, n, whole)
	}
	return whole, err
}

func (s *file) endHalf() error {
	if !s.half {
		return nil
	}
	_, err := s.f.Write([]byte("\n"))
	s.half = err != nil
	return err
}

// wholeLines counts the bytes of complete lines among the first n.
func wholeLines(p []byte, n int) int { return bytes.LastIndexByte(p[:n], '\n') + 1 }

func (s *file) size() (int64, error) {
	info, err := s.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// dropHalfLine removes the incomplete line of a write of n bytes at size, or ends the line if another process
// may have written since.
func (s *file) dropHalfLine(locked bool, size int64, n, whole int) {
	if now, err := s.size(); locked && err == nil && now == size+int64(n) && s.f.Truncate(size+int64(whole)) == nil {
		return
	}
	s.half = true
	_ = s.endHalf() // the next write tries again
}

// follow opens the file, and opens it again if the path names another file.
func (s *file) follow() error {
	if s.f == nil {
		return s.open()
	}
	there, err := os.Stat(s.path)
	if err == nil && os.SameFile(there, s.info) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // the folder is unreadable; the open file is still writable
	}
	removed := false
	if old, err := s.f.Stat(); err == nil {
		sys, ok := old.Sys().(*syscall.Stat_t)
		removed = ok && sys.Nlink == 0
	}
	s.close()
	if err := s.open(); err != nil {
		return err
	}
	if removed {
		s.log.Warningf("%s: the file was removed, with the lines in it; they go to a new one", s.path)
	} else {
		s.log.Infof("%s: the file was moved; lines go to the one that has its name now", s.path)
	}
	return nil
}

func (s *file) isDue(size int64, more int) bool {
	r, now := s.rotation(), time.Now()
	if size == 0 || now.Before(s.mayRotate) {
		return false
	}
	return r.Size > 0 && size+int64(more) > r.Size || r.Age > 0 && now.Sub(s.born) >= r.Age
}

// rotate renames and closes the file. After an error it stays in use.
func (s *file) rotate() {
	now := time.Now()
	err := s.rename(s.path + now.UTC().Format(rotatedLayout))
	if errors.Is(err, errElsewhere) {
		return // the next write opens the new file
	}
	if err != nil {
		s.mayRotate = now.Add(retryRotation)
		s.log.Warningf("%s: not rotated, and written on; the next attempt is in %s: %v", s.path, retryRotation, err)
		return
	}
	s.close()
	s.rotated()
	s.prune(now)
}

var errElsewhere = errors.New("another process rotates it")

// rename returns errElsewhere if another process holds the lock or has moved the file.
func (s *file) rename(to string) error {
	fd := int(s.f.Fd())
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errElsewhere
	}
	defer func() { _ = unix.Flock(fd, unix.LOCK_UN) }()
	if there, err := os.Stat(s.path); err != nil || !os.SameFile(there, s.info) {
		return errElsewhere
	}
	return unix.Renameat2(unix.AT_FDCWD, s.path, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

func (s *file) maintain() {
	if s.f != nil && s.info.Mode().IsRegular() && s.follow() == nil {
		if size, err := s.size(); err == nil && s.isDue(size, 0) {
			s.rotate() // the next write opens a new file
		}
	}
	s.prune(time.Now())
}

func (s *file) prune(now time.Time) {
	r := s.rotation()
	if r.Size == 0 && r.Age == 0 {
		return // another program rotates the file
	}
	old, kept := rotatedFiles(s.path), map[string]bool{}
	for i, o := range old {
		newer := len(old) - 1 - i
		if r.Keep < 0 || newer < r.Keep {
			if r.KeepAge == 0 || now.Sub(o.at) < r.KeepAge {
				continue
			}
		}
		if err := os.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			if kept[o.path] = true; !s.kept[o.path] {
				s.log.Warningf("%s: an old file is not removed: %v", s.path, err)
			}
		}
	}
	s.kept = kept
}

type rotatedFile struct {
	path string
	at   time.Time
}

// rotatedFiles returns the oldest first, also with a suffix such as .gz.
func rotatedFiles(path string) (all []rotatedFile) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // it returns the entries that it could read
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		if !ok || len(stamp) < len(rotatedLayout) || !e.Type().IsRegular() {
			continue
		}
		stamp, suffix := stamp[:len(rotatedLayout)], stamp[len(rotatedLayout):]
		at, err := time.Parse(rotatedLayout, stamp)
		if err != nil || suffix != "" && suffix[0] != '.' {
			continue
		}
		all = append(all, rotatedFile{filepath.Join(filepath.Dir(path), e.Name()), at})
	}
	slices.SortFunc(all, func(a, b rotatedFile) int { return a.at.Compare(b.at) })
	return all
}

func (s *file) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}
