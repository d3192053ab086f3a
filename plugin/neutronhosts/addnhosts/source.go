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
	// pollInterval is the time between scans of all files, for changes without an event of inotify: the root
	// is created later, or the file system is remote.
	pollInterval = 5 * time.Second
	// settleTime is the wait for further changes before files are read: an agent that starts writes the files
	// of all networks.
	settleTime = 20 * time.Millisecond
	// firstRead bounds the wait of Acquire for the names.
	firstRead = 5 * time.Second
)

// Logger logs changes of state.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Snapshot has the names of all networks. It is immutable.
type Snapshot struct {
	networks names.ShardedMap[string, *Network] // unread for one whose files can't be read
	// complete is set if all folders could be listed.
	complete bool
	Stats    Stats
	// Time is the time of the last change of a name.
	Time time.Time
}

// Stats counts what a Source has read.
type Stats struct {
	Networks, Names int // of files that could be read
	// BadLines counts skipped lines. A line that stays in the next version of its file counts once.
	BadLines uint64
	// Unread counts files and folders that can't be read.
	Unread int
}

// Network returns a network by its UUID as Neutron writes it, nil without a file. It reports false if this is unknown: the
// file was never readable, or the network may be in a folder that can't be listed.
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

// Problems returns the reasons of files that can't be read.
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

// awaitFirst waits for the first snapshot.
func (s *Source) awaitFirst() {
	t := time.NewTimer(firstRead)
	defer t.Stop()
	select {
	case <-s.first:
	case <-t.C:
		s.log.Warningf("%s: reading it takes more than %s", s.dir, firstRead)
	}
}

// run follows the folder until ctx ends.
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

// take reads the files that e has changed, and further events within settleTime.
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
	t.tellProblems()
}

// changed returns the network whose file an event has changed, or "". all is set if the event requires a scan of all
// folders.
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
	case e.name != fileName || e.mask&unix.IN_CREATE != 0: // one that is made is still to be written
		return "", false
	}
	return network, false
}

// publish makes a snapshot with the changes.
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

// isNetwork reports whether a folder has the name of a network: a UUID (RFC 9562, section 4).
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

// isSegment reports whether a folder has the name of a segment: its segmentation id.
func isSegment(name string) bool {
	return name != "" && !slices.ContainsFunc([]byte(name), func(c byte) bool { return c < '0' || c > '9' })
}

// isMissing reports whether the file or folder of an error does not exist, or is being removed.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
