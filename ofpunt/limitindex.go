// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/ofpunt/label"
)

// limitIndex finds the limit of a guest. It is immutable.
type limitIndex struct {
	limits []limit
	label.Index
}

func newLimitIndex(limits []limit) limitIndex {
	x := limitIndex{limits: limits}
	for i := range limits {
		l := &limits[i]
		if of, ok := label.Named(l.Label); ok {
			_ = x.Add(of, l.Value, i) // newLimit has checked the value
		}
	}
	return x
}

// addLimitRequests adds to r what limits need of the databases.
func addLimitRequests(r *ovndb.Requests, limits []limit) {
	var (
		named    []label.Label
		compared []string
	)
	for i := range limits {
		l := &limits[i]
		if of, ok := label.Named(l.Label); ok {
			named = append(named, of)
		}
		if name, ok := escape.Original(l.Value); ok && l.Label == label.Switch {
			compared = append(compared, name)
		}
	}
	label.AddRequests(r, named, compared)
}
