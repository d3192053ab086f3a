// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const fileName = "addn_hosts"

// tree belongs to one goroutine.
type tree struct {
	root string
	log  Logger
	// inotify is nil if it does not work.
	inotify *inotify
	// watches has the network of each watch, "" for other folders.
	watches        map[int32]string
	unwatched      bool
	files          map[string]*files // by network
	folderProblems map[string]string
	// complete: the last scan could list all folders.
	complete bool
	logged   map[string]string
	missing  bool // the missing root was logged

	stats Stats
	// edits are changed since the last snapshot, nil for removed. edited: names differ.
	edits  map[string]*Network
	edited bool
}

// files are the files of a network: one, or one for each segment.
type files struct {
	paths []string
	// read has the stamps by path.
	read     map[string]stamp
	network  *Network            // nil for none, or unread
	badLines map[uint64]struct{} // hashes of the bad lines
	problem  map[string]string
}

// stamp changes when a file is written, replaced or made readable.
type stamp struct {
	inode   uint64
	size    int64 // bytes
	changed int64 // Unix time in nanoseconds
}

func newTree(root string, log Logger) tree {
	t := tree{
		root: root, log: log, watches: map[int32]string{}, files: map[string]*files{},
		folderProblems: map[string]string{}, logged: map[string]string{}, edits: map[string]*Network{},
	}
	var err error
	if t.inotify, err = newInotify(); err != nil {
		log.Warningf("%s: %v; changes are found within %s", root, err, pollInterval)
	}
	return t
}

func (t *tree) close() {
	if t.inotify != nil {
		t.inotify.close()
	}
}

// events returns nil without inotify.
func (t *tree) events() <-chan event {
	if t.inotify == nil {
		return nil
	}
	return t.inotify.events
}

// endEvents avoids receives from the closed channel.
func (t *tree) endEvents() {
	t.log.Warningf("%s: inotify has ended: %v; changes are found within %s", t.root, t.inotify.err, pollInterval)
	t.close()
	t.inotify = nil
	clear(t.watches)
}

// watch takes "" for other folders.
func (t *tree) watch(dir, network string) {
	if t.inotify == nil {
		return
	}
	wd, err := t.inotify.add(dir)
	switch {
	case err == nil:
		t.watches[wd] = network
	case errors.Is(err, unix.ENOSPC) && !t.unwatched:
		t.unwatched = true
		t.log.Warningf("%s: inotify has no room for more folders (sysctl fs.inotify.max_user_watches); changes in some are found within %s only", t.root, pollInterval)
	}
	// After other errors the read fails too, and logs.
}

// scan adds watches first, so that later changes are events.
func (t *tree) scan() {
	found := map[string][]string{}
	clear(t.folderProblems)
	t.complete = t.list(t.root, true, found)
	t.logMissing()
	for id, paths := range found {
		f := t.files[id]
		if f == nil {
			f = &files{problem: map[string]string{}}
			t.files[id] = f
		}
		if !t.complete {
			// The network may be in an unlisted folder.
			paths = slices.Compact(slices.Sorted(slices.Values(slices.Concat(f.paths, paths))))
		}
		force := !slices.Equal(f.paths, paths)
		f.paths = paths
		t.read(id, force)
	}
	for id := range t.files {
		if _, ok := found[id]; !ok && t.complete {
			t.remove(id)
		}
	}
	t.logProblems()
}

// list reports whether it could read the folder and its segments.
func (t *tree) list(dir string, segments bool, found map[string][]string) (complete bool) {
	t.watch(dir, "")
	entries, err := os.ReadDir(dir)
	if err != nil && !isMissing(err) {
		t.folderProblems[dir] = explain(err, dir, "rx for it, and x for the folders above")
		return false
	}
	if dir == t.root {
		// A file hides no network.
		if err := CheckFolder(dir); err != nil {
			t.folderProblems[dir] = err.Error()
		}
	}
	complete = true
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		switch {
		case isNetwork(name):
			t.watch(path, name)
			found[name] = append(found[name], filepath.Join(path, fileName))
		case segments && isSegment(name):
			complete = t.list(path, false, found) && complete
		}
	}
	return complete
}

// CheckFolder returns an error if the path exists and is no folder.
func CheckFolder(path string) error {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("%s: not a folder; expected dhcp_confs of Neutron's DHCP agent", path)
	}
	return nil
}

func (t *tree) logMissing() {
	_, err := os.Stat(t.root)
	switch missing := err != nil && isMissing(err); {
	case missing && !t.missing:
		t.log.Warningf("%s is not there: no network has names until a DHCP agent of Neutron writes them; expected the agent's dhcp_confs", t.root)
		t.missing = true
	case !missing && t.missing:
		t.log.Infof("%s is there", t.root)
		t.missing = false
	}
}

// read reads changed files, with force all files.
func (t *tree) read(id string, force bool) {
	f := t.files[id]
	if f == nil {
		return
	}
	now := make(map[string]stamp, len(f.paths))
	clear(f.problem)
	for _, path := range f.paths {
		switch s, err := stampOf(path); {
		case err == nil:
			now[path] = s
		case !isMissing(err):
			f.problem[path] = explain(err, path, "x for its folders")
		}
	}
	switch {
	case len(f.problem) > 0: // the previous names stay
	case !t.complete && !f.network.isRead(): // a part of the network may be in an unlisted folder
	case len(now) == 0:
		t.withdraw(id)
	case force || !maps.Equal(now, f.read):
		t.build(id, now)
	}
	if len(f.problem) > 0 && f.network == nil {
		t.set(id, unread)
	}
}

// build keeps the network if a file can't be read.
func (t *tree) build(id string, now map[string]stamp) {
	f := t.files[id]
	b, bad := newBuilder(), &badLines{known: f.badLines, seen: map[uint64]struct{}{}}
	for path := range now {
		err := readFile(path, lines{host: b.add, bad: func(line int, text []byte, err error) {
			bad.add(path, line, text, err)
		}})
		switch {
		case err != nil && isMissing(err): // its removal is an event too
		case err != nil:
			f.problem[path] = explain(err, path, "r for it")
		}
	}
	if len(f.problem) > 0 {
		return
	}
	bad.logTo(t.log)
	t.stats.BadLines += bad.fresh
	f.badLines, f.read = bad.seen, now
	t.set(id, b.done(time.Now()))
}

// set takes nil for none, or unread.
func (t *tree) set(id string, n *Network) {
	f := t.files[id]
	if f.network.isRead() {
		t.stats.Networks--
		t.stats.Names -= f.network.names
	}
	if n.isRead() {
		t.stats.Networks++
		t.stats.Names += n.names
	}
	if f.network != nil || n != nil {
		t.edits[id] = n
		t.edited = t.edited || f.network.isRead() || n.isRead()
	}
	f.network = n
}

// withdraw removes a network's names. Its folder may stay.
func (t *tree) withdraw(id string) {
	t.set(id, nil)
	t.files[id].read, t.files[id].badLines = nil, nil
}

func (t *tree) remove(id string) {
	t.withdraw(id)
	delete(t.files, id)
}

func (t *tree) allProblems() map[string]string {
	all := maps.Clone(t.folderProblems)
	for _, f := range t.files {
		maps.Copy(all, f.problem)
	}
	return all
}

func (t *tree) problems() (texts []string) {
	all := t.allProblems()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, all[path])
	}
	return texts
}

// maxLogged limits the log lines of one kind at a time.
const maxLogged = 5

// logProblems logs the begin and end of problems.
func (t *tree) logProblems() {
	all := t.allProblems()
	if len(all)+len(t.logged) == 0 {
		return
	}
	fresh := 0
	for path, text := range all {
		if t.logged[path] == text {
			continue
		}
		if fresh++; fresh <= maxLogged {
			t.log.Warningf("%s", text)
		}
	}
	if fresh > maxLogged {
		t.log.Warningf("%s: %d further files or folders can't be read", t.root, fresh-maxLogged)
	}
	if len(all) == 0 {
		t.log.Infof("%s: all files are read", t.root)
	}
	t.logged = all
}

type badLines struct {
	known, seen map[uint64]struct{} // hashes of the previous files, and of these
	fresh       uint64
	texts       []string // of the first fresh ones
}

var lineSeed = maphash.MakeSeed()

func (b *badLines) add(path string, line int, text []byte, err error) {
	problem := fmt.Sprintf("%s: %.80q: %v", path, text, err)
	hash := maphash.String(lineSeed, problem)
	if _, again := b.seen[hash]; again {
		return
	}
	b.seen[hash] = struct{}{}
	if _, known := b.known[hash]; known {
		return
	}
	if b.fresh++; b.fresh <= maxLogged {
		b.texts = append(b.texts, fmt.Sprintf("%s:%d: %.80q is skipped: %v", path, line, text, err))
	}
}

func (b *badLines) logTo(log Logger) {
	for _, text := range b.texts {
		log.Warningf("%s", text)
	}
	if b.fresh > maxLogged {
		log.Warningf("%d further lines are skipped beside these", b.fresh-maxLogged)
	}
}

func stampOf(path string) (stamp, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, fmt.Errorf("%s: no stat", path)
	}
	return stamp{st.Ino, st.Size, st.Ctim.Nano()}, nil
}

var errNotRegular = errors.New("not a regular file")

// readFile does not follow links, nor wait for the writer of a pipe.
func readFile(path string, l lines) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, errNotRegular)
	}
	return parse(f, l)
}

// explain adds the required permission.
func explain(err error, path, want string) string {
	if !errors.Is(err, fs.ErrPermission) {
		return err.Error()
	}
	who := strconv.Itoa(os.Geteuid())
	if u, lookupErr := user.LookupId(who); lookupErr == nil {
		who = u.Username
	}
	return fmt.Sprintf("%s: permission denied for user %s; expected %s, see deploy/puntdns.tmpfiles", path, who, want)
}
