// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

const pollInterval = time.Second

// version distinguishes the versions of a file.
type version struct {
	inode    uint64
	size     int64
	modified time.Time
}

func versionOf(info fs.FileInfo) version {
	v := version{size: info.Size(), modified: info.ModTime()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		v.inode = s.Ino
	}
	return v
}

var errChanging = errors.New("the file changes while it is read")

// checkedSize is in bytes.
const checkedSize = 1 << 20

// CheckFile checks the beginning of a file, as a trial has no time for more. It logs skipped records as a load
// does, if the beginning is the whole file.
func CheckFile(c Config, log Logger) error {
	f, _, err := open(c.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := &io.LimitedReader{R: f, N: checkedSize}
	all, err := rules.Read(r, c.Zone, "", c.Limits)
	switch {
	case err == nil && r.N > 0:
		logSkipped(log, c.Zone, &all.Stats)
	case err != nil && r.N > 0: // else the end may be missing
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	return nil
}

func open(path string) (*os.File, version, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, version{}, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s: not a regular file", path)
	default:
		return f, versionOf(info), nil
	}
	f.Close()
	return nil, version{}, err
}

// readFile returns errors with the path, and the line if known.
func readFile(ctx context.Context, c *Config) (*rules.Rules, version, error) {
	f, v, err := open(c.Path)
	if err != nil {
		return nil, v, err
	}
	defer f.Close()
	r, err := rules.Read(bufio.NewReaderSize(&untilDone{ctx, f}, 64<<10), c.Zone, "", c.Limits)
	if info, statErr := f.Stat(); statErr == nil && versionOf(info) != v {
		return nil, v, fmt.Errorf("%s: %w", c.Path, errChanging)
	}
	if err != nil {
		return nil, v, fmt.Errorf("%s: %w", c.Path, err)
	}
	return r, v, nil
}

// untilDone is a reader that fails once ctx has ended.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r *untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// reading admits one file at a time, which leaves resources to queries.
var reading = make(chan struct{}, 1)

// follow reads the file whenever it changes, until ctx ends.
func (s *Source) follow(ctx context.Context) {
	defer close(s.done)
	f := follower{source: s}
	s.firstErr = f.read(ctx)
	const attempts = 10
	for range attempts {
		if !errors.Is(s.firstErr, errChanging) || !wait(ctx, pollInterval) {
			break
		}
		s.firstErr = f.read(ctx)
	}
	close(s.first)
	for wait(ctx, pollInterval) {
		f.poll(ctx)
	}
}

type follower struct {
	source *Source
	// taken is the last read version, failed or not.
	taken version
	// seen is the version at the last look.
	seen version
}

// poll reads a changed file: at once after a rename, which is complete, else when unchanged for pollInterval.
func (f *follower) poll(ctx context.Context) {
	s := f.source
	info, err := os.Stat(s.config.Path)
	if err != nil {
		if f.taken != (version{}) || f.seen != (version{}) {
			f.taken, f.seen = version{}, version{}
			s.failed(err)
		}
		return
	}
	v := versionOf(info)
	settled := v == f.seen || f.seen != (version{}) && v.inode != f.seen.inode
	f.seen = v
	if v == f.taken {
		s.update(func(st *Status) {
			if st.Problem == "" {
				st.Checked = time.Now()
			}
		})
		return
	}
	if settled {
		_ = f.read(ctx) // logged there
	}
}

// read may return the error of ctx.
func (f *follower) read(ctx context.Context) error {
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s := f.source
	began := time.Now()
	r, v, err := readFile(ctx, &s.config)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.seen = v
	if errors.Is(err, errChanging) {
		f.seen = version{} // not settled
		return err
	}
	f.taken = v
	if err != nil {
		s.failed(err)
		return err
	}
	s.loaded(r, time.Since(began))
	return nil
}

// wait reports whether ctx has not ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
