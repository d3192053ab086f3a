// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// SwitchRef refers to a logical switch by name or ID, or to none.
type SwitchRef struct {
	Name string
	ID   origin.Network
}

// ParseSwitchRef parses a UUID or a name. A UUID is never a name, so no tenant can divert it by a switch
// name.
func ParseSwitchRef(s string) (SwitchRef, error) {
	if id, err := ovsdb.ParseUUID(s); err == nil {
		if id == (ovsdb.UUID{}) {
			return SwitchRef{}, fmt.Errorf("%s: no row has this UUID", s)
		}
		return SwitchRef{ID: origin.Network(id)}, nil
	}
	return SwitchRef{Name: s}, nil
}

func (r SwitchRef) IsZero() bool { return r == SwitchRef{} }

func (r SwitchRef) String() string {
	if r.Name != "" {
		return fmt.Sprintf("%q", r.Name)
	}
	return r.ID.String()
}

func CompareSwitchRefs(a, b SwitchRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.ID.Compare(b.ID))
}

// References counts the requests for each network. Source.mu guards it.
type References struct {
	Networks map[SwitchRef]int
	Compared map[string]int
}

func NewReferences() References {
	return References{make(map[SwitchRef]int), make(map[string]int)}
}

func (r *References) Sorted() []SwitchRef {
	return slices.SortedFunc(maps.Keys(r.Networks), CompareSwitchRefs)
}

func (r *References) Has(name string, id origin.Network) bool {
	return r.Networks[SwitchRef{Name: name}] > 0 || r.Networks[SwitchRef{ID: id}] > 0
}

// Count adds n, which may be negative. had reports a previous request.
func (r *References) Count(ref SwitchRef, n int) (had bool) {
	had = r.Networks[ref] > 0
	addCount(r.Networks, ref, n)
	return had
}

func (r *References) Compare(name string, n int) { addCount(r.Compared, name, n) }

func addCount[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] <= 0 {
		delete(counts, key)
	}
}
