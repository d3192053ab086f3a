// SPDX-License-Identifier: Apache-2.0

package trail

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
	// openFlags are those of a file. O_NONBLOCK is for pipes: none is waited for.
	openFlags = os.O_WRONLY | os.O_APPEND | unix.O_NONBLOCK
	// fileMode is that of a file that is made here, whatever the umask.
	fileMode = 0o640
	// rotatedLayout is the end of the name of an old file: when it was rotated. The names are
	// in the order of the times.
	rotatedLayout = ".20060102T150405.000000Z"
	// retryRotation is the time between attempts of a rotation that fails.
	retryRotation = time.Minute
	// lockTimeout is file.lockTimeout.
	lockTimeout = time.Second
)

// Rotation says when a file is rotated, and how long old ones are kept.
type Rotation struct {
	// Size in bytes and Age are those of a file that is rotated; 0 for no bound.
	Size int64
	Age  time.Duration
	// Keep is how many old files are kept, below 0 all. None is kept that was rotated longer
	// ago than KeepAge; 0 for no bound.
	Keep    int
	KeepAge time.Duration
}

// file is a sink. Other processes may write to it, move it and remove it.
type file struct {
	path string
	log  Logger
	// timeouts are those of the writer.
	timeouts *timeouts
	f        *os.File // nil while it is not open
	info     fs.FileInfo
	// born is when the file was made, of one that is regular.
	born time.Time
	// half is set while the target ends in a half line of this writer.
	half bool
	// lockTimeout is how long the lock of the file is waited for. Other writers have it for one
	// write.
	lockTimeout time.Duration
	// lockHeld is set if the lock was not to be had the last time; then it is not waited for.
	lockHeld bool
	// kept are old files that could not be removed, of which the log has told.
	kept map[string]bool
	// mayRotate is when a rotation may be tried, after one that has failed.
	mayRotate time.Time
	// rotation is in force from the next write on; rotated counts.
	rotation func() Rotation
	rotated  func()
}

// open opens the file, and makes it if there is none.
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

// lock takes the lock of an open file (flock(2)), which each writer has while it changes the file. ok
// is not set if another keeps it, or the file system has none: then a writer appends, and takes
// nothing away. unlock is to be called in any case.
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

// bornAt returns when a file was made; or was changed last, where the file system does not
// know it.
func bornAt(f *os.File, info fs.FileInfo) time.Time {
	var x unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return info.ModTime()
	}
	return time.Unix(x.Btime.Sec, int64(x.Btime.Nsec))
}

// mendEnd takes a half line away that a file ends in: its writer was killed, or the machine was.
// What is no line of a trail is ended by a newline, and so is a half line that another process may
// be writing.
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
		return nil // it may be appended to, but not read
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

// write implements sink.
func (s *file) write(ctx context.Context, p []byte) (n int, err error) {
	if err := s.follow(); err != nil {
		return 0, err
	}
	if !s.info.Mode().IsRegular() {
		// A pipe may be full for good.
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

// endHalf ends a half line that could not be taken away.
func (s *file) endHalf() error {
	if !s.half {
		return nil
	}
	_, err := s.f.Write([]byte("\n"))
	s.half = err != nil
	return err
}

// wholeLines returns how many of n bytes of p are whole lines.
func wholeLines(p []byte, n int) int { return bytes.LastIndexByte(p[:n], '\n') + 1 }

func (s *file) size() (int64, error) {
	info, err := s.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// dropHalfLine takes the begin of a line away that is behind the whole ones; size is that before
// n bytes were written. Where another process has written meanwhile, or may, it ends the line.
func (s *file) dropHalfLine(locked bool, size int64, n, whole int) {
	if now, err := s.size(); locked && err == nil && now == size+int64(n) && s.f.Truncate(size+int64(whole)) == nil {
		return
	}
	s.half = true
	_ = s.endHalf() // else the next write does
}

// follow opens the file, once more if the path has another one by now.
func (s *file) follow() error {
	if s.f == nil {
		return s.open()
	}
	there, err := os.Stat(s.path)
	if err == nil && os.SameFile(there, s.info) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // the folder can't be read at the moment; the file can be written to
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

// isDue reports whether a file of that size is to be rotated before more bytes are written.
func (s *file) isDue(size int64, more int) bool {
	r, now := s.rotation(), time.Now()
	if size == 0 || now.Before(s.mayRotate) {
		return false
	}
	return r.Size > 0 && size+int64(more) > r.Size || r.Age > 0 && now.Sub(s.born) >= r.Age
}

// rotate gives the file the name of an old one, and closes it. If it can't, the file stays.
func (s *file) rotate() {
	now := time.Now()
	err := s.rename(s.path + now.UTC().Format(rotatedLayout))
	if errors.Is(err, errElsewhere) {
		return // the next write follows
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

// rename renames the file, unless another process has just done so: the lock of the file is for
// that.
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

// maintain implements sink: it does what is due though there is no line to write.
func (s *file) maintain() {
	if s.f != nil && s.info.Mode().IsRegular() && s.follow() == nil {
		if size, err := s.size(); err == nil && s.isDue(size, 0) {
			s.rotate() // the next write opens a new one
		}
	}
	s.prune(time.Now())
}

// prune removes old files that are not to be kept.
func (s *file) prune(now time.Time) {
	r := s.rotation()
	if r.Size == 0 && r.Age == 0 {
		return // somebody else rotates
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

// rotatedFile is a file that was rotated.
type rotatedFile struct {
	path string
	at   time.Time
}

// rotatedFiles returns those of a file, the oldest first. One with a suffix, as by a program that
// compresses, is one too.
func rotatedFiles(path string) (all []rotatedFile) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // those that could be read
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

// close implements sink.
func (s *file) close() {
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
}
