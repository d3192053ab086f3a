// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/ovn/names"
)

const (
	// pollInterval is for changes without inotify events: a root created later, or a remote file system.
	pollInterval = 5 * time.Second
	// settleTime gathers changes: a starting agent writes all files.
	settleTime = 20 * time.Millisecond
	// firstRead is how long Acquire waits.
	firstRead = 5 * time.Second
)

// Logger logs changes of state.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Snapshot has the names of all networks. It is immutable.
type Snapshot struct {
	networks names.ShardedMap[string, *Network] // unread if its files can't be read
	complete bool
	Stats    Stats
	Time     time.Time
}

// Stats counts what a Source has read.
type Stats struct {
	Networks, Names int
	// BadLines counts a line once while it stays in its file.
	BadLines uint64
	Unread   int
}

// Network returns a network by Neutron's UUID, nil without a file. It reports false if unknown: the file was
// never readable, or may be in an unlisted folder.
func (s *Snapshot) Network(id string) (n *Network, read bool) {
	switch n, _ = s.networks.Get(id); n {
	case unread:
		return nil, false
	case nil:
		return nil, s.complete || !isNetwork(id)
	}
	return n, true
}

// Source follows a folder.
type Source struct {
	dir  string
	log  Logger
	poll time.Duration // pollInterval; tests raise it

	current atomic.Pointer[Snapshot] // nil before the first
	changed atomic.Pointer[chan struct{}]
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has ended
	first   chan struct{} // closed with the first snapshot
	tree    tree          // of run

	problemsMu sync.Mutex
	problems   []string // guarded by problemsMu
}

// Dir returns the folder.
func (s *Source) Dir() string { return s.dir }

// Snapshot returns the current names, nil before the first read is complete.
func (s *Source) Snapshot() *Snapshot { return s.current.Load() }

// Changed returns a channel that is closed when the current snapshot is replaced.
func (s *Source) Changed() <-chan struct{} { return *s.changed.Load() }

// Problems returns why files can't be read.
func (s *Source) Problems() []string {
	s.problemsMu.Lock()
	defer s.problemsMu.Unlock()
	return s.problems
}

func start(dir string, log Logger, poll time.Duration) *Source {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{dir: dir, log: log, poll: poll, cancel: cancel, done: make(chan struct{}), first: make(chan struct{})}
	changed := make(chan struct{})
	s.changed.Store(&changed)
	go s.run(ctx)
	return s
}

func (s *Source) stop() {
	s.cancel()
	<-s.done
}

func (s *Source) awaitFirst() {
	t := time.NewTimer(firstRead)
	defer t.Stop()
	select {
	case <-s.first:
	case <-t.C:
		s.log.Warningf("%s: reading it takes more than %s", s.dir, firstRead)
	}
}

func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	s.tree = newTree(s.dir, s.log)
	defer s.tree.close()
	s.tree.scan()
	s.publish()
	close(s.first)
	poll := time.NewTicker(s.poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			s.tree.scan()
		case e, open := <-s.tree.events():
			if open {
				s.tree.take(ctx, e)
			} else {
				s.tree.endEvents()
			}
		}
		s.publish()
	}
}

// take gathers events within settleTime.
func (t *tree) take(ctx context.Context, e event) {
	changed, all := map[string]bool{}, false
	add := func(e event) {
		id, any := t.changed(e)
		all = all || any
		if id != "" {
			changed[id] = true
		}
	}
	if add(e); len(changed) == 0 && !all {
		return
	}
	settled := time.NewTimer(settleTime)
	defer settled.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return
		case <-settled.C:
			waiting = false
		case e, open := <-t.events():
			if open {
				add(e)
			} else {
				t.endEvents()
			}
		}
	}
	for id := range changed {
		t.read(id, true)
	}
	if all {
		t.scan()
	}
	t.logProblems()
}

// changed returns the changed network, or "". all requires a full scan.
func (t *tree) changed(e event) (id string, all bool) {
	network, watched := t.watches[e.wd]
	switch {
	case e.mask&unix.IN_IGNORED != 0: // the watch has ended
		delete(t.watches, e.wd)
		return "", true
	case !watched || e.name == "": // an overflow, or the folder itself
		return "", true
	case network == "":
		return "", e.mask&unix.IN_ISDIR != 0
	case e.name != fileName || e.mask&unix.IN_CREATE != 0: // a created file is still to be written
		return "", false
	}
	return network, false
}

func (s *Source) publish() {
	t := &s.tree
	problems := t.problems()
	s.problemsMu.Lock()
	s.problems = problems
	s.problemsMu.Unlock()
	t.stats.Unread = len(problems)
	old := s.current.Load()
	if old != nil && len(t.edits) == 0 && old.Stats == t.stats && old.complete == t.complete {
		return
	}
	next := &Snapshot{complete: t.complete, Stats: t.stats, Time: time.Now()}
	if old != nil {
		next.networks = old.networks
		if !t.edited {
			next.Time = old.Time
		}
	}
	edit := next.networks.Edit()
	for id, n := range t.edits {
		if n == nil {
			edit.Remove(id)
		} else {
			edit.Set(id, n)
		}
	}
	next.networks = edit.Done()
	t.edits, t.edited = map[string]*Network{}, false
	s.current.Store(next)
	again := make(chan struct{})
	close(*s.changed.Swap(&again))
}

// isNetwork reports whether name is a UUID (RFC 9562, section 4).
func isNetwork(name string) bool {
	if len(name) != 36 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c < '0' || c > '9' && c < 'A' || c > 'F' && c < 'a' || c > 'f':
			return false
		}
	}
	return true
}

// isSegment reports whether name is a segmentation id.
func isSegment(name string) bool {
	return name != "" && !slices.ContainsFunc([]byte(name), func(c byte) bool { return c < '0' || c > '9' })
}

// isMissing includes a file that is being removed.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
