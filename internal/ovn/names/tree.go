// SPDX-License-Identifier: Apache-2.0

package names

import "github.com/miekg/dns"

// descendants counts, by name, the names below it. A name that has some exists,
// though it may have no records itself: an empty non-terminal (RFC 8020, section 2).
type descendants map[string]int32

// add counts a canonical name, or with -1 takes it back.
func (d descendants) add(name string, n int32) {
	for a := parent(name); a != "."; a = parent(a) {
		if d[a] += n; d[a] == 0 {
			delete(d, a)
		}
	}
}

func countDescendants(names map[string]*entry) descendants {
	d := make(descendants)
	for name := range names {
		d.add(name, 1)
	}
	return d
}

// parent is a canonical name without its first label, "." for a single label.
func parent(name string) string {
	i, end := dns.NextLabel(name, 0)
	if end {
		return "."
	}
	return name[i:]
}

// updateBelow counts a name that had a usable record or not, and now has or has not.
func (t *Table) updateBelow(name string, had, has bool) {
	switch {
	case had && !has:
		t.below.add(name, -1)
	case has && !had:
		if t.below == nil {
			t.below = make(descendants)
		}
		t.below.add(name, 1)
	}
}
