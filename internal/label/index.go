// SPDX-License-Identifier: Apache-2.0

package label

import (
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/origin"
)

// Index finds a guest's values in time independent of their number. It is immutable once all are added.
type Index struct{ labels []indexedLabel }

type indexedLabel struct {
	Label
	numbers map[value]int
}

// Add adds a value, once, with the number that Find returns. The error says which values are valid.
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

// Find returns the lowest number of the guest's values, -1 for none. o is from guests.Guest.Origin: its VLAN
// is the tag that the switch strips, not the guest's.
func (x *Index) Find(o *origin.Origin) (lowest int) {
	lowest = -1
	x.each(o, func(n int) {
		if lowest < 0 || n < lowest {
			lowest = n
		}
	})
	return lowest
}

// AppendAll appends the numbers of the guest's values, in no order. o is as in Find.
func (x *Index) AppendAll(numbers []int, o *origin.Origin) []int {
	x.each(o, func(n int) { numbers = append(numbers, n) })
	return numbers
}

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

// HasKey reports whether a value of an external_ids label was added.
func (x *Index) HasKey() bool {
	return slices.ContainsFunc(x.labels, func(l indexedLabel) bool { _, ok := l.Key(); return ok })
}
