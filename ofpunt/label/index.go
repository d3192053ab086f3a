// SPDX-License-Identifier: Apache-2.0

package label

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
)

// Index finds which of many values the labels of a guest have, in time that depends on how many labels
// were added and not on how many values. It is immutable once all values are added.
type Index struct{ labels []indexedLabel }

type indexedLabel struct {
	Label
	// numbers has the number of each value.
	numbers map[value]int
}

// Add adds a value of a label with a number that Find returns. Each value may be added once. The error says
// which values the label has.
func (x *Index) Add(l Label, text string, number int) error {
	v, _, err := l.parse(text)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(x.labels, func(o indexedLabel) bool { return o.Name == l.Name })
	if i < 0 {
		i = len(x.labels)
		x.labels = append(x.labels, indexedLabel{l, map[value]int{}})
	}
	x.labels[i].numbers[v] = number
	return nil
}

// Find returns the lowest number of a value that a label of the guest has, -1 for none. o is what
// guests.Guest.Origin returns: its VLAN is the tag that the switch takes off and puts on, not a tag of the
// guest's own.
func (x *Index) Find(o *origin.Origin) (lowest int) {
	lowest = -1
	for i := range x.labels {
		l := &x.labels[i]
		v := l.read(o)
		if !l.isList {
			lowest = l.lower(v, lowest)
			continue
		}
		for one := range strings.SplitSeq(v.text, ",") {
			lowest = l.lower(value{text: one}, lowest)
		}
	}
	return lowest
}

// lower returns the number of a value if there is one and it is lower than the lowest so far, which is -1
// for none; else that.
func (l *indexedLabel) lower(v value, lowest int) int {
	if v.text == "" && l.number == nil && v.network.IsZero() {
		return lowest // the guest has no value
	}
	if n, ok := l.numbers[v]; ok && (lowest < 0 || n < lowest) {
		return n
	}
	return lowest
}

// Has reports whether a value of the label was added.
func (x *Index) Has(name string) bool {
	return slices.ContainsFunc(x.labels, func(l indexedLabel) bool { return l.Name == name })
}

// HasKey reports whether a value of a label for a key of external_ids was added.
func (x *Index) HasKey() bool {
	return slices.ContainsFunc(x.labels, func(l indexedLabel) bool { _, ok := l.Key(); return ok })
}
