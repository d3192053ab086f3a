// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/refcount"
)

// sources has all sources of the process, by folder.
var sources refcount.Pool[string, *Source]

// Acquire follows a folder, or shares an open source. It returns when the names have been read, or after firstRead: then
// Source.Snapshot is nil for a while.
func Acquire(dir string, log Logger) *Source {
	s, _ := sources.Acquire(dir, func() (*Source, error) { return start(dir, log, pollInterval), nil }) // no error
	s.awaitFirst()
	return s
}

// Release undoes one Acquire. The last one returns when all goroutines have ended.
func (s *Source) Release() {
	if sources.Release(s.dir, s) {
		s.stop()
	}
}

// All returns the sources of the process, in the order of their folders.
func All() []*Source {
	all := sources.All()
	slices.SortFunc(all, func(a, b *Source) int { return strings.Compare(a.dir, b.dir) })
	return all
}
