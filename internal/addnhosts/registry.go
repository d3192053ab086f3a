// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"maps"
	"slices"
	"sync"
)

// sources are those of the process, by folder.
var (
	sourcesMu sync.Mutex // guards sources, and refs of each
	sources   = map[string]*Source{}
)

// Acquire follows a folder, or shares what others follow. It returns when the names are
// read, or after firstRead: then Source.Snapshot is nil for a while.
func Acquire(dir string, log Logger) *Source {
	sourcesMu.Lock()
	s := sources[dir]
	if s == nil {
		s = start(dir, log)
		sources[dir] = s
	}
	s.refs++
	sourcesMu.Unlock()
	s.awaitFirst()
	return s
}

// Release undoes one Acquire. The last one returns when all goroutines have ended.
func (s *Source) Release() {
	sourcesMu.Lock()
	s.refs--
	last := s.refs == 0
	if last {
		delete(sources, s.dir)
	}
	sourcesMu.Unlock()
	if last {
		s.stop()
	}
}

// All returns the sources of the process, in the order of their folders.
func All() []*Source {
	sourcesMu.Lock()
	defer sourcesMu.Unlock()
	all := make([]*Source, 0, len(sources))
	for _, dir := range slices.Sorted(maps.Keys(sources)) {
		all = append(all, sources[dir])
	}
	return all
}
