// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/refcount"
)

var sources refcount.Pool[string, *Source]

// Acquire returns the shared Source of a folder. It waits up to firstRead for the names; after that Snapshot
// is nil for a while.
func Acquire(dir string, log Logger) *Source {
	s, _ := sources.Acquire(dir, func() (*Source, error) { return start(dir, log, pollInterval), nil }) // no error
	s.awaitFirst()
	return s
}

// Release undoes one Acquire. The last one waits for the goroutines to end.
func (s *Source) Release() {
	if sources.Release(s.dir, s) {
		s.stop()
	}
}

// All returns the sources of the process, by folder.
func All() []*Source {
	all := sources.All()
	slices.SortFunc(all, func(a, b *Source) int { return strings.Compare(a.dir, b.dir) })
	return all
}
