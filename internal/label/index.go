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
	x.each(o, func(n int) {
		if lowest < 0 || n < lowest {
			lowest = n
		}
	})
	return lowest
}

// AppendAll appends the numbers of all values that labels of the guest have, in no order. o is what Find takes.
func (x *Index) AppendAll(numbers []int, o *origin.Origin) []int {
	x.each(o, func(n int) { numbers = append(numbers, n) })
	return numbers
}

// each calls f for the number of each value that a label of the guest has.
func (x *Index) each(o *origin.Origin, f func(number int)) {
	for i := range x.labels {
		l := &x.labels[i]
		v := l.read(o)
		if !l.isList {
			l.lookUp(v, f)
			continue
		}
		for one := range strings.SplitSeq(v.text, ",") {
			l.lookUp(value{text: one}, f)
		}
	}
}

// lookUp calls f for the number of a value, if there is one.
func (l *indexedLabel) lookUp(v value, f func(number int)) {
	if v.text == "" && l.number == nil && v.network.IsZero() {
		return // the guest has no value
	}
	if n, ok := l.numbers[v]; ok {
		f(n)
	}
}

// Has reports whether a value of the label was added.
func (x *Index) Has(name string) bool {
	return slices.ContainsFunc(x.labels, func(l indexedLabel) bool { return l.Name == name })
}

// HasKey reports whether a value of a label for a key of external_ids was added.
func (x *Index) HasKey() bool {
	return slices.ContainsFunc(x.labels, func(l indexedLabel) bool { _, ok := l.Key(); return ok })
}
