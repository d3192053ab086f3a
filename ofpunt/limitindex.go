// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/escape"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
)

// limitIndex finds the limit of a guest, in time that depends on how many labels limits name and
// not on how many limits there are. It is immutable.
type limitIndex struct {
	limits []limit
	labels []labelLimits
}

// labelLimits are the limits by one label: their indices by the value.
type labelLimits struct {
	label   label
	byValue map[string]int
}

func newLimitIndex(limits []limit) limitIndex {
	x := limitIndex{limits: limits}
	for i := range limits {
		l := &limits[i]
		n := slices.IndexFunc(x.labels, func(o labelLimits) bool { return o.label.name == l.Label })
		if n < 0 {
			n = len(x.labels)
			x.labels = append(x.labels, labelLimits{labelNamed(l.Label), make(map[string]int)})
		}
		x.labels[n].byValue[l.Value] = i // a value is given once
	}
	return x
}

// find returns the first limit, in the order of the Corefile, whose label the guest has with that
// value; -1 for none. Of o it reads what the switch and the databases say of a guest. VLAN is the
// tag that the switch takes off or puts on, and none that the guest has put on.
func (x *limitIndex) find(o *origin.Origin) int {
	first := -1
	for i := range x.labels {
		l := &x.labels[i]
		value := l.label.value(o)
		if l.label.name != routerLabel {
			first = earlier(first, l.byValue, value)
			continue
		}
		for router := range strings.SplitSeq(value, ",") {
			first = earlier(first, l.byValue, router)
		}
	}
	return first
}

// earlier returns the index of a value, if there is one and it is before the first so far, which
// is -1 for none; else that.
func earlier(first int, byValue map[string]int, value string) int {
	if i, ok := byValue[value]; ok && (first < 0 || i < first) {
		return i
	}
	return first
}

// names reports whether a limit is by that label.
func (x *limitIndex) names(label string) bool {
	return slices.ContainsFunc(x.labels, func(l labelLimits) bool { return l.label.name == label })
}

// namesKey reports whether a limit is by a key of external_ids.
func (x *limitIndex) namesKey() bool {
	return slices.ContainsFunc(x.labels, func(l labelLimits) bool { return strings.HasPrefix(l.label.name, externalIDLabel) })
}

// labelNamed returns the label of a name, which is one of labels or has a key of external_ids.
func labelNamed(name string) label {
	if i := slices.IndexFunc(labels[:], func(l label) bool { return l.name == name }); i >= 0 {
		return labels[i]
	}
	return newExternalIDLabel(strings.TrimPrefix(name, externalIDLabel))
}

// addLimitRequests adds to r what limits need of the databases.
func addLimitRequests(r *ovndb.Requests, limits []limit) {
	var (
		named    []label
		compared []string
	)
	for i := range limits {
		l := &limits[i]
		named = append(named, labelNamed(l.Label))
		if name, ok := escape.Original(l.Value); ok && l.Label == switchLabel {
			compared = append(compared, name)
		}
	}
	addLabelRequests(r, named, compared)
}
